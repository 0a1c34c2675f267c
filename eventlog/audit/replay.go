package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// At says up to where a log is replayed. The zero value means all of it.
type At struct {
	// Position names the last event of each source; a source that is not in it
	// contributes nothing.
	Position event.Cursor
	// Clock is the highest clock that counts, where Position is empty; 0: any.
	Clock cluster.HLC
	// Hindsight also applies the fences that were written later: what a term
	// that began after At made void is left out. Without it the state is what
	// these events meant by themselves, to a host that held all of them then:
	// what was rightly acted upon.
	Hindsight bool
}

// ErrPosition is wrapped when a position lies beyond what the log holds.
var ErrPosition = errors.New("position is not in the log")

// Replayed is what ReplayAt folded.
type Replayed struct {
	Position  event.Cursor `json:"-"`
	Last      cluster.HLC  `json:"last"` // the highest clock
	Events    uint64       `json:"events"`
	Void      uint64       `json:"void"`      // fenced off by a term in the fold
	Malformed uint64       `json:"malformed"` // not understood
	StateHash cluster.Hash `json:"state_hash"`
}

// Dir is a log that is only read, see store.Dir, with its snapshots and forks.
type Dir struct {
	*store.Dir
	forks []wire.Fork // proven
	past  past
}

// OpenDir looks at the log in o.Dir. It reads the last segment of each chain
// only; Verify reads all.
func OpenDir(o VerifyOptions) (*Dir, error) {
	if o.Dir == "" || o.Cluster == "" || o.KeyOf == nil {
		return nil, errors.New("read event log: directory, cluster id and keys are required")
	}
	if o.FS == nil {
		o.FS = disk.OSFS()
	}
	d := &Dir{}
	sources, err := segment.SourceDirs(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	// A proof that cannot be read is for Verify to report.
	d.forks, _ = store.LoadForks(o.Dir, o.Cluster, o.KeyOf)
	if d.past, err = loadPast(snapshots.Files{FS: o.FS, Dir: o.Dir, Cluster: o.Cluster}, true); err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	for _, b := range d.past.manifest.Bases {
		if !slices.Contains(sources, b.Source) {
			sources = append(sources, b.Source)
		}
	}
	d.Dir, err = store.OpenDir(store.DirOptions{
		Dir: o.Dir, Cluster: o.Cluster, Self: o.Self, FS: o.FS, Sources: sources, Floor: d.past.floor,
	})
	return d, err
}

// ReplayAt folds the log up to at, from its beginning or from the newest
// snapshot that lies below at. Two logs that hold the same events up to at give
// the same state, and a replay of everything gives the state that the running
// log has. Where a source is proven to have forked, its events count in no
// replay, whenever that became known. A *store.CompactedError says that events below
// at are no longer retained.
func (d *Dir) ReplayAt(ctx context.Context, at At) (*state.State, Replayed, error) {
	st, r, err := d.replayAt(ctx, at)
	if err != nil {
		return nil, r, fmt.Errorf("replay event log: %w", err)
	}
	return st, r, nil
}

func (d *Dir) replayAt(ctx context.Context, at At) (*state.State, Replayed, error) {
	heads := d.Heads()
	until, err := endsAt(d, heads, at)
	if err != nil {
		return nil, Replayed{}, err
	}
	p := replaying{d: d}
	if taken, base := d.past.within(until); taken != nil && (at.Clock == 0 || taken.Clock <= at.Clock) {
		p.base, p.from, p.clock = base, store.EndOf(taken.Heads), taken.Clock
	}
	if err := store.NotCompacted(p.from, d.Oldest()); err != nil {
		return nil, Replayed{}, err
	}
	if at.Hindsight {
		if p.judge, err = p.fold(ctx, heads); err != nil {
			return nil, Replayed{}, err
		}
	}
	st, err := p.fold(ctx, until)
	if err != nil {
		return nil, Replayed{}, err
	}
	r := Replayed{Position: store.EndOf(until), Last: p.last, StateHash: st.Hash()}
	r.Events, r.Void, r.Malformed = st.Counts()
	r.Events, r.Void = r.Events+p.skipped, r.Void+p.skipped
	return st, r, nil
}

// replaying is one replay.
type replaying struct {
	d *Dir
	// The state from which it begins, its position and highest clock; nil: the
	// beginning.
	base  *state.State
	from  event.Cursor
	clock cluster.HLC
	// judge is the fold of all there is, which knows every fence; nil: the
	// fences that are folded are all that count.
	judge *state.State

	skipped uint64      // events that the judge calls void
	last    cluster.HLC // the highest clock
}

// fold folds base and the events after it up to until.
func (p *replaying) fold(ctx context.Context, until []event.Head) (*state.State, error) {
	st := state.New()
	for _, f := range p.d.forks {
		st.Fork(f.Source, f.Seq)
	}
	var failed error
	st.Refold(p.base, iter.Seq[event.Event](func(yield func(event.Event) bool) {
		if failed != nil {
			return
		}
		p.last, p.skipped = p.clock, 0
		limits := map[event.SourceID]limit{}
		for e, err := range p.d.Between(p.from, until) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				failed = err
				return
			}
			p.last = max(p.last, e.HLC)
			if p.judge != nil && e.Kind.Authority() && p.beyond(limits, e) {
				p.skipped++
				continue
			}
			if !yield(e) {
				return
			}
		}
	}))
	return st, failed
}

// limit is the last event of a source that counts in a term.
type limit struct {
	term cluster.Term
	seq  uint64
}

// beyond reports whether the judge calls e void.
func (p *replaying) beyond(limits map[event.SourceID]limit, e event.Event) bool {
	l, ok := limits[e.Source]
	if !ok || l.term != e.Term {
		l = limit{term: e.Term, seq: p.judge.Limit(e.Source, e.Term)}
		limits[e.Source] = l
	}
	return e.Seq > l.seq
}

// seeker finds moments in chains.
type seeker interface {
	LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error)
}

// endsAt returns the ends of the chains at at; one that stands before the head
// has no hash.
func endsAt(d seeker, heads []event.Head, at At) ([]event.Head, error) {
	have := store.EndOf(heads)
	for _, src := range at.Position.Sources() {
		if at.Position[src] > have[src] {
			return nil, fmt.Errorf("%w: %s at seq %d, this log has %d", ErrPosition, src, at.Position[src], have[src])
		}
	}
	var out []event.Head
	for _, h := range heads {
		seq := h.Seq
		switch {
		case len(at.Position) > 0:
			seq = at.Position[h.Source]
		case at.Clock > 0:
			var err error
			if seq, err = d.LastBefore(h, func(c cluster.HLC) bool { return c <= at.Clock }); err != nil {
				return nil, err
			}
		}
		switch {
		case seq == h.Seq:
			out = append(out, h)
		case seq > 0:
			out = append(out, event.Head{Source: h.Source, Seq: seq})
		}
	}
	return out, nil
}
