package eventlog

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// fold holds the state that follows from the durable events.
type fold struct {
	store *store.Store
	// refold folds into st, again, a snapshot and all events after it up to heads.
	refold func(st *state.State, base *event.SnapshotTaken, heads []event.Head) error
	m      *metrics
	log    zerolog.Logger
	wall   func() time.Time
	opened time.Time // by wall

	mu sync.Mutex
	st *state.State
	// base is the snapshot that st goes on from, nil for the first event.
	base *event.SnapshotTaken
	// stale says that an event voided earlier ones which are still folded.
	stale bool
	// waits says that events were dropped and no snapshot here holds them: nothing is
	// folded before goOn brings the state of another host's.
	waits bool
	// refused is how many events that reach below base were logged.
	refused uint64

	unfolded unfolded
	running  sync.WaitGroup // the fold of what is unfolded, while the writer goes on
}

// unfolded are durable events that are shown and not folded yet. Whoever takes
// fold.mu folds them first, see lock.
type unfolded struct {
	mu     sync.Mutex
	events []event.Event
	size   int64 // in bytes on disk
	busy   bool  // a goroutine folds
	err    error // the disk could not be read: the log is poisoned
}

// maxUnfolded bounds how much waits for the fold, in bytes. When there is more
// the writer waits too.
const maxUnfolded = 4 * groupBytes

// begin makes the fold that of st, which goes on from base, with the forks that
// the store knows. Nobody else may know the log yet.
func (f *fold) begin(st *state.State, base *event.SnapshotTaken) {
	f.st, f.base = st, base
	f.stale = f.forks(st)
}

// forks applies the known forks to st, and reports whether it must be folded again.
func (f *fold) forks(st *state.State) (stale bool) {
	for _, fork := range f.store.Forks() {
		stale = st.Fork(fork.Source, fork.Seq) || stale
	}
	return stale
}

// add leaves new durable events, which take size bytes on disk, to the fold. The
// writer calls it before anybody can see them.
func (f *fold) add(events []event.Event, size int64) {
	u := &f.unfolded
	u.mu.Lock()
	u.size += size
	if u.events == nil {
		u.events = events
	} else {
		u.events = append(u.events, events...)
	}
	u.mu.Unlock()
}

// lock takes the lock of the fold, and folds what is shown by then.
func (f *fold) lock() {
	f.mu.Lock()
	u := &f.unfolded
	u.mu.Lock()
	events := u.events
	u.events, u.size = nil, 0
	u.mu.Unlock()
	if len(events) == 0 {
		return
	}
	if err := f.applyLocked(events); err != nil {
		f.fail(err)
		return
	}
	f.arrived(events)
}

func (f *fold) failed() error {
	f.unfolded.mu.Lock()
	defer f.unfolded.mu.Unlock()
	return f.unfolded.err
}

func (f *fold) fail(err error) {
	f.unfolded.mu.Lock()
	f.unfolded.err = err
	f.unfolded.mu.Unlock()
}

// start has the unfolded events folded while the writer goes on. The writer
// calls it when the disk is busy, or when it has nothing to do itself: earlier,
// folding would take processor time from appends.
func (f *fold) start() {
	u := &f.unfolded
	u.mu.Lock()
	much := u.size > maxUnfolded
	begin := !u.busy && !much && len(u.events) > 0
	u.busy = u.busy || begin
	u.mu.Unlock()
	switch {
	case much:
		f.lock()
		f.mu.Unlock()
	case begin:
		f.running.Go(f.run) // Run waits for it
	}
}

// run folds until nothing is left.
func (f *fold) run() {
	u := &f.unfolded
	for {
		f.lock()
		f.mu.Unlock()
		u.mu.Lock()
		u.busy = len(u.events) > 0
		more := u.busy
		u.mu.Unlock()
		if !more {
			return
		}
	}
}

func (f *fold) view(fn func(*state.State)) {
	f.lock()
	defer f.mu.Unlock()
	fn(f.st)
}

// load folds events during recovery.
func (f *fold) load(events []event.Event) {
	if f.waits {
		return
	}
	for _, e := range events {
		f.stale = f.st.Apply(e) || f.stale
	}
}

// applyLocked folds new durable events, and all events again if one of them
// voids what was folded before. An error says that the disk could not be read.
func (f *fold) applyLocked(events []event.Event) error {
	f.load(events)
	if err := f.refoldLocked(); err != nil {
		return err
	}
	f.showRefusedLocked()
	return nil
}

// refoldLocked folds the whole log again if the fold is stale.
func (f *fold) refoldLocked() error {
	if !f.stale || f.waits {
		return nil
	}
	if err := f.refold(f.st, f.base, f.store.Heads()); err != nil {
		return err
	}
	f.stale = false
	f.m.rebuilds.Inc()
	f.log.Info().Msg("state folded again after a late term start")
	return nil
}

// showRefusedLocked logs events that have no effect because they would change
// what a snapshot holds: a history that correct hosts wrote has none.
func (f *fold) showRefusedLocked() {
	n, latest := f.st.Refused()
	if n == f.refused {
		return
	}
	if n > f.refused {
		for _, r := range latest[len(latest)-int(min(uint64(len(latest)), n-f.refused)):] {
			f.log.Error().Stringer("source", r.Source).Uint64("seq", r.Seq).Str("kind", string(r.Kind)).Str("reason", r.Reason).
				Msg("event refused: it reaches below the snapshot")
		}
	}
	f.refused = n
	f.m.refused.Set(float64(n))
}

// fork applies a fork that was just proven.
func (f *fold) fork(src event.SourceID, seq uint64) error {
	f.lock()
	defer f.mu.Unlock()
	f.stale = f.st.Fork(src, seq) || f.stale
	return f.refoldLocked()
}

// goOn makes the fold that of st, which goes on from base and lacks only the
// last events. The writer waits meanwhile.
func (f *fold) goOn(st *state.State, base *event.SnapshotTaken) error {
	f.lock()
	defer f.mu.Unlock()
	stale := f.forks(st)
	for _, h := range f.store.Heads() {
		after := st.Seq(h.Source)
		if after >= h.Seq {
			continue
		}
		if err := f.store.ReadUpTo(h, after, func(e event.Event) bool {
			stale = st.Apply(e) || stale
			return true
		}); err != nil {
			return fmt.Errorf("fold on from a snapshot: %w", err)
		}
	}
	f.st, f.base, f.stale, f.waits = st, base, stale, false
	return f.refoldLocked()
}

// recovered folds what turned out to have survived an I/O error. show makes it
// visible to readers.
func (f *fold) recovered(events []event.Event, show func()) error {
	f.lock()
	defer f.mu.Unlock()
	show()
	if f.failed() != nil { // half folded
		f.stale = true
	}
	err := f.applyLocked(events)
	f.fail(err)
	return err
}

// arrived notes how long events of other hosts took to get here and be folded:
// the last one of each chain. Events that are older than this process do not
// count: it is only catching up with them.
func (f *fold) arrived(events []event.Event) {
	own := f.store.Source()
	for i, e := range events {
		if e.Source == own || i+1 < len(events) && events[i+1].Source == e.Source {
			continue
		}
		if at := e.HLC.Time(); !at.Before(f.opened) {
			f.m.propagation.Observe(max(0, f.wall().Sub(at)).Seconds())
		}
	}
}
