package coord

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
)

// FileStore is a Store of two files in one directory.
type FileStore struct {
	dir     string
	cluster member.ClusterID
	self    cluster.NodeID
}

var _ Store = (*FileStore)(nil)

// Names of a FileStore's files.
const (
	voteFile    = "vote.json"
	recordsFile = "records.json"
	// maxVoteFile bounds what is read: a full record is below 2 KiB.
	maxVoteFile = 64 << 10
)

// ErrVoteFile is wrapped by the errors about a vote file that is there and
// cannot be believed. A voter that forgot its promises is a danger to the
// others, so nothing falls back to an empty record.
var ErrVoteFile = errors.New("unusable vote record")

// NewFileStore returns the Store of host self in an existing directory.
func NewFileStore(dir string, c member.ClusterID, self cluster.NodeID) *FileStore {
	return &FileStore{dir: dir, cluster: c, self: self}
}

// voteOnDisk is the content of the vote file. Sum is over Vote's bytes.
type voteOnDisk struct {
	Format  int              `json:"format"`
	Cluster member.ClusterID `json:"cluster"`
	Node    cluster.NodeID   `json:"node"`
	Vote    json.RawMessage  `json:"vote"`
	Sum     cluster.Hash     `json:"sha256"`
}

// LoadVote implements Store.
func (s *FileStore) LoadVote() (lease.VoteRecord, bool, error) {
	name := filepath.Join(s.dir, voteFile)
	data, err := readBounded(name, maxVoteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return lease.VoteRecord{}, false, nil
	}
	if err != nil {
		return lease.VoteRecord{}, false, fmt.Errorf("load vote: %w", err)
	}
	v, err := s.decodeVote(data)
	if err != nil {
		return lease.VoteRecord{}, false, fmt.Errorf("load vote: %s: %w: %w", name, ErrVoteFile, err)
	}
	return v, true, nil
}

func (s *FileStore) decodeVote(data []byte) (lease.VoteRecord, error) {
	var d voteOnDisk
	if err := json.Unmarshal(data, &d); err != nil {
		return lease.VoteRecord{}, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Vote); err != nil {
		return lease.VoteRecord{}, err
	}
	switch {
	case d.Format != 1:
		return lease.VoteRecord{}, fmt.Errorf("format %d", d.Format)
	case d.Cluster != s.cluster || d.Node != s.self:
		return lease.VoteRecord{}, fmt.Errorf("belongs to %s of cluster %s", d.Node, d.Cluster)
	case d.Sum != cluster.Hash(sha256.Sum256(compact.Bytes())):
		return lease.VoteRecord{}, errors.New("checksum does not match")
	}
	var v lease.VoteRecord
	if err := json.Unmarshal(d.Vote, &v); err != nil {
		return lease.VoteRecord{}, err
	}
	if !v.Config.IsZero() {
		if err := v.Config.Validate(); err != nil {
			return lease.VoteRecord{}, err
		}
	}
	return v, nil
}

// SaveVote implements Store.
func (s *FileStore) SaveVote(v lease.VoteRecord) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	data, err := json.Marshal(voteOnDisk{
		Format: 1, Cluster: s.cluster, Node: s.self, Vote: raw, Sum: cluster.Hash(sha256.Sum256(raw)),
	})
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(s.dir, voteFile), data, 0o600); err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	return nil
}

// SaveRecords implements Store.
func (s *FileStore) SaveRecords(rs member.Records) error {
	data, err := json.Marshal(rs)
	if err != nil {
		return fmt.Errorf("save membership records: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(s.dir, recordsFile), data, 0o600); err != nil {
		return fmt.Errorf("save membership records: %w", err)
	}
	return nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", name, info.Size(), limit)
	}
	return os.ReadFile(name)
}
