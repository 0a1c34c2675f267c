package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/durable"
)

// Log is the event log of one host: its own chain, copies of the other
// hosts' chains, and the fold of all of them.
type Log struct {
	o         Options
	fs        FS
	log       zerolog.Logger
	m         *metrics
	lock      *os.File
	in        *intake
	disk      *disk
	quota     *quota
	watermark watermark // the writer's
	rep       *replicator
	snap      *snapshots

	// The writer's, without lock.
	fresh map[cluster.SourceID]*chain // not yet in chains
	hlc   cluster.HLC                 // highest of all events

	mu       sync.RWMutex
	chains   map[cluster.SourceID]*chain // those with events
	own      *chain
	digest   []byte        // nil: to be computed
	changed  chan struct{} // closed and replaced on every change
	unstable []ownTerm     // own events from the last stable one on
	poisoned error
	repairs  []Repairing               // what is still to be fetched after a repair
	forks    map[cluster.SourceID]Fork // changed by the writer only

	fold        fold
	folding     sync.WaitGroup // the fold of what is pending, while the writer goes on
	opened      time.Time      // by Options.Wall
	aheadWarned atomic.Bool
	tails       atomic.Int32 // streams that are told of changes

	runOnce   sync.Once
	closeOnce sync.Once
	closeErr  error
}

// ownTerm is the term of one own event.
type ownTerm struct {
	seq  uint64
	term cluster.Term
}

// Open reads and repairs the log in Options.Dir. It starts nothing: appends
// wait until Run runs. A *CorruptError means that the disk lost something
// that was durable; then nothing was changed.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	in := newIntake(o.IntakeBytes)
	m, err := newMetrics(o.Registerer, in)
	if err != nil {
		return nil, err
	}
	l := &Log{
		o: o, fs: o.FS, m: m, in: in,
		log:     o.Logger.With().Str("component", "eventlog").Logger(),
		fresh:   map[cluster.SourceID]*chain{},
		chains:  map[cluster.SourceID]*chain{},
		forks:   map[cluster.SourceID]Fork{},
		changed: make(chan struct{}),
		opened:  o.Wall(),
	}
	l.fold.st = state.New()
	l.rep = &replicator{l: l, busy: map[cluster.NodeID]bool{}}
	l.rep.stab.init()
	if l.snap, err = newSnapshots(l); err != nil {
		return nil, err
	}
	l.disk, l.quota = newDisk(o, m), newQuota(o)
	if err := l.fs.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create event log: %w", err)
	}
	if l.lock, err = durable.Lock(o.Dir); err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	if err = l.recover(); err == nil && o.Registerer != nil {
		err = o.Registerer.Register(newLag(l))
	}
	if err != nil {
		_ = l.lock.Close() // nothing was written through it
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return l, nil
}

// Run writes and replicates until ctx ends, then makes durable what was
// admitted, answers everyone and closes the log. When a write fails it tells
// Options.OnPoison, so that the caller gives up the lease, and recovers the log
// by itself. It returns an error wrapping ErrPoisoned if ctx ends before that
// works, and a *CorruptError as well if the disk lost what was durable. Run may
// be called once.
func (l *Log) Run(ctx context.Context) error {
	first := false
	l.runOnce.Do(func() { first = true })
	if !first {
		return errors.New("event log: run called twice")
	}
	repCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.rep.run(repCtx) })
	wg.Go(func() { l.snap.run(repCtx) })
	wg.Go(func() { l.watchDisk(repCtx) })
	err := l.runWriter(ctx)
	cancel()
	wg.Wait()
	l.folding.Wait()
	return errors.Join(err, l.Close())
}

// Close releases a log whose Run was never called, or has returned. Appends
// that still wait are rejected.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.runOnce.Do(func() {})
		l.in.close()
		l.refuseQueued(nil)
		l.view(func(*state.State) {}) // the last group may still be to be folded
		l.closeErr = errors.Join(l.closeFiles(), l.lock.Close())
	})
	return l.closeErr
}

// Append adds the drafts to the own chain, all or none, and returns when they
// are durable on this disk. Errors wrapping ErrRejected mean that nothing was
// or will be written; errors wrapping ErrUnknown that the group may be in the
// log. A draft with a term needs Options.MayAct to agree, here and again when
// the group is written.
func (l *Log) Append(ctx context.Context, drafts []cluster.Draft) ([]cluster.Event, error) {
	r, err := l.prepare(drafts)
	if err != nil {
		l.count(err)
		return nil, fmt.Errorf("append %d events: %w", len(drafts), err)
	}
	if len(drafts) == 0 {
		return nil, nil
	}
	if err := l.submit(ctx, r); err != nil {
		l.count(err)
		return nil, fmt.Errorf("append %d events: %w", len(drafts), err)
	}
	if !r.began.IsZero() {
		l.m.appendTime.Observe(time.Since(r.began).Seconds())
	}
	events := r.events
	l.in.recycle(r)
	return events, nil
}

