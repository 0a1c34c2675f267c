package eventlog

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// fold holds the state that follows from the durable events. Its lock is taken
// before that of the log.
type fold struct {
	mu sync.Mutex
	st *state.State
	// stale says that an event voided earlier ones which are still folded.
	stale bool
	err   error // the disk could not be read: the log is poisoned
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
	return l.refoldLocked()
}

// refoldLocked folds the whole log again if the fold is stale.
func (l *Log) refoldLocked() error {
	if !l.fold.stale {
		return nil
	}
	var failed error
	l.fold.st.Refold(nil, func(yield func(cluster.Event) bool) {
		for _, h := range l.Heads() {
			failed = l.readUpTo(h, yield)
			if failed != nil {
				return
			}
		}
	})
	if failed != nil {
		return fmt.Errorf("fold the log again: %w", failed)
	}
	l.fold.stale = false
	l.m.rebuilds.Inc()
	l.log.Info().Msg("state folded again after a late term start")
	return nil
}

// readUpTo yields the events of one chain up to h.
func (l *Log) readUpTo(h cluster.Head, yield func(cluster.Event) bool) error {
	r := l.reader(h.Source, 1)
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
