package snapshots

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// swap makes the log go on from a snapshot that is on disk.
type swap struct {
	taken *event.SnapshotTaken
	// st is the fold of taken and of events beyond it.
	st *state.State
	// short says what becomes of chains that end below the cut.
	short shortChains
	// begins are where short chains begin instead of at the cut, since a host still
	// has the events from there on.
	begins map[event.SourceID]event.Mark
	// sums are those of segments that would be dropped for that, by path.
	sums map[string]cluster.Hash
}

// shortChains says what becomes of the chains that end below the cut of a
// snapshot when the log goes on from it.
type shortChains int

const (
	refuseShort shortChains = iota // there must be none
	dropShort                      // they go on from the cut: nobody has what they lack
	keepShort                      // they stay as they are, and what they lack is fetched
)

// GoOnFrom makes the log go on from a snapshot that is on disk, and st is the
// fold of, with its chains as they are.
func (k *Keeper) GoOnFrom(ctx context.Context, t *event.SnapshotTaken, st *state.State) error {
	return k.install(ctx, &swap{taken: t, st: st})
}

// install makes the log go on from a snapshot that was saved: its state with
// the events beyond becomes the log's own. So every host that knows the
// snapshot folds on from the same state, and what would change it from below
// changes nothing anywhere.
func (k *Keeper) install(ctx context.Context, sw *swap) error {
	heads := k.o.Store.Heads()
	beyond := heads[:0]
	for _, h := range heads {
		if h.Seq > snapshot.HeadOf(sw.taken, h.Source).Seq {
			beyond = append(beyond, h)
		}
	}
	stale, _, err := k.folder.advance(ctx, sw.st, beyond)
	if err == nil && stale {
		err = k.folder.refold(sw.st, sw.taken, beyond)
	}
	if err != nil {
		return err
	}
	return k.o.Log.Exclusive(ctx, func(w *store.Writer) (refused, failed error) { return k.goOnFrom(w, sw) })
}

// goOnFrom carries out a swap in the place of the writer.
func (k *Keeper) goOnFrom(w *store.Writer, sw *swap) (refused, failed error) {
	short, err := k.short(w, sw)
	if err != nil {
		return err, nil
	}
	if err := k.startShort(w, sw, short); err != nil {
		return nil, err
	}
	if err := k.o.Log.GoOn(sw.st, sw.taken); err != nil {
		return nil, err
	}
	w.Advance(sw.taken.Clock)
	k.catalog.keep(sw.taken)
	w.Notify()
	return nil, nil
}

// short lists the chains that end below the cut of sw, each with where it is to
// begin.
func (k *Keeper) short(w *store.Writer, sw *swap) ([]event.Head, error) {
	var out []event.Head
	for _, h := range sw.taken.Heads {
		have := k.o.Store.Head(h.Source)
		if have.Seq >= h.Seq {
			if hash, ok, err := k.o.Store.HashAt(h.Source, h.Seq); err == nil && ok && hash != h.Hash {
				return nil, fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, hash, h.Hash)
			}
			continue
		}
		switch {
		case sw.short == keepShort:
			continue
		case sw.short == refuseShort:
			return nil, fmt.Errorf("%w: the cut has %s at seq %d, which is not here", ErrSnapshot, h.Source, h.Seq)
		case h.Source == k.o.Store.Source():
			return nil, fmt.Errorf("%w: the snapshot has seq %d", store.ErrRolledBack, h.Seq)
		case have.Seq == 0 && w.Full():
			return nil, fmt.Errorf("%w: more than %d sources", ErrSnapshot, store.MaxSources)
		}
		if m, ok := sw.begins[h.Source]; ok && m.Seq <= have.Seq {
			continue // all of it is still to be had
		} else if ok && m.Seq < h.Seq {
			h = event.Head{Source: h.Source, Seq: m.Seq, Hash: m.Hash}
		}
		out = append(out, h)
	}
	return out, nil
}

// startShort makes the short chains begin at the cut: first the manifest says
// so, durably, then their segments go.
func (k *Keeper) startShort(w *store.Writer, sw *swap, short []event.Head) error {
	if len(short) == 0 {
		return nil
	}
	bases := map[event.SourceID]event.Mark{}
	var dropped []snapshot.Dropped
	for _, h := range short {
		bases[h.Source] = event.Mark{Seq: h.Seq, Hash: h.Hash}
		d, err := k.describe(k.o.Store.Segments(h.Source), sw.taken.ID, sw.sums)
		if err != nil {
			return err
		}
		dropped = append(dropped, d...)
	}
	if err := k.ledger.record(bases, dropped); err != nil {
		return err
	}
	for _, h := range short {
		w.StartAt(h)
	}
	return nil
}

// describe returns what the manifest keeps of segments that are dropped for the
// snapshot id. Sums that are known need not be computed.
func (k *Keeper) describe(segs []store.Segment, id cluster.Hash, sums map[string]cluster.Hash) ([]snapshot.Dropped, error) {
	var out []snapshot.Dropped
	for _, seg := range segs {
		if seg.Last < seg.First {
			continue // a header without events
		}
		sum, ok := cluster.Hash{}, false
		if seg.Sealed {
			sum, ok = sums[seg.Path]
		}
		if !ok {
			got, err := disk.Sum(context.Background(), k.o.FS, seg.Path, seg.Size, nil)
			if err != nil {
				return nil, err
			}
			sum = got
		}
		out = append(out, snapshot.Dropped{
			Source: seg.Source, First: seg.First, Last: seg.Last, Prev: seg.Prev, Hash: seg.Hash, Size: seg.Size, Sum: sum, Snapshot: id,
		})
	}
	return out, nil
}
