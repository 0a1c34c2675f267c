package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/index"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// Log is the event log of one host: its own chain, copies of the other
// hosts' chains, and the fold of all of them. The embedded Store reads the chains.
type Log struct {
	*store.Store

	o     Options
	log   zerolog.Logger
	m     *metrics
	room  *disk.Room
	w     *writer
	fold  *fold
	rep   *replicate.Replicator
	snaps *snapshots.Keeper
	index *index.Keeper // nil: none
	mend  *audit.Mender

	newest *newest

	runOnce   sync.Once
	closeOnce sync.Once
	closeErr  error
}

// Open reads and repairs the log in Options.Dir. It starts nothing: appends
// wait until Run runs. A *segment.CorruptError means that the disk lost
// something that was durable; then nothing was changed.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	l, err := build(o)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if err = l.recover(); err != nil {
		_ = l.w.disk.Close() // nothing was written through it
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return l, nil
}

// build makes the parts of a log and locks its directory.
func build(o Options) (*Log, error) {
	in := newIntake(o.IntakeBytes)
	m, err := newMetrics(o.Registerer, in)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, m: m, newest: &newest{self: o.Self}, log: o.Logger.With().Str("component", "eventlog").Logger()}
	l.room, err = disk.NewRoom(disk.Options{
		Dir: o.Dir, FS: o.FS, Free: o.Free, LowWater: o.LowWater, Reserve: o.Reserve, MaxBytes: o.MaxBytes,
		SourceBytes: o.SourceBytes, SourceRate: o.SourceRate, OnChange: o.OnDisk, Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	var dw *store.Writer
	l.Store, dw, err = store.Open(store.Options{
		Dir: o.Dir, Cluster: o.Cluster, Self: o.Self, Incarnation: o.Incarnation, Key: o.Key, KeyOf: o.KeyOf, FS: o.FS, Room: l.room,
		SegmentSize: o.SegmentSize, Prealloc: o.Prealloc, Shown: l.shown, Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	if err := l.buildOn(dw, in); err != nil {
		_ = dw.Close() // nothing was written through it
		return nil, err
	}
	return l, nil
}

// buildOn makes the parts that work on the store.
func (l *Log) buildOn(dw *store.Writer, in *intake) (err error) {
	o := &l.o
	l.rep, err = replicate.New(replicate.Options{
		Cluster: o.Cluster, Self: o.Self, Store: l.Store, Writer: inbound{l}, Snapshots: snapshotAnswers{l}, KeyOf: o.KeyOf,
		MayAct: o.MayAct, Promised: o.Promised, Dial: o.Dial, Follow: o.Follow, RTT: o.RTT, Peers: o.Peers, Near: o.Near, Said: o.Said, Admit: l.admit, OnEquivocation: o.OnEquivocation,
		OnAhead: o.OnAhead, Wall: o.Wall, Float: o.Float, PullEvery: o.PullEvery, IOTimeout: o.IOTimeout,
		Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return err
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(replicate.NewAheadSeconds(l.Ahead)); err != nil {
			return fmt.Errorf("register chains that run ahead: %w", err)
		}
	}
	l.snaps, err = snapshots.New(snapshots.Options{
		Dir: o.Dir, Cluster: o.Cluster, Self: o.Self, Key: o.Key, MayAct: o.MayAct, Promised: o.Promised, Wall: o.Wall, Float: o.Float,
		FS: o.FS, Store: l.Store, Room: l.room, Log: snapshotLog{l}, Network: snapshotNetwork{l.rep},
		Repairing: func() bool { return len(l.mend.Repairing()) > 0 }, Paused: o.Paused,
		Events: o.SnapshotEvents, Bytes: o.SnapshotBytes, Check: o.SnapshotCheck, RetainBytes: o.RetainBytes, RetainAge: o.RetainAge,
		ArchiveDir: o.ArchiveDir, IOTimeout: o.IOTimeout, Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return err
	}
	if o.IndexDir != "" {
		l.index = index.New(index.Options{
			Dir: o.IndexDir, Cluster: o.Cluster, FS: o.FS, Log: l.Store, Takes: l.TakesWork, Every: o.IndexEvery, Logger: o.Logger,
		})
	}
	l.fold = &fold{store: l.Store, refold: l.snaps.Refold, m: l.m, log: l.log, wall: o.Wall, opened: o.Wall()}
	l.w = &writer{
		o: o, m: l.m, log: l.log, in: in, room: l.room, store: l.Store, disk: dw, fold: l.fold, stab: l.rep.Stability(), snaps: l.snaps,
	}
	return nil
}

// recover reads what is on the disk and folds it.
func (l *Log) recover() error {
	started := time.Now()
	dirs, err := segment.SourceDirs(l.o.FS, l.o.Dir)
	if err != nil {
		return err
	}
	repairs, err := audit.LoadRepairs(l.o.Dir)
	if err != nil {
		return err
	}
	lacking := slices.ContainsFunc(repairs, func(r audit.Repairing) bool { return r.State })
	from, err := l.snaps.Open(dirs, lacking)
	if err != nil {
		return err
	}
	if from.State == nil {
		from.State = state.New()
	} else {
		l.w.disk.Advance(from.Base.Clock)
		l.newest.advance(&l.newest.others, from.Base.Clock)
	}
	l.fold.begin(from.State, from.Base)
	l.fold.waits = l.snaps.Lacks()
	var damaged []store.Damaged
	for _, r := range repairs {
		if r.Own {
			damaged = append(damaged, store.Damaged{Source: r.Source, Kept: r.Kept, Reason: r.Renewal()})
		}
	}
	events, err := l.w.disk.Recover(store.Recovery{
		Sources: from.Sources, Base: l.snaps, Damaged: damaged,
		Load: func(events []event.Event) {
			l.fold.load(events)
			l.snaps.Note(events)
			l.newest.note(events)
		},
		Check: func() error { return l.snaps.Settle(l.fold.st.Forks()) },
	})
	if err != nil {
		return err
	}
	l.room.Adopt()
	l.measure()
	if err := l.fold.refoldLocked(); err != nil { // nobody else knows the log yet
		return err
	}
	l.w.own = l.Source()
	l.w.stab.Reset(l.w.own, l.Head(l.w.own).Seq)
	l.mend = audit.NewMender(audit.MenderOptions{
		Dir: l.o.Dir, Store: l.Store, Repairs: repairs, Receive: l.rep.Receive, Lacks: l.snaps.Lacks, Voters: l.rep.Voters, Peers: l.o.Peers,
		Logger: l.log,
	})
	l.m.recovery.Set(time.Since(started).Seconds())
	l.log.Info().Int("sources", len(from.Sources)).Uint64("events", events).
		Float64("dur_seconds", time.Since(started).Seconds()).Msg("event log opened")
	return nil
}

// Run writes and replicates until ctx ends, then makes durable what was
// admitted, answers everyone and closes the log. When a write fails it calls
// Options.OnPoison, so that the caller gives up the lease, and recovers the log
// by itself. It returns an error wrapping ErrPoisoned if ctx ends before that
// works, and a *segment.CorruptError as well if the disk lost what was durable.
// Run may be called once.
func (l *Log) Run(ctx context.Context) error {
	first := false
	l.runOnce.Do(func() { first = true })
	if !first {
		return errors.New("event log: run called twice")
	}
	partsCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.rep.Run(partsCtx) })
	wg.Go(func() { l.snaps.Run(partsCtx) })
	if l.index != nil {
		wg.Go(func() { l.index.Run(partsCtx) })
	}
	wg.Go(func() { l.room.Run(partsCtx, l.Sizes) })
	err := l.w.run(ctx)
	cancel()
	wg.Wait()
	l.fold.running.Wait()
	return errors.Join(err, l.Close())
}

// Close releases a log whose Run was never called, or has returned. Appends
// that still wait are rejected.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.runOnce.Do(func() {})
		l.w.in.close()
		l.w.refuseQueued(nil)
		l.fold.view(func(*state.State) {}) // the last group may still be to be folded
		l.closeErr = l.w.disk.Close()
	})
	return l.closeErr
}

