package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/wait"
)

// writer takes requests from the intake and carries them to the disk. All its
// methods belong to one goroutine.
type writer struct {
	o     *Options
	m     *metrics
	log   zerolog.Logger
	in    *intake
	room  *disk.Room
	store *store.Store
	disk  *store.Writer
	fold  *fold
	stab  *replicate.Stability
	snaps *snapshots.Keeper
	own   event.SourceID // the own chain
}

// run writes until ctx ends. After an I/O error it opens the chains again,
// with growing pauses, unless that is switched off or what was durable is gone.
func (w *writer) run(ctx context.Context) error {
	pause := w.o.ReopenAfter
	for {
		started := time.Now()
		err := w.write(ctx)
		if err == nil || w.o.ReopenAfter < 0 {
			return err
		}
		if time.Since(started) > reopenCalm {
			pause = w.o.ReopenAfter
		}
		for {
			if wait.For(ctx, pause) != nil {
				return err
			}
			pause = min(2*pause, max(reopenMax, w.o.ReopenAfter))
			again := w.reopen()
			if again == nil {
				break
			}
			if _, ok := errors.AsType[*segment.CorruptError](again); ok {
				return errors.Join(err, again)
			}
			w.log.Error().Err(again).Msg("event log not recovered yet")
		}
	}
}

const (
	reopenMax = 30 * time.Second
	// reopenCalm is how long the log must have been sound for an error to count
	// as a new one.
	reopenCalm = time.Minute
)

// commit makes one batch durable and answers its requests; nothing is staged or
// in flight. An error is an I/O error: nothing was answered.
func (w *writer) commit(batch []*request) error {
	err := w.commitOnce(batch)
	if disk.NoRoom(err) {
		return w.commitTight(batch, err)
	}
	return err
}

// commitTight is commit of a batch for which the disk had no room, as err says:
// the essential requests get what is held in reserve.
func (w *writer) commitTight(batch []*request, err error) error {
	var must, others []*request
	for _, r := range batch {
		switch {
		case r.err != nil || r.did: // refused for another reason, or carried out
			others = append(others, r)
		case r.class == urgent:
			must = append(must, r)
		default:
			r.err = fmt.Errorf("%w: %w", ErrDiskFull, err)
			others = append(others, r)
		}
	}
	w.room.SawFull()
	if len(must) > 0 && w.room.Release() {
		err = w.commitOnce(must)
	}
	if len(must) > 0 && err != nil {
		if !disk.NoRoom(err) {
			return err
		}
		w.room.RanOut()
		for _, r := range must {
			if r.err == nil {
				r.err = fmt.Errorf("%w: %w", ErrDiskFull, err)
			}
		}
		others = append(others, must...)
	}
	w.answer(others)
	return nil
}

// commitOnce tries to make one batch durable and answers its requests. If
// disk.NoRoom is true of its error the batch left no trace and may be tried
// again. After another error it is unknown what of it is on the disk.
func (w *writer) commitOnce(batch []*request) error {
	var s stage
	for _, r := range batch { // before anything is staged
		switch {
		case r.err != nil || r.did: // in an earlier try
		case r.exclusive != nil:
			var failed error
			if r.err, failed = r.exclusive(w.disk); failed != nil {
				return failed
			}
			r.did = true
		case r.renew != nil:
			r.err = w.renew(r, &s)
		}
	}
	w.stageAll(batch, &s)
	if err := w.disk.MakeRoom(s.groups); err != nil {
		if disk.NoRoom(err) {
			w.unstage(s)
		}
		return err
	}
	w.disk.Launch(s.groups)
	signed := make(chan event.Head, 1)
	w.disk.Sign(s.groups, signed)
	if err := w.disk.Flush(s.groups, signed); err != nil {
		return err
	}
	if err := w.publish(s.groups); err != nil {
		return err
	}
	w.answer(batch)
	return nil
}

// stageAll puts what batch adds to chains behind what is staged.
func (w *writer) stageAll(batch []*request, s *stage) {
	// Stamped before the lease is looked at: were the process stopped after
	// that look, the events would seem to be of a time when it was over.
	at := w.o.Stamp()
	for _, r := range batch {
		switch {
		case r.err != nil, !r.onlyStages():
		case r.run != nil:
			r.err = w.disk.StageRun(&s.groups, r.run)
		default:
			r.err = w.stageOwn(r, s, at)
		}
		s.foreign = s.foreign || r.class == foreign
		s.bytes += r.weight
		s.records += r.records
	}
	s.batch = append(s.batch, batch...)
}

// unstage takes back what is staged, of which nothing was written.
func (w *writer) unstage(s stage) {
	w.disk.Undo(s.groups)
	for _, r := range s.batch {
		r.events = nil
	}
}

