package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/scheduler"
)

// HolderOptions configures a Holder.
type HolderOptions struct {
	// Dial and DialCrew are those of scheduler.Options.
	Dial, DialCrew func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// Hosts are the members; none: the holder alone.
	Hosts []cluster.NodeID
	// Begin is what its log says first.
	Begin []event.Draft
}

// Holder is the scheduler of one host, with its event log on the disk.
type Holder struct {
	*scheduler.Scheduler // of the present term

	Log     *CountingLog
	Self    cluster.NodeID
	o       HolderOptions
	began   time.Time
	jobs    int
	resign  func() error
	stopLog func() error
}

// CountingLog counts the accepted results that are on the disk.
type CountingLog struct {
	*eventlog.Log
	Accepted atomic.Int64
	Synced   atomic.Pointer[time.Time] // when the last submission was
	// Ended is where the ends of jobs are told once they are on the disk, if there is room.
	Ended atomic.Pointer[chan time.Time]
}

// Append counts after the group is synced.
func (l *CountingLog) Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error) {
	events, err := l.Log.Append(ctx, drafts)
	if err == nil {
		n := 0
		for _, d := range drafts {
			if b, ok := d.Body.(event.ChunksAccepted); ok {
				n += len(b.Accepts)
			}
			if d.Kind == event.KindJobSubmitted {
				now := time.Now()
				l.Synced.Store(&now)
			}
			if ended := l.Ended.Load(); ended != nil && d.Kind == event.KindJobDone {
				select {
				case *ended <- time.Now():
				default:
				}
			}
		}
		l.Accepted.Add(int64(n))
	}
	return events, err
}

// NewHolder opens the log of a holder, which leads no term yet.
func NewHolder(ctx context.Context, dir string, o HolderOptions) (*Holder, error) {
	lo, err := LogOptions(dir)
	if err != nil {
		return nil, err
	}
	l, stop, err := RunLog(lo)
	if err != nil {
		return nil, err
	}
	alone := []cluster.NodeID{lo.Self}
	l.SetVoters(cluster.VoterConfig{Epoch: 1, Term: 1, Voters: alone, Mode: cluster.AutoMode(len(alone))})
	h := &Holder{Log: &CountingLog{Log: l}, Self: lo.Self, o: o, began: time.Now(), resign: func() error { return nil }, stopLog: stop}
	if len(o.Hosts) == 0 {
		h.o.Hosts = alone
	}
	for begin := o.Begin; len(begin) > 0; {
		n := min(len(begin), 500)
		if _, err := l.Append(ctx, begin[:n]); err != nil {
			return nil, errors.Join(err, stop())
		}
		begin = begin[n:]
	}
	return h, nil
}

// Lead begins a term, by a scheduler that knows what the log says, and ends the one before.
func (h *Holder) Lead(term cluster.Term) error {
	if err := h.Resign(); err != nil {
		return err
	}
	s, err := scheduler.New(scheduler.Options{
		Self: h.Self, Log: h.Log, MayAct: AnyTerm, Dial: h.o.Dial, DialCrew: h.o.DialCrew,
		Now: func() time.Duration { return time.Since(h.began) }, Logger: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	s.SetWorkers(h.o.Hosts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, term) }()
	h.Scheduler = s
	h.resign = func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	return nil
}

// Resign ends the term, if there is one.
func (h *Holder) Resign() error {
	end := h.resign
	h.resign = func() error { return nil }
	return end()
}

// Close ends the term and the log.
func (h *Holder) Close() error { return errors.Join(h.Resign(), h.stopLog()) }

// Connected waits until n workers are.
func (h *Holder) Connected(ctx context.Context, n int) error {
	return suite.Poll(ctx, fmt.Sprintf("%d workers connected", n), 30*time.Second, func() bool {
		is := 0
		for _, w := range h.Workers() {
			if w.Connected {
				is++
			}
		}
		return is == n
	})
}

// Queue hands in a job of so many chunks, which is on the disk then.
func (h *Holder) Queue(ctx context.Context, owner string, chunks int) error {
	h.jobs++
	_, err := h.Submit(ctx, job.Spec{
		Key: fmt.Sprintf("job-%d", h.jobs), Artefact: cluster.Hash{1}, Iterations: 1000 * uint64(chunks), Chunk: 1000,
	}, owner, scheduler.WaitLocal, true)
	return err
}
