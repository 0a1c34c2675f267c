package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state/canon"
	"github.com/skein-project/skein/eventlog/state/jobs"
)

// format is a version of the canonical bytes.
type format struct{ magic, hash string }

// What begins the encoding of a State, its last byte being the version, and what
// begins the bytes that Hash is over. A State without what a version added is written
// as before: programs of both versions agree on it, and nobody makes the first user,
// lets the first worker in from outside, or submits the first workflow, before all
// members that live know what that is.
var (
	format3  = format{magic: "skstate\x03", hash: "state3"}
	format4  = format{magic: "skstate\x04", hash: "state4"}  // with users and owners
	format5  = format{magic: "skstate\x05", hash: "state5"}  // and who is let in from outside
	format6  = format{magic: "skstate\x06", hash: "state6"}  // and runs of workflows
	format7  = format{magic: "skstate\x07", hash: "state7"}  // and when some begin by themselves
	format8  = format{magic: "skstate\x08", hash: "state8"}  // and artefacts that are kept with jobs
	format9  = format{magic: "skstate\x09", hash: "state9"}  // and load tests
	format10 = format{magic: "skstate\x0a", hash: "state10"} // and jobs with files
	format11 = format{magic: "skstate\x0b", hash: "state11"} // and jobs with checkpoints, reservations
	format12 = format{magic: "skstate\x0c", hash: "state12"} // and jobs that move between zones
	format13 = format{magic: "skstate\x0d", hash: "state13"} // and on which workers chunks were given up
)

// format is the version in which s is written.
func (s *State) format() format {
	switch {
	case jobs.HaveGivenUp(s.jobs):
		return format13
	case jobs.Placed(s.jobs):
		return format12
	case jobs.HaveCheckpoints(s.jobs), len(s.reservations) > 0:
		return format11
	case jobs.HaveFiles(s.jobs):
		return format10
	case !s.loads.Empty():
		return format9
	case jobs.Keeps(s.jobs):
		return format8
	case !s.schedules.Empty():
		return format7
	case !s.flows.Empty():
		return format6
	case !s.outside.Empty():
		return format5
	case len(s.users.set) > 0 || len(s.owners) > 0:
		return format4
	}
	return format3
}

// versions are those that Decode reads, by their magic.
var versions = map[string]format{format3.magic: format3, format4.magic: format4, format5.magic: format5, format6.magic: format6, format7.magic: format7, format8.magic: format8, format9.magic: format9, format10.magic: format10, format11.magic: format11, format12.magic: format12, format13.magic: format13}

// magicLen is the length of every magic.
const magicLen = len("skstate\x03")

// MaxEncoded is the longest encoding that Decode reads, in bytes.
const MaxEncoded = 1 << 30

// ErrStale says that a State waits for Refold and means nothing until then.
var ErrStale = errors.New("state is stale: it must be folded again")

// ErrEncoding is wrapped by every error of Decode.
var ErrEncoding = canon.ErrEncoding

// AppendBinary appends the canonical bytes of the whole State to dst: equal
// wherever the same events were applied, whatever their order, so also for a
// State that began with a snapshot. A stale State has none.
//
// They are a magic, the length of the meaning in eight bytes, the meaning, whose
// hash Hash is, and what is needed to go on: positions, fences, and the events
// that wait for a submission. A fence of a lower term than settled says is not
// among them, nor are submissions that lost: both follow from the rest.
func (s *State) AppendBinary(dst []byte) ([]byte, error) {
	if s.stale {
		return dst, ErrStale
	}
	dst = append(dst, s.format().magic...)
	at := len(dst)
	w := canon.NewWriter(append(dst, make([]byte, 8)...))
	s.writeMeaning(w)
	b := w.Written()
	binary.BigEndian.PutUint64(b[at:], uint64(len(b)-at-8))
	w = canon.NewWriter(b)
	s.writeProgress(w)
	return w.Written(), nil
}

// Hash is the SHA-256 of "state3", "state4", "state5", "state6", "state7", "state8", "state9", "state10", "state11", "state12" or "state13" and the meaning of the State in canonical
// bytes: equal on every host that applied the same events, whatever their
// order, and different when a job, a term, a member, an action or the voters
// differ. Positions of sources are not part of it: an event without effect
// leaves it unchanged.
func (s *State) Hash() cluster.Hash {
	w := canon.NewHasher(s.format().hash)
	s.writeMeaning(w)
	return w.Sum()
}

