package state

import (
	"maps"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// fences are the term_starts seen, void ones included.
type fences struct {
	all     map[key]*fence
	live    []*fence // by term
	version uint64   // rises with every change of live
	// forks holds, per source that signed two histories, the first event in
	// which they differ; it is never changed in place.
	forks map[event.SourceID]uint64
	// settled is the term below which every event that is still to come is
	// void: the fences up to it are no longer kept.
	settled cluster.Term
}

type fence struct {
	at   key
	term cluster.Term
	cut  map[event.SourceID]uint64
}

func newFence(at key, body event.TermStart) *fence {
	f := &fence{at: at, term: body.Term, cut: make(map[event.SourceID]uint64, len(body.Cut))}
	for _, m := range body.Cut {
		if seq, ok := f.cut[m.Source]; !ok || m.Seq < seq {
			f.cut[m.Source] = m.Seq
		}
	}
	return f
}

func (f *fences) clone() fences {
	c := *f
	c.all, c.live = maps.Clone(f.all), slices.Clone(f.live)
	return c
}

// add learns a term_start and reports whether one that lived is void now.
func (f *fences) add(n *fence) (unseated bool) {
	if f.all == nil {
		f.all = make(map[key]*fence)
	}
	if _, ok := f.all[n.at]; ok {
		return false
	}
	f.all[n.at] = n
	if f.limit(n.at.src, n.term) < n.at.seq {
		return false // void from the start
	}
	f.version++
	for _, o := range f.live {
		if o.term < n.term && o.at.seq > n.cut[o.at.src] {
			unseated = true
		}
	}
	if unseated {
		f.recompute()
		return true
	}
	f.insert(n)
	return false
}

func (f *fences) insert(n *fence) {
	i, _ := slices.BinarySearchFunc(f.live, n, func(o, n *fence) int {
		if o.term < n.term || o.term == n.term && o.at.less(n.at) {
			return -1
		}
		return 1
	})
	f.live = slices.Insert(f.live, i, n)
}

// recompute decides from the highest term down which fences live: only a live
// one of a higher term can void one of a lower.
func (f *fences) recompute() {
	byTerm := slices.SortedFunc(maps.Values(f.all), func(a, b *fence) int {
		switch {
		case a.term != b.term && a.term > b.term, a.term == b.term && a.at.less(b.at):
			return -1
		}
		return 1
	})
	f.live = nil
	for _, n := range byTerm {
		if n.at.seq <= f.limit(n.at.src, n.term) {
			f.insert(n)
		}
	}
}

// settle drops the fences up to term, and the void ones, which nothing can
// bring back once what voids them is below a base.
func (f *fences) settle(term cluster.Term) {
	f.settled = term
	f.live = slices.DeleteFunc(slices.Clone(f.live), func(n *fence) bool { return n.term <= term })
	f.all = make(map[key]*fence, len(f.live))
	for _, n := range f.live {
		f.all[n.at] = n
	}
	f.version++
}

// limit is the last event of src in term that no higher term has fenced off.
func (f *fences) limit(src event.SourceID, term cluster.Term) uint64 {
	if term < f.settled {
		return 0
	}
	limit := uint64(math.MaxUint64)
	for _, n := range slices.Backward(f.live) {
		if n.term <= term {
			break
		}
		limit = min(limit, n.cut[src])
	}
	return limit
}

// Limit returns the last event of a source that counts in a term: what stands
// behind it is void. It speaks of events beyond the base.
func (s *State) Limit(id event.SourceID, term cluster.Term) uint64 { return s.fences.limit(id, term) }

// Void reports whether a higher term has fenced e off. Below the base that is
// settled and no longer known: there it answers false.
func (s *State) Void(e event.Event) bool {
	if !e.Kind.Authority() || e.Seq <= s.BaseSeq(e.Source) {
		return false
	}
	return e.Seq > s.fences.limit(e.Source, e.Term)
}

// isVoid reports whether a higher term has fenced e off.
func (s *State) isVoid(src *source, e *event.Event) bool {
	if src.version != s.fences.version || src.term != e.Term || src.version == 0 {
		src.term, src.version = e.Term, s.fences.version
		src.fence = s.fences.limit(e.Source, e.Term)
	}
	return e.Seq > src.fence
}

// settled returns the highest term of which it is known that every event of a
// lower one that is still to come, from whatever source, is void. That is so
// as soon as all that the cuts of it and higher terms let through is applied.
func (s *State) settled() cluster.Term {
	// The sources that the fences looked at so far leave room for.
	var room map[event.SourceID]bool
	live := s.fences.live
	for i, f := range slices.Backward(live) {
		next := make(map[event.SourceID]bool)
		for src, seq := range f.cut {
			if (room == nil || room[src]) && seq > s.Seq(src) && !s.ended(src) {
				next[src] = true
			}
		}
		room = next
		if len(room) == 0 {
			return live[i].term
		}
	}
	return s.fences.settled
}