// shown gets the events of a chain before anybody can see them.
func (l *Log) shown(src event.SourceID, events []event.Event, size int64) {
	l.newest.note(events)
	l.w.shown(src, events, size)
}

// measure notes how large the log is, and looks at the disk.
func (l *Log) measure() { l.room.Measure(l.Sizes()) }

// Append adds the drafts to the own chain, all or none, and returns when they
// are durable on this disk. Errors wrapping ErrRejected mean that nothing was
// or will be written; errors wrapping replicate.ErrUnknown that the group may be
// in the log. A draft with a term needs Options.MayAct to agree, here and again
// when the group is written.
func (l *Log) Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error) {
	r, err := l.prepare(drafts)
	if err != nil {
		l.m.reject(err)
		return nil, fmt.Errorf("append %d events: %w", len(drafts), err)
	}
	if len(drafts) == 0 {
		return nil, nil
	}
	if err := l.submit(ctx, r); err != nil {
		l.m.reject(err)
		return nil, fmt.Errorf("append %d events: %w", len(drafts), err)
	}
	if !r.began.IsZero() {
		l.m.appendTime.Observe(time.Since(r.began).Seconds())
	}
	events := r.events
	l.w.in.recycle(r)
	return events, nil
}

// submit hands r to the writer and waits for its answer.
func (l *Log) submit(ctx context.Context, r *request) error {
	if err := l.w.in.put(ctx, r); err != nil {
		return err
	}
	return l.await(ctx, r)
}

