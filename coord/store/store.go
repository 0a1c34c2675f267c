package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
)

// File is what must survive a restart, in one directory: the vote record, how
// often it was written, and the membership records. It is for one goroutine, but
// for SaveRecords.
type File struct {
	dir     string
	cluster member.ClusterID
	self    cluster.NodeID
	writes  uint64 // of the vote record, over all starts
}

// Names of the files.
const (
	voteFile    = "vote.json"
	writesFile  = "vote.count"
	recordsFile = "records.json"
	// maxVoteFile bounds what is read: a full record is below 2 KiB.
	maxVoteFile = 64 << 10
)

// ErrVoteFile says that a vote file is not this host's, or of another format:
// somebody must look. A voter that forgot its promises is a danger to the
// others, so nothing falls back to an empty record. One that is damaged or old
// is election.ErrVoteLost.
var ErrVoteFile = errors.New("unusable vote record")

// New returns the Store of host self in an existing directory.
func New(dir string, c member.ClusterID, self cluster.NodeID) *File {
	return &File{dir: dir, cluster: c, self: self}
}

// voteOnDisk is the content of the vote file. Sum is over Vote's bytes. Writes
// counts how often the file was written. The same number is in a file of its
// own, which is written after and without waiting for the disk: it may lag
// behind, so a vote file that lags behind it is an old one.
type voteOnDisk struct {
	Format  int              `json:"format"`
	Writes  uint64           `json:"writes"`
	Cluster member.ClusterID `json:"cluster"`
	Node    cluster.NodeID   `json:"node"`
	Vote    json.RawMessage  `json:"vote"`
	Sum     cluster.Hash     `json:"sha256"`
}

// LoadVote implements election.Store.
func (s *File) LoadVote() (lease.VoteRecord, bool, error) {
	name := filepath.Join(s.dir, voteFile)
	data, err := readBounded(name, maxVoteFile)
	if errors.Is(err, fs.ErrNotExist) {
		s.writes = s.counted()
		return lease.VoteRecord{}, false, nil
	}
	if err != nil {
		return lease.VoteRecord{}, false, fmt.Errorf("load vote: %w", err)
	}
	v, writes, err := s.decodeVote(data)
	if counted := s.counted(); err == nil && writes < counted {
		err = fmt.Errorf("%w: it is of write %d, the last was %d or later", election.ErrVoteLost, writes, counted)
	}
	s.writes = max(writes, s.counted())
	if err != nil {
		return lease.VoteRecord{}, false, fmt.Errorf("load vote: %s: %w", name, err)
	}
	return v, true, nil
}

// counted is the number of writes by the file of its own, 0 if that is missing
// or damaged.
func (s *File) counted() uint64 {
	data, err := readBounded(filepath.Join(s.dir, writesFile), 32)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(string(data), "\n"), 10, 64)
	if err != nil || !strings.HasSuffix(string(data), "\n") {
		return 0 // torn, perhaps a shorter number than it was
	}
	return n
}

func (s *File) decodeVote(data []byte) (lease.VoteRecord, uint64, error) {
	var d voteOnDisk
	if err := json.Unmarshal(data, &d); err != nil {
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: %w", election.ErrVoteLost, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Vote); err != nil {
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: %w", election.ErrVoteLost, err)
	}
	switch {
	case d.Format != 1:
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: format %d", ErrVoteFile, d.Format)
	case d.Cluster != s.cluster || d.Node != s.self:
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: belongs to %q of cluster %s", ErrVoteFile, d.Node, d.Cluster)
	case d.Sum != cluster.Hash(sha256.Sum256(compact.Bytes())):
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: checksum does not match", election.ErrVoteLost)
	}
	var v lease.VoteRecord
	if err := json.Unmarshal(d.Vote, &v); err != nil {
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: %w", election.ErrVoteLost, err)
	}
	if !v.Config.IsZero() {
		if err := v.Config.Validate(); err != nil {
			return lease.VoteRecord{}, 0, fmt.Errorf("%w: %w", election.ErrVoteLost, err)
		}
	}
	return v, d.Writes, nil
}

// SaveVote implements election.Store.
func (s *File) SaveVote(v lease.VoteRecord) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	data, err := json.Marshal(voteOnDisk{
		Format: 1, Writes: s.writes + 1, Cluster: s.cluster, Node: s.self, Vote: raw, Sum: cluster.Hash(sha256.Sum256(raw)),
	})
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(s.dir, voteFile), data, 0o600); err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	s.writes++
	// Should this fail, an old vote file is noticed a little less well.
	_ = os.WriteFile(filepath.Join(s.dir, writesFile), fmt.Appendln(nil, s.writes), 0o600)
	return nil
}

// SaveRecords replaces the saved membership records.
func (s *File) SaveRecords(rs member.Records) error {
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
