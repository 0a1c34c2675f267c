package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// Bounds of the holder's duty.
const (
	// catchUpTry bounds one attempt to read a majority's logs.
	catchUpTry = 5 * time.Second
	// catchUpAlone is how long a voter that may go on alone waits for the others.
	catchUpAlone = 1500 * time.Millisecond
	// retryPause lies between attempts; the lease bounds their number.
	retryPause = 50 * time.Millisecond
	// quiesceTime bounds the flush before a release; the lease core releases
	// after 500 ms whatever happens here.
	quiesceTime = 400 * time.Millisecond
	// followEvery is how often a host that does not hold looks who votes.
	followEvery = time.Second
	// endTermTime bounds the end of a term that was lost.
	endTermTime = 10 * time.Second
)

// elector is what the duty needs of the coordination service.
type elector interface {
	View() *coord.View
	TermReady(term cluster.Term, epoch uint64)
	Quiesced(term cluster.Term)
}

// history is what the duty needs of the event log.
type history interface {
	Append(ctx context.Context, drafts []cluster.Draft) ([]cluster.Event, error)
	WaitStable(ctx context.Context, seq uint64) (int, error)
	CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, need int) error
	Cut() cluster.Cut
	SetVoters(cfg cluster.VoterConfig)
}

// chunkScheduler is what the duty needs of the scheduler.
type chunkScheduler interface {
	Run(ctx context.Context, term cluster.Term) error
	Quiesce(ctx context.Context) error
}

// dutyTaker does what the publishing duty is for. SetDuty is called in the
// order of the changes and must not block. Publishing says whether this host
// has the duty from now on; other hosts may have it too.
type dutyTaker interface {
	SetDuty(d lease.Duty)
}

// duty turns what the lease core decides into what a holder does: catch up,
// open the term in the log, schedule, flush, let go. It passes the publishing
// duty on, which needs no term.
type duty struct {
	log     zerolog.Logger
	profile cluster.Profile
	// ready is closed when the own chain may be appended to.
	ready   <-chan struct{}
	elector elector
	history history
	sched   chunkScheduler
	publish dutyTaker // nil: this host has nothing to publish
	// note logs a fact, some time; it does not wait.
	note func(cluster.Kind, any)

	held       *heldTerm // nil: not holding
	follows    uint64    // epoch of the voters that the log was told of last while not holding
	publishing bool      // last noted
}

// heldTerm is the goroutine that serves one term.
type heldTerm struct {
	term    cluster.Term
	cancel  context.CancelFunc
	done    chan struct{}  // closed when the goroutine ended
	began   uint64         // seq of term_start, 0 before; the goroutine's own
	opened  chan struct{}  // closed when term_start is stable
	voters  sync.WaitGroup // confirmations of configurations
	confirm func(lease.ConfigStable)
}

// run follows the lease until ctx ends.
func (d *duty) run(ctx context.Context, actions <-chan lease.Action) error {
	defer d.end("daemon stops")
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			d.follow()
		case a := <-actions:
			d.on(ctx, a)
		}
	}
}

