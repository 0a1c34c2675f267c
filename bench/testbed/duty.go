package testbed

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/lease"
)

// duty is what the daemon does with the lease, without the scheduler: catch
// up, open the term in the log, commit, flush, let go.
type duty struct {
	svc     *coord.Service
	log     *eventlog.Log
	profile cluster.Profile
	ready   <-chan struct{} // closed when the own chain may be appended to
	note    func(moment)

	held *heldTerm
}

// moment is when a host got a term, and when the first effect of that term was
// on a majority's disks.
type moment struct {
	node      cluster.NodeID
	term      cluster.Term
	Acquired  time.Time
	Committed time.Time // zero if it is not yet
}

type heldTerm struct {
	term   cluster.Term
	cancel context.CancelFunc
	opened chan struct{}  // closed when term_start is stable
	work   sync.WaitGroup // the serving goroutine and the confirmations
}

// run follows the lease until ctx ends.
func (d *duty) run(ctx context.Context) {
	defer d.end()
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-d.svc.Actions():
			d.on(ctx, a)
		}
	}
}

func (d *duty) on(ctx context.Context, action lease.Action) {
	switch a := action.(type) {
	case lease.Acquired:
		at := time.Now()
		d.end()
		d.note(moment{node: d.svc.View().Self, term: a.Term, Acquired: at})
		termCtx, cancel := context.WithCancel(ctx)
		held := &heldTerm{term: a.Term, cancel: cancel, opened: make(chan struct{})}
		d.held = held
		held.work.Go(func() { d.serve(termCtx, held, a, at) })
	case lease.ConfigStable:
		d.log.SetVoters(a.Config)
		if held := d.held; held != nil && held.term == a.Term {
			termCtx, cancel := context.WithCancel(ctx)
			held.work.Go(func() {
				defer cancel()
				d.confirm(termCtx, held, a)
			})
			held.cancel = both(held.cancel, cancel)
		}
	case lease.Quiesce:
		d.quiesce(ctx, a)
	case lease.Lost:
		d.end()
	case lease.Observed:
		if d.held == nil {
			d.log.SetVoters(d.svc.View().Lease.Config)
		}
	}
}

func both(a, b context.CancelFunc) context.CancelFunc {
	return func() { a(); b() }
}

// serve opens the term and commits one effect under it.
func (d *duty) serve(ctx context.Context, held *heldTerm, a lease.Acquired, at time.Time) {
	d.log.SetVoters(a.Config)
	select {
	case <-d.ready:
	case <-ctx.Done():
		return
	}
	ok := again(ctx, func() error {
		if a.Config.Mode == cluster.ModeAvailable {
			return nil // only while the cluster grows
		}
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return d.log.CatchUp(try, a.Term, a.Config.Voters, a.Config.Majority())
	})
	ok = ok && d.commit(ctx, func() event.Draft {
		return event.Draft{Term: a.Term, Kind: event.KindTermStart, Body: event.TermStart{
			Term: a.Term, Voters: a.Config.Voters, Grants: a.Grants, Previous: a.Previous, Cut: d.log.Cut(),
			Profile: d.profile, ConfigTerm: a.Config.Term, Epoch: a.Config.Epoch,
		}}
	})
	if !ok {
		return
	}
	close(held.opened)
	d.svc.TermReady(a.Term, a.Config.Epoch)
	if d.commit(ctx, func() event.Draft {
		return event.Draft{Term: a.Term, Kind: event.KindJobStopped, Body: event.JobStopped{Job: "none", Actor: "bench"}}
	}) {
		d.note(moment{node: d.svc.View().Self, term: a.Term, Acquired: at, Committed: time.Now()})
	}
}

// confirm logs a configuration and tells the core when a majority holds it.
func (d *duty) confirm(ctx context.Context, held *heldTerm, a lease.ConfigStable) {
	select {
	case <-held.opened:
	case <-ctx.Done():
		return
	}
	if d.commit(ctx, func() event.Draft {
		return event.Draft{Term: a.Term, Kind: event.KindConfigChanged, Body: event.ConfigChanged{Config: a.Config}}
	}) {
		d.svc.TermReady(a.Term, a.Config.Epoch)
	}
}

// commit appends one event and waits until it is stable; false if ctx ended.
func (d *duty) commit(ctx context.Context, draft func() event.Draft) bool {
	var seq uint64
	return again(ctx, func() error {
		if seq == 0 {
			events, err := d.log.Append(ctx, []event.Draft{draft()})
			if err != nil {
				return err
			}
			seq = events[0].Seq
		}
		_, err := d.log.WaitStable(ctx, seq)
		return err
	})
}

func (d *duty) quiesce(ctx context.Context, a lease.Quiesce) {
	flush, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	d.end()
	events, err := d.log.Append(flush, []event.Draft{{
		Kind: event.KindLeaseReleased, Body: event.LeaseReleased{Term: a.Term, Successor: a.Successor, Reason: "released"},
	}})
	if err == nil {
		_, err = d.log.WaitStable(flush, events[0].Seq-1) // term_start is before it
	}
	d.svc.Quiesced(a.Term)
	if err == nil {
		_, _ = d.log.WaitStable(flush, events[0].Seq) // the successor catches up in any case
	}
}

func (d *duty) end() {
	if d.held != nil {
		d.held.cancel()
		d.held.work.Wait()
		d.held = nil
	}
}

// again calls f until it succeeds, and reports false when ctx ended before.
func again(ctx context.Context, f func() error) bool {
	for f() != nil {
		if suite.Pause(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
	return true
}
