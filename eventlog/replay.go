package eventlog

import (
	"context"
	"fmt"
	"iter"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// At says up to where a log is replayed. The zero value means all of it.
type At struct {
	// Position names the last event of each source; a source that is not in it
	// contributes nothing.
	Position cluster.Cursor
	// Clock is the highest clock that counts, where Position is empty; 0: any.
	Clock cluster.HLC
	// Hindsight also applies the fences that were written later: what a term
	// that began after At made void is left out. Without it the state is what
	// these events meant by themselves, to a host that held all of them then:
	// what was rightly acted upon.
	Hindsight bool
}

// Replayed is what ReplayAt folded.
type Replayed struct {
	Position  cluster.Cursor `json:"-"`
	Last      cluster.HLC    `json:"last"` // the highest clock
	Events    uint64         `json:"events"`
	Void      uint64         `json:"void"`      // fenced off by a term in the fold
	Malformed uint64         `json:"malformed"` // not understood
	StateHash cluster.Hash   `json:"state_hash"`
}

// ReplayAt folds the log up to at, from its beginning or from the newest
// snapshot that lies below at. Two logs that hold the
// same events up to at give the same state, and a replay of everything gives
// the state that the running log has. Where a source is proven to have forked,
// its events count in no replay, whenever that became known.
func (d *Dir) ReplayAt(ctx context.Context, at At) (*state.State, Replayed, error) {
	st := state.New()
	for _, f := range d.forks {
		st.Fork(f.Source, f.Seq)
	}
	r, err := replayAt(ctx, d, at, st)
	if err != nil {
		return nil, r, fmt.Errorf("replay event log: %w", err)
	}
	return st, r, nil
}

func replayAt(ctx context.Context, d *Dir, at At, st *state.State) (r Replayed, err error) {
	heads := d.Heads()
	until, err := endsAt(d, heads, at)
	if err != nil {
		return r, err
	}
	taken, base := d.past.within(until)
	from := cluster.Cursor{}
	if taken != nil {
		from, r.Last = position(taken.Heads), taken.Clock
	}
	if err := notCompacted(from, oldest(d, heads)); err != nil {
		return r, err
	}
	if at.Hindsight {
		if err := foldAll(ctx, d, st, base, from, heads, nil); err != nil {
			return r, err
		}
	}
	r.Position = position(until)
	if err := foldAll(ctx, d, st, base, from, until, &r); err != nil {
		return r, err
	}
	r.Events, r.Void, r.Malformed = st.Counts()
	r.StateHash = st.Hash()
	return r, nil
}

// endsAt returns the ends of the chains at at; one that stands before the head
// has no hash.
func endsAt(s shelf, heads []cluster.Head, at At) ([]cluster.Head, error) {
	have := position(heads)
	for _, src := range at.Position.Sources() {
		if at.Position[src] > have[src] {
			return nil, fmt.Errorf("%w: %s at seq %d, this log has %d", ErrPosition, src, at.Position[src], have[src])
		}
	}
	var out []cluster.Head
	for _, h := range heads {
		seq := h.Seq
		switch {
		case len(at.Position) > 0:
			seq = at.Position[h.Source]
		case at.Clock > 0:
			var err error
			if seq, err = lastBefore(s, h, func(c cluster.HLC) bool { return c <= at.Clock }); err != nil {
				return nil, err
			}
		}
		switch {
		case seq == h.Seq:
			out = append(out, h)
		case seq > 0:
			out = append(out, cluster.Head{Source: h.Source, Seq: seq})
		}
	}
	return out, nil
}

// foldAll makes st the fold of base, nil for nothing, and the events after from
// up to until, with the fences that it knows already.
func foldAll(ctx context.Context, s shelf, st, base *state.State, from cluster.Cursor, until []cluster.Head, r *Replayed) error {
	var failed error
	st.Refold(base, iter.Seq[cluster.Event](func(yield func(cluster.Event) bool) {
		if failed != nil {
			return
		}
		for e, err := range between(s, from, until) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				failed = err
				return
			}
			if r != nil {
				r.Last = max(r.Last, e.HLC)
			}
			if !yield(e) {
				return
			}
		}
	}))
	return failed
}