// await returns the writer's answer to a request that was put.
func (l *Log) await(ctx context.Context, r *request) error {
	if ctx.Done() == nil { // cheaper than the other
		<-r.done
		return r.err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		if l.w.in.cancel(r) {
			return fmt.Errorf("%w: %w", errCancelled, context.Cause(ctx))
		}
		return fmt.Errorf("%w: %w", replicate.ErrUnknown, context.Cause(ctx))
	}
}

var errCancelled = fmt.Errorf("%w: cancelled before it was written", ErrRejected)

// prepare checks drafts and encodes their bodies.
func (l *Log) prepare(drafts []event.Draft) (r *request, err error) {
	r = l.w.in.newAppend(drafts)
	for _, d := range drafts {
		start := len(r.room)
		if r.room, err = event.AppendBody(r.room, d.Body); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDraft, d.Kind, err)
		}
		body := r.room[start:]
		if len(body) > record.MaxBody {
			return nil, fmt.Errorf("%w: %s of %d bytes", ErrTooLarge, d.Kind, len(body))
		}
		probe := event.Event{Source: event.SourceID{Node: l.o.Self, Inc: 1}, Seq: 1, Term: d.Term, Kind: d.Kind, Body: body}
		if d.Kind.Authority() && d.Term == 0 {
			return nil, fmt.Errorf("%w: %s without a term", ErrDraft, d.Kind)
		}
		if err := record.CheckEvent(probe); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDraft, err)
		}
		if body[0] != '{' { // that it is JSON is certain
			return nil, fmt.Errorf("%w: the body of %s is not a JSON object", ErrDraft, d.Kind)
		}
		if d.Term > 0 && !l.o.MayAct(d.Term) {
			return nil, fmt.Errorf("%w: term %d", ErrFenced, d.Term)
		}
		r.bodies = append(r.bodies, body)
		r.weight += int64(record.EventLen(probe)) + record.FrameHeaderLen
		if d.Kind.Essential() {
			r.class = urgent
		} else if !l.room.Takes(false) {
			return nil, fmt.Errorf("%w: no room for %s", ErrDiskFull, d.Kind)
		}
	}
	if r.weight > wire.MaxAppend {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, r.weight, wire.MaxAppend)
	}
	return r, nil
}

// After yields the events after at that f selects, see store.Store.After. It reads
// little of the log to find what is about something rare.
func (l *Log) After(ctx context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error] {
	if l.index != nil && f.Find == nil && f.About != (event.Subject{}) {
		f.Find = l.index.Find(f.About)
	}
	return l.Store.After(ctx, at, f)
}

// View calls f with the fold of all durable events, at least those that Heads
// or Digest showed before. f must only read, must not keep the state, and
// holds up the fold while it runs, and soon the writer.
func (l *Log) View(f func(*state.State)) { l.fold.view(f) }

// Disk returns how much room the log has.
func (l *Log) Disk() disk.Report { return l.room.Report() }

// TakesWork says whether the disk has room for new work: drafts that are not
// essential. Append refuses them with ErrDiskFull otherwise.
func (l *Log) TakesWork() bool { return l.room.Takes(false) }

// SetVoters tells the log who votes. New own events are pushed to the other
// voters at once, and stability counts them.
func (l *Log) SetVoters(cfg cluster.VoterConfig) { l.w.stab.SetVoters(cfg) }

