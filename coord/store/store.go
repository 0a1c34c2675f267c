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
	slots   bool   // the vote file has slots, and the newest write is in its own
}

// Names of the files.
const (
	voteFile   = "vote.json"
	writesFile = "vote.count"
	// slotSize is that of one slot of the vote file: a block of the file system,
	// so that a torn write cannot reach the other. A full record is below 2 KiB.
	slotSize = 4096
	// maxVoteFile bounds what is read: format 1 had no slots.
	maxVoteFile = 64 << 10
)

// New returns the Store of host self in an existing directory.
func New(dir string, c member.ClusterID, self cluster.NodeID) *File {
	return &File{dir: dir, cluster: c, self: self}
}

// voteOnDisk is one slot of the vote file, a line of JSON. The file has two, which
// are written in turn, in place: that costs one write to the disk, and a write
// that a power loss tears leaves the record before it. Writes counts the writes; an
// even one is in the first slot. The same number is in a file of its own, which is
// written after and without waiting for the disk: it may lag behind, so a vote
// file that lags behind it is an old one. Format 1 was a single record.
type voteOnDisk struct {
	Format  int              `json:"format"`
	Writes  uint64           `json:"writes"`
	Cluster member.ClusterID `json:"cluster"`
	Node    cluster.NodeID   `json:"node"`
	Vote    json.RawMessage  `json:"vote"`
	Sum     cluster.Hash     `json:"sha256"`
}

// sum is the checksum over a record, of which vote is the compact JSON. That of
// format 1 is over the vote alone.
func (d *voteOnDisk) sum(vote []byte) cluster.Hash {
	if d.Format != 1 {
		vote = fmt.Appendf(nil, "%d %s %s %s", d.Writes, d.Cluster, d.Node, vote)
	}
	return cluster.Hash(sha256.Sum256(vote))
}

// LoadVote implements election.Store. A file that is damaged, old, another host's or
// of an unknown format is election.ErrVoteLost: a voter that forgot its promises is a
// danger to the others, so nothing falls back to an empty record.
func (s *File) LoadVote() (lease.VoteRecord, bool, error) {
	v, found, err := s.loadVote()
	switch {
	case errors.Is(err, election.ErrVoteLost):
		err = fmt.Errorf("load vote: %s: %w", filepath.Join(s.dir, voteFile), err)
	case err != nil:
		err = fmt.Errorf("load vote: %w", err) // it has the path
	}
	return v, found, err
}

func (s *File) loadVote() (lease.VoteRecord, bool, error) {
	counted := s.counted()
	s.writes, s.slots = counted, false
	data, err := readBounded(filepath.Join(s.dir, voteFile), maxVoteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return lease.VoteRecord{}, false, nil
	}
	if err != nil {
		return lease.VoteRecord{}, false, err
	}
	v, writes, damaged, err := s.newest(data)
	switch {
	case err != nil:
	case writes < counted:
		err = fmt.Errorf("%w: it is of write %d, the last was %d or later", election.ErrVoteLost, writes, counted)
	case damaged != nil && counted == 0:
		err = damaged // nothing says that it was not the newer one
	}
	if err != nil {
		return lease.VoteRecord{}, false, err
	}
	s.writes, s.slots = writes, len(data) == 2*slotSize
	return v, true, nil
}

// newest returns the newest record of a vote file and which write it is. damaged
// says what is wrong with the other slot: the write after was torn.
func (s *File) newest(data []byte) (v lease.VoteRecord, writes uint64, damaged, err error) {
	if len(data) != 2*slotSize {
		v, writes, err = s.decodeVote(data)
		return v, writes, nil, err
	}
	found := false
	for slot := range uint64(2) {
		line := bytes.TrimRight(data[slot*slotSize:][:slotSize], " \n")
		if len(line) == 0 {
			continue // not written yet
		}
		got, n, err := s.decodeVote(line)
		if err == nil && n%2 != slot {
			err = fmt.Errorf("%w: write %d is in slot %d", election.ErrVoteLost, n, slot)
		}
		switch {
		case err != nil:
			damaged = err
		case !found || n > writes:
			v, writes, found = got, n, true
		}
	}
	if !found && damaged == nil {
		damaged = fmt.Errorf("%w: nothing is in it", election.ErrVoteLost)
	}
	if !found {
		return v, 0, nil, damaged
	}
	return v, writes, damaged, nil
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

// unreadable says where a vote record stops being one, in other words than those of a
// decoder.
func unreadable(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w: damaged at byte %d", election.ErrVoteLost, syntax.Offset)
	}
	return fmt.Errorf("%w: not as it was written", election.ErrVoteLost)
}