func (d *duty) on(ctx context.Context, action lease.Action) {
	switch a := action.(type) {
	case lease.Acquired:
		d.end("superseded")
		termCtx, cancel := context.WithCancel(ctx)
		held := &heldTerm{term: a.Term, cancel: cancel, done: make(chan struct{}), opened: make(chan struct{})}
		held.confirm = func(c lease.ConfigStable) {
			held.voters.Go(func() { d.confirm(termCtx, held, c) })
		}
		d.held = held
		go func() {
			defer close(held.done)
			defer held.voters.Wait()
			if err := d.serve(termCtx, held, a); err != nil && termCtx.Err() == nil {
				d.log.Error().Err(err).Uint64("term", uint64(a.Term)).Msg("term ended early")
			}
		}()
	case lease.Quiesce:
		d.quiesce(ctx, a)
	case lease.Lost:
		if d.held != nil && d.held.term == a.Term {
			d.note(cluster.KindLeaseLost, cluster.LeaseLost{Term: a.Term, Reason: a.Reason})
		}
		d.end(a.Reason)
	case lease.Duty:
		if d.publish != nil {
			d.publish.SetDuty(a)
		}
		if d.publishing != a.Publishing {
			d.publishing = a.Publishing
			d.note(cluster.KindPublishing, cluster.Publishing{Publishing: a.Publishing, Term: a.Term, Publisher: a.Publisher, Why: a.Why()})
		}
	case lease.ConfigStable:
		d.history.SetVoters(a.Config)
		d.log.Info().Uint64("term", uint64(a.Term)).Uint64("epoch", a.Config.Epoch).
			Strs("voters", names(a.Config.Voters)).Str("mode", string(a.Config.Mode)).Msg("voters changed")
		if d.held != nil && d.held.term == a.Term {
			d.held.confirm(a)
		}
	case lease.Observed:
		if d.held == nil {
			d.follows = 0
			d.follow()
		}
		d.log.Info().Uint64("term", uint64(a.Term)).Str("peer", string(a.Holder)).Msg("holder observed")
	}
}

// follow tells the log who votes, as this host knows it, while it does not hold
// the lease: not to count stability by, but to push what this host writes, and
// to know whose word a snapshot is good by. A host that is new learns it only
// some time after it has seen the holder.
func (d *duty) follow() {
	if d.held != nil {
		return
	}
	if cfg := d.elector.View().Lease.Config; !cfg.IsZero() && cfg.Epoch != d.follows {
		d.follows = cfg.Epoch
		d.history.SetVoters(cfg)
	}
}

// confirm logs a configuration that became stable, once the term is open, and
// tells the core when a majority of its voters holds the log: only then may
// the next voter come, or voters that know nothing could outvote the rest.
func (d *duty) confirm(ctx context.Context, held *heldTerm, a lease.ConfigStable) {
	select {
	case <-held.opened:
	case <-ctx.Done():
		return
	}
	var seq uint64
	met := !a.Config.Split() || a.Config.Mode == cluster.ModeAvailable
	err := retry(ctx, func() error {
		if !met {
			// Nobody acts alone any more, and a later term will fence what its
			// majority has not seen: what each did alone must be here first.
			if err := d.meet(ctx, a.Term, a.Config.Voters); err != nil {
				return err
			}
			met = true
		}
		if seq == 0 {
			events, err := d.history.Append(ctx, []cluster.Draft{{
				Term: a.Term, Kind: cluster.KindConfigChanged, Body: cluster.ConfigChanged{Config: a.Config},
			}})
			if err != nil {
				return err
			}
			seq = events[len(events)-1].Seq
		}
		_, err := d.history.WaitStable(ctx, seq)
		return err
	}, d.warn(a.Term, "logging the voters"))
	if err == nil {
		d.elector.TermReady(a.Term, a.Config.Epoch)
	}
}

