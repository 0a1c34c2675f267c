package state

import (
	"maps"

	"github.com/skein-project/skein/cluster"
)

// Fork tells that a source signed two histories that differ from its event seq
// on, which is at least 1. No event of it from there on counts, on whichever of
// them it stands; of several forks of a source the lowest counts. Like Apply it
// reports true when the caller must call Refold before reading the State.
func (s *State) Fork(id cluster.SourceID, seq uint64) (rebuild bool) {
	f := &s.fences
	if old, ok := f.forks[id]; ok && old <= seq || seq == 0 {
		return false
	}
	f.forks = maps.Clone(f.forks)
	if f.forks == nil {
		f.forks = make(map[cluster.SourceID]uint64)
	}
	f.forks[id] = seq
	maps.DeleteFunc(f.all, func(at key, _ *fence) bool { return at.src == id && at.seq >= seq })
	f.recompute()
	f.version++
	if src, ok := s.sources[id]; !ok || src.seq < seq {
		return false
	}
	clear(s.winners)
	return true
}

// Forks returns the sources that signed two histories, and the first event in
// which these differ.
func (s *State) Forks() map[cluster.SourceID]uint64 { return maps.Clone(s.fences.forks) }
