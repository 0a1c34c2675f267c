package eventlog

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// fold holds the state that follows from the durable events. Its lock is taken
// before that of the log.
type fold struct {
	mu sync.Mutex
	st *state.State
	// base is the snapshot that st goes on from, nil for the first event.
	base *cluster.SnapshotTaken
	// stale says that an event voided earlier ones which are still folded.
	stale bool
	// refused is how many events of st were told of that reach below base.
	refused uint64
	err     error // the disk could not be read: the log is poisoned
}

func (f *fold) view(fn func(*state.State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.st)
}

// load folds one event during recovery.
func (f *fold) load(e cluster.Event) {
	f.stale = f.st.Apply(e) || f.stale
}

// foldLocked folds new durable events, and all events again if one of them
// voids what was folded before. An error says that the disk could not be read.
func (l *Log) foldLocked(events []cluster.Event) error {
	for _, e := range events {
		l.fold.load(e)
	}
	if err := l.refoldLocked(); err != nil {
		return err
	}
	l.tellRefusedLocked()
	return nil
}

// tellRefusedLocked names events that have no effect because they would change
// what a snapshot holds: of a lawful history there are none.
func (l *Log) tellRefusedLocked() {
	n, latest := l.fold.st.Refused()
	if n == l.fold.refused {
		return
	}
	if n > l.fold.refused {
		for _, r := range latest[len(latest)-int(min(uint64(len(latest)), n-l.fold.refused)):] {
			l.log.Error().Stringer("source", r.Source).Uint64("seq", r.Seq).Str("kind", string(r.Kind)).Str("reason", r.Reason).
				Msg("event refused: it reaches below the snapshot")
		}
	}
	l.fold.refused = n
	l.m.refused.Set(float64(n))
}

// refoldLocked folds the whole log again if the fold is stale.
func (l *Log) refoldLocked() error {
	if !l.fold.stale {
		return nil
	}
	if err := l.refold(l.fold.st, l.fold.base, l.Heads()); err != nil {
		return err
	}
	l.fold.stale = false
	l.m.rebuilds.Inc()
	l.log.Info().Msg("state folded again after a late term start")
	return nil
}

// refold folds into st, again, the snapshot base and all events after it up
// to heads.
func (l *Log) refold(st *state.State, base *cluster.SnapshotTaken, heads []cluster.Head) error {
	var from *state.State
	if base != nil {
		var err error
		if from, _, err = l.snap.read(base.ID); err != nil {
			return fmt.Errorf("fold the log again: %w", err)
		}
	}
	var failed error
	st.Refold(from, func(yield func(cluster.Event) bool) {
		for _, h := range heads {
			after := uint64(0)
			if base != nil {
				after = snapshot.HeadOf(base, h.Source).Seq
			}
			if failed = l.readUpTo(h, after, yield); failed != nil {
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

// readUpTo yields the events of one chain beyond after and up to h.
func (l *Log) readUpTo(h cluster.Head, after uint64, yield func(cluster.Event) bool) error {
	r := l.reader(h.Source, after+1)
	defer r.close()
	for r.next <= h.Seq {
		e, err := r.event()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}