// serve opens the term and schedules under it, until ctx ends or the lease is
// lost. Whatever fails meanwhile is tried again: only the lease ends a term.
func (d *duty) serve(ctx context.Context, held *heldTerm, a lease.Acquired) error {
	d.history.SetVoters(a.Config)
	select {
	case <-d.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"catching up", func() error { return d.catchUp(ctx, a) }},
		{"opening the term", func() error { return d.open(ctx, held, a) }},
		// The scheduler keeps nothing that is not in the log. It ends when the
		// lease runs short, which a late renewal may yet mend.
		{"scheduling", func() error { return d.sched.Run(ctx, a.Term) }},
	} {
		if err := retry(ctx, step.do, d.warn(a.Term, step.name)); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// catchUp reads what a majority of the voters knows. Whatever was stable lies
// on a majority, and a voter that has promised the term acknowledges no older
// one any more: the voters that granted it, and all that have renewed it
// since. A granter may be gone by now, so any majority will do.
func (d *duty) catchUp(ctx context.Context, a lease.Acquired) error {
	if a.Config.Mode != cluster.ModeAvailable {
		ctx, cancel := context.WithTimeout(ctx, catchUpTry)
		defer cancel()
		return d.history.CatchUp(ctx, a.Term, a.Config.Voters, a.Config.Majority())
	}
	// Every voter may go on alone: what the others can tell is read from those
	// that answer.
	try, cancel := context.WithTimeout(ctx, catchUpAlone)
	defer cancel()
	err := d.meet(try, a.Term, a.Config.Voters)
	if err != nil && ctx.Err() == nil {
		d.log.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("going on without some voters")
		return nil
	}
	return err
}

// meet reads what all voters know that are not believed to be down.
func (d *duty) meet(ctx context.Context, term cluster.Term, voters []cluster.NodeID) error {
	up := notDown(d.elector.View(), voters)
	return d.history.CatchUp(ctx, term, up, len(up))
}

// open writes term_start, once, and waits until it is stable.
func (d *duty) open(ctx context.Context, held *heldTerm, a lease.Acquired) error {
	if held.began == 0 {
		events, err := d.history.Append(ctx, []cluster.Draft{{
			Term: a.Term, Kind: cluster.KindTermStart, Body: cluster.TermStart{
				Term: a.Term, Voters: a.Config.Voters, Grants: a.Grants, Previous: a.Previous,
				Cut: d.history.Cut(), Profile: d.profile, Split: a.Config.Split(), ConfigTerm: a.Config.Term, Epoch: a.Config.Epoch,
			},
		}})
		if err != nil {
			return fmt.Errorf("start term %d: %w", a.Term, err)
		}
		held.began = events[len(events)-1].Seq
	}
	if _, err := d.history.WaitStable(ctx, held.began); err != nil {
		return fmt.Errorf("start term %d: %w", a.Term, err)
	}
	close(held.opened)
	d.elector.TermReady(a.Term, a.Config.Epoch)
	return nil
}

// quiesce stops issuing, flushes and logs the release, then tells the core.
func (d *duty) quiesce(ctx context.Context, a lease.Quiesce) {
	if d.held == nil || d.held.term != a.Term {
		d.elector.Quiesced(a.Term)
		return
	}
	flush, cancel := context.WithTimeout(ctx, quiesceTime)
	defer cancel()
	if err := d.sched.Quiesce(flush); err != nil {
		d.log.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("scheduler not flushed")
	}
	d.end("released")
	events, err := d.history.Append(flush, []cluster.Draft{{
		Kind: cluster.KindLeaseReleased,
		Body: cluster.LeaseReleased{Term: a.Term, Successor: a.Successor, Reason: a.Reason},
	}})
	if err == nil {
		_, err = d.history.WaitStable(flush, events[len(events)-1].Seq)
	}
	if err != nil {
		d.log.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("release not flushed to the voters")
	}
	d.elector.Quiesced(a.Term)
}

// end stops the goroutine of the held term and waits for it.
func (d *duty) end(reason string) {
	if d.held == nil {
		return
	}
	d.held.cancel()
	timer := time.NewTimer(endTermTime)
	defer timer.Stop()
	select {
	case <-d.held.done:
	case <-timer.C:
		d.log.Error().Uint64("term", uint64(d.held.term)).Str("reason", reason).Msg("term does not end")
	}
	d.held = nil
}

func (d *duty) warn(term cluster.Term, doing string) func(error) {
	return func(err error) {
		d.log.Warn().Err(err).Uint64("term", uint64(term)).Str("doing", doing).Msg("holder retries")
	}
}

// retry calls f until it succeeds or ctx ends, and reports the first failure
// of each second to warn.
func retry(ctx context.Context, f func() error, warn func(error)) error {
	var warned time.Time
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(warned) > time.Second {
			warn(err)
			warned = time.Now()
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func names(ids []cluster.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