func (s *File) decodeVote(data []byte) (lease.VoteRecord, uint64, error) {
	var d voteOnDisk
	if err := json.Unmarshal(data, &d); err != nil {
		return lease.VoteRecord{}, 0, unreadable(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Vote); err != nil {
		return lease.VoteRecord{}, 0, unreadable(err)
	}
	switch {
	case d.Format != 1 && d.Format != 2:
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: format %d", election.ErrVoteLost, d.Format)
	case d.Sum != d.sum(compact.Bytes()):
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: checksum does not match", election.ErrVoteLost)
	case d.Cluster != s.cluster || d.Node != s.self:
		return lease.VoteRecord{}, 0, fmt.Errorf("%w: it belongs to %q of cluster %s", election.ErrVoteLost, d.Node, d.Cluster)
	}
	var v lease.VoteRecord
	if err := json.Unmarshal(d.Vote, &v); err != nil {
		return lease.VoteRecord{}, 0, unreadable(err)
	}
	if !v.Config.IsZero() {
		if err := v.Config.Validate(); err != nil {
			return lease.VoteRecord{}, 0, fmt.Errorf("%w: %w", election.ErrVoteLost, err)
		}
	}
	return v, d.Writes, nil
}

// CheckVote says what is wrong with the vote record; ran says that the daemon has
// run before, so that there must be one.
func (s *File) CheckVote(ran bool) error {
	probe := New(s.dir, s.cluster, s.self) // loading decides how the next write goes
	_, found, err := probe.loadVote()
	switch {
	case errors.Is(err, election.ErrVoteLost):
		return durable.Votes.Damaged(s.dir, "%v", err)
	case err == nil && !found && ran:
		return durable.Votes.Missing(s.dir)
	}
	return err
}

// SaveVote implements election.Store.
func (s *File) SaveVote(v lease.VoteRecord) error {
	slot, err := s.encodeVote(v)
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	name, at := filepath.Join(s.dir, voteFile), slotSize*int((s.writes+1)%2)
	if s.slots {
		s.slots = false // until this is on the disk nobody knows what the slot holds
		err = overwrite(name, slot, at, durable.SyncData)
	} else {
		data := bytes.Repeat([]byte(" "), 2*slotSize)
		copy(data[at:], slot)
		err = durable.WriteFile(name, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save vote: %w", err)
	}
	s.writes++
	s.slots = true
	name = filepath.Join(s.dir, writesFile)
	count := fmt.Appendf(nil, "%020d\n", s.writes)
	if overwrite(name, count, 0, func(*os.File) error { return nil }) != nil {
		// Should this fail too, an old vote file is noticed a little less well.
		_ = os.WriteFile(name, count, 0o600)
	}
	return nil
}

// encodeVote returns the slot of the next write.
func (s *File) encodeVote(v lease.VoteRecord) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := voteOnDisk{Format: 2, Writes: s.writes + 1, Cluster: s.cluster, Node: s.self, Vote: raw}
	d.Sum = d.sum(raw)
	line, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(line) >= slotSize {
		return nil, fmt.Errorf("the record has %d bytes, at most %d", len(line), slotSize-1)
	}
	slot := bytes.Repeat([]byte(" "), slotSize)
	copy(slot, line)
	slot[slotSize-1] = '\n'
	return slot, nil
}

// overwrite writes data into an existing file, in place, and has it synced.
func overwrite(name string, data []byte, at int, sync func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, int64(at)); err == nil {
		err = sync(f)
	}
	return errors.Join(err, f.Close())
}

// SaveRecords replaces the saved membership records.
func (s *File) SaveRecords(rs member.Records) error {
	data, err := json.Marshal(rs)
	if err != nil {
		return fmt.Errorf("save membership records: %w", err)
	}
	if err := durable.Records.Write(s.dir, data); err != nil {
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
		return nil, fmt.Errorf("%w: %d bytes, at most %d", election.ErrVoteLost, info.Size(), limit)
	}
	return os.ReadFile(name)
}
