package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// maxRefusals is how many of the latest refusals are kept.
const maxRefusals = 16

// chains says which events count: how far the chain of each source was read,
// what fences and forks make void, and what the base has settled.
type chains struct {
	fences  fences                     // kept by a rebuild
	base    map[event.SourceID]*source // up to where no event can change anything any more; nil: nothing
	sources map[event.SourceID]*source

	refused  uint64
	refusals []Refusal // the latest, oldest first
}

// source is what is known of one chain.
type source struct {
	seq uint64 // last applied
	// last holds, per term, the last authority event that counted.
	last map[cluster.Term]uint64
	// The fence that applied last: events of term up to fence live.
	term    cluster.Term
	fence   uint64
	version uint64 // of the fences it was computed from
}

// Refusal is an event that would have changed the meaning of events below the
// base, which are no longer at hand. It has no effect.
type Refusal struct {
	Source event.SourceID `json:"source"`
	Seq    uint64         `json:"seq"`
	Kind   event.Kind     `json:"kind,omitempty"` // empty: a fork
	Reason string         `json:"reason"`
}

func newChains() chains { return chains{sources: make(map[event.SourceID]*source)} }

func (c *chains) clone() chains {
	o := *c
	o.fences, o.sources, o.refusals = c.fences.clone(), cloneSources(c.sources), slices.Clone(c.refusals)
	return o // the base is never changed
}

func cloneSources(sources map[event.SourceID]*source) map[event.SourceID]*source {
	out := make(map[event.SourceID]*source, len(sources))
	for id, src := range sources {
		out[id] = &source{seq: src.seq, last: maps.Clone(src.last)}
	}
	return out
}

// setBase makes what was applied so far the base. Fences that can no longer
// change anything are dropped.
func (c *chains) setBase() {
	c.base = cloneSources(c.sources)
	c.fences.settle(c.settled())
}

// rebase begins a rebuild: from the first event, or on a base, which has been
// made one by setBase.
func (c *chains) rebase(on *chains) {
	switch {
	case on != nil:
		forks := lowest(on.fences.forks, c.fences.forks)
		c.fences = on.fences.clone()
		c.fences.forks = forks
	case c.base != nil:
		c.fences, c.base = fences{forks: c.fences.forks}, nil
	}
}

// inherit takes over the fences of a pass of a rebuild for the next one. Forks
// that lie below the base are refused once more.
func (c *chains) inherit(from *chains) {
	c.fences = from.fences
	for _, id := range slices.SortedFunc(maps.Keys(c.fences.forks), event.SourceID.Compare) {
		c.refuseFork(id, c.fences.forks[id])
	}
}

func (c *chains) source(id event.SourceID) *source {
	src, ok := c.sources[id]
	if !ok {
		src = &source{last: make(map[cluster.Term]uint64)}
		c.sources[id] = src
	}
	return src
}

// isVoid reports whether a higher term has fenced e off.
func (c *chains) isVoid(src *source, e *event.Event) bool {
	if src.version != c.fences.version || src.term != e.Term || src.version == 0 {
		src.term, src.version = e.Term, c.fences.version
		src.fence = c.fences.limit(e.Source, e.Term)
	}
	return e.Seq > src.fence
}

// termStart learns a term_start, which is in order, and says whether it counts
// and whether events that counted before are void now.
func (c *chains) termStart(src *source, e *event.Event, b event.TermStart) (counts, rebuild bool) {
	f := newFence(canon.KeyOf(e), b)
	// What others did who held at the same time is not void for that: where it
	// collides, the first counts.
	fencing := !b.Split
	if fencing && voids(f, c.base) {
		c.refuse(e, "its cut voids events below the base")
		return false, false
	}
	unseated := fencing && c.fences.add(f)
	if c.isVoid(src, e) {
		return false, unseated
	}
	src.last[e.Term] = e.Seq
	return true, unseated || fencing && voids(f, c.sources)
}

// voids reports whether a fence lies before an event that counted.
func voids(f *fence, sources map[event.SourceID]*source) bool {
	for id, src := range sources {
		for term, last := range src.last {
			if term < f.term && last > f.cut[id] {
				return true
			}
		}
	}
	return false
}

// fork ends the chain of a source before event seq, and reports whether events
// that were applied no longer count.
func (c *chains) fork(id event.SourceID, seq uint64) (rebuild bool) {
	if old, ok := c.fences.forks[id]; ok && old <= seq || seq == 0 {
		return false
	}
	c.fences.forks = lowest(c.fences.forks, map[event.SourceID]uint64{id: seq})
	c.refuseFork(id, seq)
	end, _ := c.end(id)
	c.fences.fork(id, end)
	return c.Seq(id) >= end
}

// end returns the first event of a forked source that does not count.
func (c *chains) end(id event.SourceID) (seq uint64, forked bool) {
	seq, forked = c.fences.forks[id]
	return max(seq, c.BaseSeq(id)+1), forked
}

// ended reports whether no event of a source that is still to come counts.
func (c *chains) ended(id event.SourceID) bool {
	end, forked := c.end(id)
	return forked && c.Seq(id)+1 >= end
}

// settled returns the highest term of which it is known that every event of a
// lower one that is still to come, from whatever source, is void. That is so
// as soon as all that the cuts of it and higher terms let through is applied.
func (c *chains) settled() cluster.Term {
	// The sources that the fences looked at so far leave room for.
	var room map[event.SourceID]bool
	live := c.fences.live
	for i, f := range slices.Backward(live) {
		next := make(map[event.SourceID]bool)
		for src, seq := range f.cut {
			if (room == nil || room[src]) && seq > c.Seq(src) && !c.ended(src) {
				next[src] = true
			}
		}
		room = next
		if len(room) == 0 {
			return live[i].term
		}
	}
	return c.fences.settled
}