// Decode reads what AppendBinary wrote, and refuses all else: the bytes of a
// State are unique. It takes at most some hundred bytes of memory per byte of b,
// usually about three. What b holds is the base of the State: an event that
// reaches below it is refused, see Refused, and Refold of the State takes it, or
// a later one, as its base.
func Decode(b []byte) (*State, error) {
	if len(b) > MaxEncoded {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrEncoding, len(b), MaxEncoded)
	}
	if len(b) < magicLen+8 {
		return nil, fmt.Errorf("%w: cut short", ErrEncoding)
	}
	version, ok := versions[string(b[:magicLen])]
	if !ok {
		return nil, fmt.Errorf("%w: unknown version", ErrEncoding)
	}
	r := canon.NewReader(b[magicLen:])
	meaning := r.Bytes(r.Fixed())
	rest := r.Rest()
	if !r.OK() {
		return nil, r.Err()
	}
	s := New()
	r = canon.NewReader(meaning)
	s.readMeaning(r, version)
	r.Check(r.Len() == 0, "length")
	if !r.OK() {
		return nil, r.Err()
	}
	r = canon.NewReader(rest)
	s.readProgress(r)
	r.Check(r.Len() == 0, "length")
	if !r.OK() {
		return nil, r.Err()
	}
	// Order, repetitions, long varints, values that nothing sets: whatever is
	// not canonical is written in another way.
	if again, err := s.AppendBinary(make([]byte, 0, len(b))); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: another encoding has the same meaning", ErrEncoding)
	}
	s.settle()
	return s, nil
}

// writeMeaning has each part write what it means, in the order of
// docs/state-format.md.
func (s *State) writeMeaning(w *canon.Writer) {
	s.hosts.write(w)
	s.leaseHistory.write(w)
	s.writeForks(w)
	s.groups.write(w)
	s.onions.write(w)
	version := s.format()
	if version != format3 {
		s.users.write(w)
		s.owners.write(w)
	}
	if version.magic >= format5.magic {
		s.outside.Write(w)
	}
	if version.magic >= format6.magic {
		s.flows.Write(w)
	}
	if version.magic >= format7.magic {
		s.schedules.Write(w)
	}
	s.jobs.Write(w)
	if version.magic >= format8.magic {
		s.jobs.WriteKept(w)
	}
	if version.magic >= format9.magic {
		s.loads.Write(w)
	}
	if version.magic >= format10.magic {
		jobs.WriteOutputs(s.jobs, w)
	}
	if version.magic >= format11.magic {
		jobs.WriteCheckpoints(s.jobs, w)
		s.reservations.write(w)
	}
	if version.magic >= format12.magic {
		jobs.WriteZones(s.jobs, w)
	}
	if version.magic >= format13.magic {
		jobs.WriteGivenUp(s.jobs, w)
	}
}

func (s *State) readMeaning(r *canon.Reader, version format) {
	s.hosts.read(r)
	s.leaseHistory.read(r)
	s.readForks(r)
	s.groups.read(r)
	s.onions.read(r)
	if version != format3 {
		s.users.read(r)
		s.owners.read(r)
	}
	if version.magic >= format5.magic {
		s.outside.Read(r)
	}
	if version.magic >= format6.magic {
		s.flows.Read(r)
	}
	if version.magic >= format7.magic {
		s.schedules.Read(r)
	}
	s.jobs.Read(r)
	if version.magic >= format8.magic {
		s.jobs.ReadKept(r)
	}
	if version.magic >= format9.magic {
		s.loads.Read(r)
	}
	if version.magic >= format10.magic {
		jobs.ReadOutputs(s.jobs, r)
	}
	if version.magic >= format11.magic {
		jobs.ReadCheckpoints(s.jobs, r)
		s.reservations.read(r)
	}
	if version.magic >= format12.magic {
		jobs.ReadZones(s.jobs, r)
	}
	if version.magic >= format13.magic {
		jobs.ReadGivenUp(s.jobs, r)
	}
}

// writeProgress writes what Apply needs beyond the meaning.
func (s *State) writeProgress(w *canon.Writer) {
	applied, void, malformed := s.Counts()
	for _, n := range [...]uint64{applied, void, malformed} {
		w.Num(n)
	}
	s.chains.writeProgress(w)
	s.jobs.WriteProgress(w)
}

func (s *State) readProgress(r *canon.Reader) {
	s.applied, s.void = r.Num(), r.Num()
	malformed := r.Num()
	s.chains.readProgress(r)
	s.jobs.ReadProgress(r, malformed)
	s.malformed = malformed - s.jobs.Malformed()
}
