package snapshots

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/wait"
)

// folder folds the log up to a cut. It belongs to the goroutine of the keeper,
// but for refold.
type folder struct {
	st      *store.Store
	files   Files
	catalog *catalog
	log     zerolog.Logger
	// ready is the state that the last proposal is about.
	ready *folded
}

// folded is a state at a cut, encoded.
type folded struct {
	id      cluster.Hash // of the snapshot it was made for
	encoded []byte
}

// QuorumOf says who must have signed a snapshot with this state: the voters of
// its last term, or those that this term has confirmed since.
func QuorumOf(st *state.State) (q snapshot.Quorum, term state.Term, err error) {
	term, ok := st.LastTerm()
	if !ok {
		return q, term, fmt.Errorf("%w: no term has begun", ErrSnapshot)
	}
	q = snapshot.Quorum{Voters: term.Voters, All: term.Split}
	if cfg := st.Voters(); !cfg.IsZero() && cfg.Term >= term.Term {
		q = snapshot.Quorum{Voters: cfg.Voters, All: cfg.Split() || term.Split}
	}
	return q, term, nil
}

// foldTo folds exactly the events up to the cut of to, with its forks and no
// others, on from the newest kept snapshot within.
func (f *folder) foldTo(ctx context.Context, to *event.SnapshotTaken) (st *state.State, base *event.SnapshotTaken, clock cluster.HLC, err error) {
	st = state.New()
	for _, t := range slices.Backward(f.catalog.all()) {
		if !snapshot.Covers(to, t) {
			continue
		}
		_, from, err := f.files.Load(snapshot.FileName(t))
		if err != nil {
			f.log.Error().Err(err).Msg("snapshot unreadable")
			continue
		}
		base, st, clock = t, from, t.Clock
		break
	}
	stale := false
	for _, fork := range to.Forks {
		stale = st.Fork(fork.Source, fork.Seq) || stale
	}
	again, last, err := f.advance(ctx, st, to.Heads)
	if err == nil && (stale || again) {
		err = f.refold(st, base, to.Heads)
	}
	return st, base, max(clock, last), err
}

// advance applies to st the events beyond its positions up to heads. It leaves
// the processor to others about half of the time.
func (f *folder) advance(ctx context.Context, st *state.State, heads []event.Head) (stale bool, clock cluster.HLC, err error) {
	p := pacer{ctx: ctx, began: time.Now()}
	for _, h := range heads {
		after := st.Seq(h.Source)
		if after > h.Seq {
			return false, 0, fmt.Errorf("%w: state of %s at seq %d, wanted at %d", ErrSnapshot, h.Source, after, h.Seq)
		}
		if after == h.Seq {
			continue
		}
		var last event.Event
		err := f.st.ReadUpTo(h, after, func(e event.Event) bool {
			stale = st.Apply(e) || stale
			last = e
			return p.pause()
		})
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil && last.Hash != h.Hash {
			err = fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, last.Hash, h.Hash)
		}
		if err != nil {
			return false, 0, fmt.Errorf("fold up to a cut: %w", err)
		}
		clock = max(clock, last.HLC)
	}
	return stale, clock, nil
}

// refold folds into st, again, the snapshot base, which is on disk, and all
// events after it up to heads.
func (f *folder) refold(st *state.State, base *event.SnapshotTaken, heads []event.Head) error {
	var from *state.State
	if base != nil {
		var err error
		if _, from, err = f.files.Load(snapshot.FileName(base)); err != nil {
			return fmt.Errorf("fold the log again: %w", err)
		}
	}
	var failed error
	st.Refold(from, func(yield func(event.Event) bool) {
		for _, h := range heads {
			after := uint64(0)
			if base != nil {
				after = snapshot.HeadOf(base, h.Source).Seq
			}
			if failed = f.st.ReadUpTo(h, after, yield); failed != nil {
				return
			}
		}
	})
	if failed != nil {
		st.Spoil()
		return fmt.Errorf("fold the log again: %w", failed)
	}
	return nil
}

// fill encodes st and puts what follows from that into t.
func (f *folder) fill(t *event.SnapshotTaken, st *state.State) ([]byte, error) {
	encoded, err := st.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	if len(encoded) > snapshot.MaxSize {
		return nil, fmt.Errorf("%w: state of %d bytes, at most %d are allowed", ErrSnapshot, len(encoded), snapshot.MaxSize)
	}
	t.Size, t.Sum, t.State = int64(len(encoded)), sha256.Sum256(encoded), st.Hash()
	return encoded, nil
}

// holds reports the first position of a cut that this log does not hold, or
// holds with another event.
func (f *folder) holds(t *event.SnapshotTaken) error {
	for _, h := range t.Heads {
		have := f.st.Head(h.Source)
		if have.Seq < h.Seq {
			return fmt.Errorf("%w: %s ends at seq %d, the cut at %d", store.ErrGap, h.Source, have.Seq, h.Seq)
		}
		hash, ok, err := f.st.HashAt(h.Source, h.Seq)
		ok = ok && err == nil
		if ok && hash != h.Hash {
			return fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, hash, h.Hash)
		}
		if !ok && h.Seq > f.st.Floor(h.Source).Seq {
			return fmt.Errorf("%w: event %d of %s cannot be read", ErrSnapshot, h.Seq, h.Source)
		}
	}
	return nil
}

// checkHeads verifies the signatures of a cut by their sources, as far as
// these are known.
func (f *folder) checkHeads(t *event.SnapshotTaken) error {
	for _, h := range t.Heads {
		if len(h.Sig) == 0 {
			continue // of a forked source
		}
		if key := f.st.KeyOf(h.Source.Node); key != nil {
			if err := record.VerifyHead(f.files.Cluster, h, key); err != nil {
				return fmt.Errorf("%w: head of %s: %w", ErrSnapshot, h.Source, err)
			}
		}
	}
	return nil
}

// pacer rests as long as it works.
type pacer struct {
	ctx   context.Context
	began time.Time
	steps int
}

const (
	paceSteps = 256
	paceWork  = 5 * time.Millisecond
)

// pause is called between small steps. It reports false when the context has
// ended.
func (p *pacer) pause() bool {
	if p.steps++; p.steps%paceSteps != 0 {
		return true
	}
	return p.rest()
}

// rest is pause after a large step.
func (p *pacer) rest() bool {
	if worked := time.Since(p.began); worked >= paceWork {
		if wait.For(p.ctx, worked) != nil {
			return false
		}
		p.began = time.Now()
	}
	return p.ctx.Err() == nil
}
