package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// maxRefusals is how many of the latest refusals are kept.
const maxRefusals = 16

// base is what a State that began with a snapshot must not change any more.
type base struct {
	sources map[event.SourceID]*source
	jobs    map[job.ID]bool
	tombs   map[job.ID]tomb // never changed
}

// Refusal is an event that would have changed the meaning of events below the
// base, which are no longer at hand. It has no effect.
type Refusal struct {
	Source event.SourceID `json:"source"`
	Seq    uint64         `json:"seq"`
	Kind   event.Kind     `json:"kind,omitempty"` // empty: a fork
	Reason string         `json:"reason"`
}

// Refused returns how many events were refused because they reach below the
// base, and the latest of them, the oldest first.
func (s *State) Refused() (n uint64, latest []Refusal) {
	return s.refused, slices.Clone(s.refusals)
}

// BaseSeq returns the position of a source in the base: no event up to it is
// needed again. It is 0 without a base.
func (s *State) BaseSeq(id event.SourceID) uint64 {
	if s.base != nil {
		if src, ok := s.base.sources[id]; ok {
			return src.seq
		}
	}
	return 0
}

// settle makes what is folded so far the base. Fences that can no longer
// change anything are dropped.
func (s *State) settle() {
	b := &base{
		sources: make(map[event.SourceID]*source, len(s.sources)), jobs: make(map[job.ID]bool, len(s.jobs)),
	}
	for id, src := range s.sources {
		b.sources[id] = src.clone()
	}
	for id, j := range s.jobs {
		if j.known {
			b.jobs[id] = true
		}
	}
	s.base = b
	s.tombs = standing(s.tombs)
	b.tombs = maps.Clone(s.tombs)
	s.fences.settle(s.settled())
}

func refusal(e *event.Event, reason string) Refusal {
	return Refusal{Source: e.Source, Seq: e.Seq, Kind: e.Kind, Reason: reason}
}

func (s *State) refuse(r Refusal) {
	s.refused++
	s.refusals = append(s.refusals, r)
	if len(s.refusals) > maxRefusals {
		s.refusals = slices.Delete(s.refusals, 0, 1)
	}
}

// reaches reports whether a fence of a term with this cut would void an event
// below the base.
func (b *base) reaches(f *fence) bool {
	if b == nil {
		return false
	}
	for id, src := range b.sources {
		for term, last := range src.last {
			if term < f.term && last > f.cut[id] {
				return true
			}
		}
	}
	return false
}

func (src *source) clone() *source {
	return &source{seq: src.seq, last: maps.Clone(src.last)}
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := *s
	c.scratch = nil
	c.fences = s.fences.clone()
	c.winners, c.tombs, c.groups = maps.Clone(s.winners), maps.Clone(s.tombs), maps.Clone(s.groups)
	c.onions = maps.Clone(s.onions)
	c.sources = make(map[event.SourceID]*source, len(s.sources))
	for id, src := range s.sources {
		c.sources[id] = src.clone()
	}
	c.members = make(map[cluster.NodeID]*member, len(s.members))
	for n, m := range s.members {
		copied := *m // what it points to is never changed
		c.members[n] = &copied
	}
	c.actions, c.published, c.refusals = slices.Clone(s.actions), slices.Clone(s.published), slices.Clone(s.refusals)
	c.terms = maps.Clone(s.terms) // as are the values
	c.releases = make(map[cluster.NodeID][]release, len(s.releases))
	for n, r := range s.releases {
		c.releases[n] = slices.Clone(r)
	}
	c.jobs = make(map[job.ID]*foldedJob, len(s.jobs))
	for id, j := range s.jobs {
		c.jobs[id] = j.clone()
	}
	return &c
}

func (j *foldedJob) clone() *foldedJob {
	c := *j
	c.parked, c.recent, c.chunks = slices.Clone(j.parked), slices.Clone(j.recent), slices.Clone(j.chunks)
	for i := range c.chunks {
		c.chunks[i].tries = slices.Clone(c.chunks[i].tries)
	}
	if j.metrics != nil {
		c.metrics = make(trees, len(j.metrics))
	}
	for name, t := range j.metrics {
		c.metrics[name] = t.clone()
	}
	if j.shares != nil {
		c.shares = make(map[cluster.NodeID]*share, len(j.shares))
	}
	for w, sh := range j.shares {
		copied := *sh
		c.shares[w] = &copied
	}
	return &c
}