// WaitStable waits until the own event seq, 0 for the last one, is stable, see
// replicate.Stability.Wait.
func (l *Log) WaitStable(ctx context.Context, seq uint64) (voters int, err error) {
	return l.w.stab.Wait(ctx, seq)
}

// CatchUp returns when this log holds everything that a majority of voters held
// after they promised term, see replicate.Replicator.CatchUp.
func (l *Log) CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, majority int) error {
	return l.rep.CatchUp(ctx, term, granters, majority)
}

// CheckOwnHead asks peers how much of this host's own chain they hold, see
// replicate.Replicator.CheckOwnHead.
func (l *Log) CheckOwnHead(ctx context.Context, peers []cluster.NodeID) (answered int, err error) {
	return l.rep.CheckOwnHead(ctx, peers)
}

// HeadsOf asks peer for the ends of its chains, see replicate.Replicator.HeadsOf.
func (l *Log) HeadsOf(ctx context.Context, peer cluster.NodeID, term cluster.Term) ([]event.Head, error) {
	return l.rep.HeadsOf(ctx, peer, term)
}

// Sync pulls from peer every event that it holds and this log does not.
func (l *Log) Sync(ctx context.Context, peer cluster.NodeID) error { return l.rep.Sync(ctx, peer) }

// Serve answers the questions of one stream of wire.Proto. It closes conn.
func (l *Log) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	l.rep.Serve(ctx, from, conn)
}

// TakeSnapshot takes a snapshot now, see snapshots.Keeper.Take.
func (l *Log) TakeSnapshot(ctx context.Context, actor string) (snapshots.Info, error) {
	return l.snaps.Take(ctx, actor)
}

// Snapshots tells what snapshots there are and what could be dropped.
func (l *Log) Snapshots() snapshots.Status { return l.snaps.Status() }

// Repairing returns the chains of which something is still to be fetched after
// a repair.
func (l *Log) Repairing() []audit.Repairing { return l.mend.Repairing() }

// Missing says whether what a repair found missing is not here yet.
func (l *Log) Missing(r audit.Repairing) bool { return l.mend.Missing(r) }

// Mend fetches from peer what a repair found missing, see audit.Mender.Mend.
func (l *Log) Mend(ctx context.Context, peer cluster.NodeID) ([]audit.Repairing, error) {
	if peer == l.o.Self { // whose files are all there is
		return l.mend.Mend(ctx, nil)
	}
	return l.mend.Mend(ctx, func(ctx context.Context) error {
		l.snaps.Want(peer)
		return l.Sync(ctx, peer)
	})
}

// Verify checks this log as audit.Verify does, up to what is durable when it
// starts. It calls progress, if not nil, with the number of events read.
func (l *Log) Verify(ctx context.Context, progress func(events uint64)) (audit.Report, error) {
	defer l.snaps.Hold()() // what is dropped waits until this is over
	known := map[cluster.Hash]bool{}
	for _, s := range l.Snapshots().Kept {
		known[s.ID] = true
	}
	began := time.Now()
	o := l.files()
	o.Progress, o.Limits, o.Known = progress, l.Limits(), known
	r, err := audit.Verify(ctx, o)
	l.m.verified.Add(float64(r.Events))
	if err == nil {
		l.m.verifyRate.Set(float64(r.Events) / max(time.Since(began), time.Microsecond).Seconds())
	}
	return r, err
}

// ReplayAt folds this log up to at, see audit.Dir.ReplayAt, of what its files hold
// when it starts.
func (l *Log) ReplayAt(ctx context.Context, at audit.At) (*state.State, audit.Replayed, error) {
	defer l.snaps.Hold()() // what is dropped waits until this is over
	d, err := audit.OpenDir(l.files())
	if err != nil {
		return nil, audit.Replayed{}, fmt.Errorf("replay event log: %w", err)
	}
	return d.ReplayAt(ctx, at)
}

// Rewind returns what replays this log up to one moment after the other.
func (l *Log) Rewind() *audit.Rewind { return audit.NewRewind(l, l.snaps.Hold, l.files(), 0) }

// files says where the log is.
func (l *Log) files() audit.VerifyOptions {
	return audit.VerifyOptions{Dir: l.o.Dir, Cluster: l.o.Cluster, KeyOf: l.KeyOf, Self: l.o.Self, FS: l.o.FS}
}