// refuse keeps that e would have changed what the base holds.
func (c *chains) refuse(e *event.Event, reason string) {
	c.keep(Refusal{Source: e.Source, Seq: e.Seq, Kind: e.Kind, Reason: reason})
}

func (c *chains) refuseFork(id event.SourceID, seq uint64) {
	if seq <= c.BaseSeq(id) {
		c.keep(Refusal{Source: id, Seq: seq, Reason: "its source forked below the base"})
	}
}

func (c *chains) keep(r Refusal) {
	c.refused++
	c.refusals = append(c.refusals, r)
	if len(c.refusals) > maxRefusals {
		c.refusals = slices.Delete(c.refusals, 0, 1)
	}
}

// Refused returns how many events were refused because they reach below the
// base, and the latest of them, the oldest first.
func (c *chains) Refused() (n uint64, latest []Refusal) { return c.refused, slices.Clone(c.refusals) }

// Seq returns the last applied sequence number of a source, 0 for none.
func (c *chains) Seq(id event.SourceID) uint64 {
	if src, ok := c.sources[id]; ok {
		return src.seq
	}
	return 0
}

// Covers reports whether all events up to a position were applied, as far as they
// ever will be.
func (c *chains) Covers(at event.Cursor) bool {
	for id, seq := range at {
		if c.Seq(id) < seq && !c.ended(id) {
			return false
		}
	}
	return true
}

// BaseSeq returns the position of a source in the base: no event up to it is
// needed again. It is 0 without a base.
func (c *chains) BaseSeq(id event.SourceID) uint64 {
	if src, ok := c.base[id]; ok {
		return src.seq
	}
	return 0
}

// Limit returns the last event of a source that counts in a term: what stands
// behind it is void. It speaks of events beyond the base.
func (c *chains) Limit(id event.SourceID, term cluster.Term) uint64 { return c.fences.limit(id, term) }

// Void reports whether a higher term has fenced e off. Below the base that is
// settled and no longer known: there it answers false.
func (c *chains) Void(e event.Event) bool {
	if !e.Kind.Authority() || e.Seq <= c.BaseSeq(e.Source) {
		return false
	}
	return e.Seq > c.fences.limit(e.Source, e.Term)
}

// Forks returns the sources that signed two histories, and the first event in
// which these differ.
func (c *chains) Forks() map[event.SourceID]uint64 { return maps.Clone(c.fences.forks) }

// writeForks writes what belongs to the meaning of a state.
func (c *chains) writeForks(w *canon.Writer) {
	w.Count(len(c.fences.forks))
	for _, id := range slices.SortedFunc(maps.Keys(c.fences.forks), event.SourceID.Compare) {
		w.Source(id)
		w.Num(c.fences.forks[id])
	}
}

func (c *chains) readForks(r *canon.Reader) {
	c.fences.forks = make(map[event.SourceID]uint64)
	for n := r.Count(); n > 0 && r.OK(); n-- {
		id := r.Source()
		c.fences.forks[id] = r.Num()
		r.Check(c.fences.forks[id] > 0, "fork")
	}
}

// writeProgress writes what is needed to go on.
func (c *chains) writeProgress(w *canon.Writer) {
	settled := c.settled()
	w.Num(uint64(settled))
	fences := slices.DeleteFunc(slices.Clone(c.fences.live), func(f *fence) bool { return f.term <= settled })
	w.Count(len(fences))
	for _, f := range fences {
		w.Num(uint64(f.term))
		w.Key(f.at)
		w.Count(len(f.cut))
		for _, src := range slices.SortedFunc(maps.Keys(f.cut), event.SourceID.Compare) {
			w.Source(src)
			w.Num(f.cut[src])
		}
	}
	w.Count(len(c.sources))
	for _, id := range slices.SortedFunc(maps.Keys(c.sources), event.SourceID.Compare) {
		src := c.sources[id]
		w.Source(id)
		w.Num(src.seq)
		last := src.below(settled)
		w.Count(len(last))
		for _, term := range slices.Sorted(maps.Keys(last)) {
			w.Num(uint64(term))
			w.Num(last[term])
		}
	}
}

func (c *chains) readProgress(r *canon.Reader) {
	c.fences.settled = r.Term()
	for n := r.Count(); n > 0 && r.OK(); n-- {
		f := &fence{term: r.Term(), at: r.Key(), cut: make(map[event.SourceID]uint64)}
		r.Check(f.term > c.fences.settled, "fence")
		for n := r.Count(); n > 0 && r.OK(); n-- {
			src := r.Source()
			f.cut[src] = r.Num()
		}
		if !r.OK() {
			return
		}
		c.fences.add(f)
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		id := r.Source()
		src := c.source(id)
		src.seq = r.Num()
		for n := r.Count(); n > 0 && r.OK(); n-- {
			term := r.Term()
			src.last[term] = r.Num()
		}
		r.Check(src.seq > 0, "position")
		if !r.OK() {
			return
		}
	}
}

// below sums up the terms below settled as term 0: a fence that counts is of a
// higher one.
func (src *source) below(settled cluster.Term) map[cluster.Term]uint64 {
	out := make(map[cluster.Term]uint64)
	for term, last := range src.last {
		if term < settled {
			term = 0
		}
		out[term] = max(out[term], last)
	}
	return out
}