// publish shows the flushed groups to readers and wakes those who wait. The
// groups are folded while the next ones are written, see fold.start: whoever saw
// the new heads waits in View until that is done. An error is that of folding.
func (w *writer) publish(groups store.Batch) error {
	if groups.Empty() {
		return nil
	}
	if err := w.fold.failed(); err != nil {
		return err
	}
	size := w.disk.Show(groups)
	w.snaps.Grew(size)
	w.counted()
	return nil
}

// shown gets the events of a chain before anybody can see them.
func (w *writer) shown(src event.SourceID, events []event.Event, size int64) {
	if src == w.own {
		w.stab.Expect(events)
	}
	w.fold.add(events, size)
	w.snaps.Note(events)
}

// counted gives this host's vote for what is durable, and wakes those who wait.
func (w *writer) counted() {
	w.stab.Durable(w.store.Head(w.own))
	w.disk.Notify()
}

// answer answers requests. They are no longer the writer's then.
func (w *writer) answer(batch []*request) {
	w.in.giveBack(batch)
	for _, r := range batch {
		r.done <- struct{}{}
	}
}

// stageOwn gives drafts their places in the own chain, at a time before the
// lease is looked at. A refused request leaves no trace.
func (w *writer) stageOwn(r *request, s *stage, at time.Time) (err error) {
	for _, d := range r.drafts {
		if d.Term > 0 && !w.o.MayAct(d.Term) {
			return fmt.Errorf("%w: term %d", ErrFenced, d.Term)
		}
	}
	r.events, err = w.disk.Stage(&s.groups, r.drafts, r.bodies, at)
	return err
}

// renew starts a new incarnation of the own chain.
func (w *writer) renew(r *request, s *stage) error {
	if r.renew.inc != w.own.Inc { // else it was started in an earlier try
		if err := w.disk.Renew(r.renew.inc, r.renew.reason, w.began); errors.Is(err, store.ErrRenewal) {
			return fmt.Errorf("%w: %w", ErrDraft, err)
		} else if err != nil {
			return err
		}
		w.disk.Notify()
	}
	return w.stageOwn(r, s, w.o.Stamp())
}

// began notes which chain the own one is now.
func (w *writer) began(src event.SourceID) {
	w.own = src
	w.stab.Reset(src, 0)
}

// reopen recovers the running log after an I/O error: it reads again the chains
// of which something was being written, makes their ends durable and folds what
// turns out to have survived. A *segment.CorruptError says that the disk lost
// what was durable.
func (w *writer) reopen() error {
	started := time.Now()
	found, replace, err := w.disk.Rescan(w.snaps.Note)
	if err != nil {
		return err
	}
	err = w.fold.recovered(found, func() {
		for _, e := range found {
			if e.Source == w.own {
				w.stab.Expect([]event.Event{e})
			}
		}
		replace()
	})
	if err != nil {
		return err
	}
	w.in.open() // before Err says that all is well
	w.disk.Fail(nil)
	w.room.Measure(w.store.Sizes())
	w.m.poisoned.Set(0)
	w.m.reopened.Inc()
	w.log.Warn().Int("events", len(found)).Float64("dur_seconds", time.Since(started).Seconds()).
		Msg("event log recovered after an i/o error")
	w.counted()
	return nil
}

// poison refuses everything until reopen succeeds. What was being written is
// unknown; what was staged, or still queued, is certainly absent.
func (w *writer) poison(err error, written, absent []*request) {
	w.m.poisoned.Set(1)
	w.log.Error().Err(err).Msg("event log poisoned, nothing is written any more")
	poisoned := fmt.Errorf("%w: %w", ErrPoisoned, err)
	w.disk.Fail(poisoned)
	w.in.close()
	for _, r := range written {
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", replicate.ErrUnknown, poisoned)
		}
	}
	w.answer(written)
	w.refuse(absent, poisoned)
	w.refuseQueued(poisoned)
	w.disk.Notify()
	w.stab.Wake()
	w.o.OnPoison(err)
}

// refuseQueued answers everything that the writer will not take.
func (w *writer) refuseQueued(cause error) {
	for batch := w.in.take(nil); len(batch) > 0; batch = w.in.take(nil) {
		w.refuse(batch, cause)
	}
}

// refuse answers what was not written and will not be.
func (w *writer) refuse(batch []*request, cause error) {
	for _, r := range batch {
		switch {
		case r.err != nil: // refused for another reason
		case cause == nil:
			r.err = ErrClosed
		default:
			r.err = fmt.Errorf("%w: %w", ErrClosed, cause)
		}
		r.events = nil
	}
	w.answer(batch)
}
