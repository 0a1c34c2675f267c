package state

import (
	"maps"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// fences are the term_starts seen, void ones included.
type fences struct {
	all     map[canon.Key]*fence
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
	at   canon.Key
	term cluster.Term
	cut  map[event.SourceID]uint64
}

func newFence(at canon.Key, body event.TermStart) *fence {
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
		f.all = make(map[canon.Key]*fence)
	}
	if _, ok := f.all[n.at]; ok {
		return false
	}
	f.all[n.at] = n
	if f.limit(n.at.Source, n.term) < n.at.Seq {
		return false // void from the start
	}
	f.version++
	for _, o := range f.live {
		if o.term < n.term && o.at.Seq > n.cut[o.at.Source] {
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
		if o.term < n.term || o.term == n.term && o.at.Less(n.at) {
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
		case a.term != b.term && a.term > b.term, a.term == b.term && a.at.Less(b.at):
			return -1
		}
		return 1
	})
	f.live = nil
	for _, n := range byTerm {
		if n.at.Seq <= f.limit(n.at.Source, n.term) {
			f.insert(n)
		}
	}
}

// settle drops the fences up to term, and the void ones, which nothing can
// bring back once what voids them is below a base.
func (f *fences) settle(term cluster.Term) {
	f.settled = term
	f.live = slices.DeleteFunc(slices.Clone(f.live), func(n *fence) bool { return n.term <= term })
	f.all = make(map[canon.Key]*fence, len(f.live))
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

// fork ends a source that signed two histories at event end: term_starts of it
// from there on are none.
func (f *fences) fork(id event.SourceID, end uint64) {
	maps.DeleteFunc(f.all, func(at canon.Key, _ *fence) bool { return at.Source == id && at.Seq >= end })
	f.recompute()
	f.version++
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