// submit hands r to the writer and waits for its answer.
func (l *Log) submit(ctx context.Context, r *request) error {
	if err := l.in.put(ctx, r); err != nil {
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
		if l.in.cancel(r) {
			return fmt.Errorf("%w: %w", errCancelled, context.Cause(ctx))
		}
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

var errCancelled = fmt.Errorf("%w: cancelled before it was written", ErrRejected)

func (l *Log) count(err error) {
	for _, c := range []struct {
		err    error
		reason string
	}{
		{ErrFull, "full"},
		{ErrDiskFull, "disk_full"},
		{ErrClosed, "closed"},
		{ErrTooLarge, "too_large"},
		{ErrFenced, "fenced"},
		{ErrDraft, "draft"},
		{errCancelled, "cancelled"},
	} {
		if errors.Is(err, c.err) {
			l.m.rejected.WithLabelValues(c.reason).Inc()
			return
		}
	}
}

// prepare checks drafts and encodes their bodies.
func (l *Log) prepare(drafts []cluster.Draft) (r *request, err error) {
	r = l.in.newAppend(drafts)
	for _, d := range drafts {
		start := len(r.room)
		if r.room, err = cluster.AppendBody(r.room, d.Body); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDraft, d.Kind, err)
		}
		body := r.room[start:]
		if len(body) > record.MaxBody {
			return nil, fmt.Errorf("%w: %s of %d bytes", ErrTooLarge, d.Kind, len(body))
		}
		probe := cluster.Event{Source: cluster.SourceID{Node: l.o.Self, Inc: 1}, Seq: 1, Term: d.Term, Kind: d.Kind, Body: body}
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
		} else if !l.disk.takes(false) {
			return nil, fmt.Errorf("%w: no room for %s", ErrDiskFull, d.Kind)
		}
	}
	if r.weight > MaxAppend {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, r.weight, MaxAppend)
	}
	return r, nil
}

// View calls f with the fold of all durable events, at least those that Heads
// or Digest told of before. f must only read, must not keep the state, and
// holds up the fold while it runs, and soon the writer.
func (l *Log) View(f func(*state.State)) { l.view(f) }

// Source returns the own chain's name.
func (l *Log) Source() cluster.SourceID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.own.src
}

// Err returns the error that poisoned the log, nil if it is sound.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.poisoned
}

// Heads returns the durable end of every chain, sorted by source, each signed
// by its source.
func (l *Log) Heads() []cluster.Head {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.headsLocked()
}

func (l *Log) headsLocked() []cluster.Head {
	heads := make([]cluster.Head, 0, len(l.chains))
	for _, c := range l.chains {
		// All that is left of a forked chain may be what a snapshot holds.
		if len(c.head.Sig) > 0 {
			heads = append(heads, c.head)
		}
	}
	slices.SortFunc(heads, func(a, b cluster.Head) int { return a.Source.Compare(b.Source) })
	return heads
}

// Head returns the durable end of one chain; Seq is 0 if it is not here.
func (l *Log) Head(src cluster.SourceID) cluster.Head {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if c := l.chains[src]; c != nil {
		return c.head
	}
	return cluster.Head{Source: src}
}

// Cut returns the durable positions of all chains, as a term start records
// them. A forked chain counts up to its fork.
func (l *Log) Cut() cluster.Cut {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.DeleteFunc(l.marksLocked(), func(m cluster.SourceMark) bool { return m.Seq == 0 })
}

// Size returns how many bytes all segments hold.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, c := range l.chains {
		for _, s := range c.segs {
			n += s.size
		}
	}
	return n
}

// Digest returns a short hash over the durable positions of all chains, forked
// ones up to their forks, and the forks. Two logs with the same digest hold the
// same events that count, and have the same state.
func (l *Log) Digest() [16]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.digest == nil {
		sum := digest(l.marksLocked(), l.forksLocked())
		l.digest = sum[:]
	}
	return [16]byte(l.digest)
}

func digest(marks cluster.Cut, forks []Fork) [16]byte {
	h := sha256.New()
	var b []byte
	for _, m := range marks {
		b = binary.BigEndian.AppendUint64(appendSource(b[:0], m.Source), m.Seq)
		h.Write(append(b, m.Hash[:]...))
	}
	if len(forks) > 0 {
		h.Write(appendForks(b[:0], forks))
	}
	return [16]byte(h.Sum(nil))
}

// Changed returns a channel that is closed at the next change: new durable
// events, or the end of writing. Fetch it before looking, or a change may
// slip between.
func (l *Log) Changed() <-chan struct{} {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.changed
}

func (l *Log) notify() {
	l.mu.Lock()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
}

// Wait returns when the chain of src is durable up to seq here.
func (l *Log) Wait(ctx context.Context, src cluster.SourceID, seq uint64) error {
	for {
		changed := l.Changed()
		if l.Head(src).Seq >= seq {
			return nil
		}
		if err := l.Err(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s at seq %d: %w", src, seq, context.Cause(ctx))
		}
	}
}

// after waits d or until ctx ends, which it reports.
func after(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
