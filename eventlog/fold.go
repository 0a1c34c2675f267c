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

	// What follows is guarded by Log.mu.

	// pending are durable events that are shown and not folded yet, so large.
	// Whoever takes mu folds them first, see lockFold.
	pending []cluster.Event
	size    int64
	busy    bool  // a goroutine is at it
	err     error // the disk could not be read: the log is poisoned
}

// maxUnfolded bounds how much waits for the fold, in bytes. When there is more
// the writer waits too.
const maxUnfolded = 4 * groupBytes

// lockFold takes the lock of the fold, and folds what is shown by then.
func (l *Log) lockFold() {
	l.fold.mu.Lock()
	l.mu.Lock()
	events := l.fold.pending
	l.fold.pending, l.fold.size = nil, 0
	l.mu.Unlock()
	if len(events) == 0 {
		return
	}
	if err := l.foldLocked(events); err != nil {
		l.setFoldErr(err)
		return
	}
	l.arrived(events)
}

func (l *Log) foldErr() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fold.err
}

func (l *Log) setFoldErr(err error) {
	l.mu.Lock()
	l.fold.err = err
	l.mu.Unlock()
}

// foldPending has the events folded that show left, while the writer goes on.
// The writer calls it when it gave the disk something to do, or has nothing to
// do itself: before that folding would take a processor from those who append.
func (l *Log) foldPending() {
	l.mu.Lock()
	much := l.fold.size > maxUnfolded
	begin := !l.fold.busy && !much && len(l.fold.pending) > 0
	l.fold.busy = l.fold.busy || begin
	l.mu.Unlock()
	switch {
	case much:
		l.lockFold()
		l.fold.mu.Unlock()
	case begin:
		l.folding.Go(l.foldOn) // Run waits for it
	}
}

// foldOn folds until nothing is pending.
func (l *Log) foldOn() {
	for {
		l.lockFold()
		l.fold.mu.Unlock()
		l.mu.Lock()
		l.fold.busy = len(l.fold.pending) > 0
		more := l.fold.busy
		l.mu.Unlock()
		if !more {
			return
		}
	}
}

func (l *Log) view(fn func(*state.State)) {
	l.lockFold()
	defer l.fold.mu.Unlock()
	fn(l.fold.st)
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

// refold folds into st, again, the snapshot base, which is on disk, and all
// events after it up to heads.
func (l *Log) refold(st *state.State, base *cluster.SnapshotTaken, heads []cluster.Head) error {
	var from *state.State
	if base != nil {
		var err error
		if _, from, err = l.snap.store.load(snapshot.FileName(base)); err != nil {
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
