package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster/event"
)

// Fork tells that a source signed two histories that differ from its event seq
// on, which is at least 1. No event of it from there on counts, on whichever of
// them it stands, except what lies below the base; of several forks of a source
// the lowest counts. Like Apply it reports true when the caller must call
// Refold before reading the State.
func (s *State) Fork(id event.SourceID, seq uint64) (rebuild bool) {
	f := &s.fences
	if old, ok := f.forks[id]; ok && old <= seq || seq == 0 {
		return false
	}
	f.forks = lowest(f.forks, map[event.SourceID]uint64{id: seq})
	s.refuseFork(id, seq)
	end, _ := s.end(id)
	maps.DeleteFunc(f.all, func(at key, _ *fence) bool { return at.src == id && at.seq >= end })
	f.recompute()
	f.version++
	if s.Seq(id) < end {
		return false
	}
	clear(s.winners)
	s.unbury()
	s.stale = true
	return true
}

// lowest returns the forks of both, of two of a source the lower.
func lowest(a, b map[event.SourceID]uint64) map[event.SourceID]uint64 {
	out := make(map[event.SourceID]uint64, len(a)+len(b))
	maps.Copy(out, a)
	for id, seq := range b {
		if old, ok := out[id]; !ok || seq < old {
			out[id] = seq
		}
	}
	return out
}

// end returns the first event of a forked source that does not count.
func (s *State) end(id event.SourceID) (seq uint64, forked bool) {
	seq, forked = s.fences.forks[id]
	return max(seq, s.BaseSeq(id)+1), forked
}

// ended reports whether no event of a source that is still to come counts.
func (s *State) ended(id event.SourceID) bool {
	end, forked := s.end(id)
	return forked && s.Seq(id)+1 >= end
}

func (s *State) refuseFork(id event.SourceID, seq uint64) {
	if seq <= s.BaseSeq(id) {
		s.refuse(Refusal{Source: id, Seq: seq, Reason: "its source forked below the base"})
	}
}

// refuseForks names again, after a rebuild, the forks that lie below the base.
func (s *State) refuseForks() {
	for _, id := range slices.SortedFunc(maps.Keys(s.fences.forks), event.SourceID.Compare) {
		s.refuseFork(id, s.fences.forks[id])
	}
}

// Forks returns the sources that signed two histories, and the first event in
// which these differ.
func (s *State) Forks() map[event.SourceID]uint64 { return maps.Clone(s.fences.forks) }
