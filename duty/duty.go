package duty

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/lease"
)

// Bounds of the holder's duty.
const (
	// catchUpTry bounds one attempt to read a majority's logs.
	catchUpTry = 5 * time.Second
	// catchUpAlone is how long a voter that may go on alone waits for the others.
	catchUpAlone = 1500 * time.Millisecond
	// retryPause is the time between attempts; the lease bounds their number.
	retryPause = 50 * time.Millisecond
	// quiesceTime bounds the flush before a release; the lease core releases
	// after 500 ms whatever happens here.
	quiesceTime = 400 * time.Millisecond
	// followEvery is how often a host that does not hold checks who votes.
	followEvery = time.Second
	// endTermTime bounds the end of a term that was lost.
	endTermTime = 10 * time.Second
)

// Elector is what the duty needs of the coordination service.
type Elector interface {
	View() *coord.View
	TermReady(term cluster.Term, epoch uint64)
	Quiesced(term cluster.Term)
}

// History is what the duty needs of the event log.
type History interface {
	Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error)
	WaitStable(ctx context.Context, seq uint64) (int, error)
	CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, need int) error
	Cut() event.Cut
	SetVoters(cfg cluster.VoterConfig)
}

// Scheduler is what the duty needs of the scheduler.
type Scheduler interface {
	Run(ctx context.Context, term cluster.Term) error
	Quiesce(ctx context.Context) error
}

// Publisher carries out the publishing duty. SetDuty is called in the order of
// the changes and must not block. Publishing says whether this host has the duty
// from now on; other hosts may have it too.
type Publisher interface {
	SetDuty(d lease.Duty)
}

// Members writes down what the holder believes of the members. Begin is called
// when the log of a majority is known here and a term is open, End when that
// term is over.
type Members interface {
	Begin()
	End()
}

// Options are what a Duty needs.
type Options struct {
	Profile cluster.Profile
	// Ready is closed when this host's chain may be appended to.
	Ready     <-chan struct{}
	Elector   Elector
	History   History
	Scheduler Scheduler
	Publisher Publisher // nil: this host has nothing to publish
	Members   Members
	// Note queues an event for the log; it does not wait.
	Note   func(event.Kind, any)
	Logger zerolog.Logger
}

// Duty carries out what the lease core decides. Its zero value is not usable.
type Duty struct {
	o Options

	held       *heldTerm // nil: not holding
	follows    uint64    // epoch of the voters that the log was given last while not holding
	publishing bool      // as last logged
}

// New returns a Duty that does nothing until Run runs.
func New(o Options) *Duty { return &Duty{o: o} }

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

// Run follows the lease until ctx ends.
func (d *Duty) Run(ctx context.Context, actions <-chan lease.Action) error {
	defer d.end("daemon stops")
	tick := wait.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
			d.follow()
		case a := <-actions:
			d.on(ctx, a)
		}
	}
}

func (d *Duty) on(ctx context.Context, action lease.Action) {
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
				d.o.Logger.Error().Err(err).Uint64("term", uint64(a.Term)).Msg("term ended early")
			}
		}()
	case lease.Quiesce:
		d.quiesce(ctx, a)
	case lease.Lost:
		if d.held != nil && d.held.term == a.Term {
			d.o.Note(event.KindLeaseLost, event.LeaseLost{Term: a.Term, Reason: a.Reason})
		}
		d.end(a.Reason)
	case lease.Duty:
		if d.o.Publisher != nil {
			d.o.Publisher.SetDuty(a)
		}
		if d.publishing != a.Publishing {
			d.publishing = a.Publishing
			d.o.Note(event.KindPublishing, event.Publishing{Publishing: a.Publishing, Term: a.Term, Publisher: a.Publisher, Why: a.Why()})
		}
	case lease.ConfigStable:
		d.o.History.SetVoters(a.Config)
		d.o.Logger.Info().Uint64("term", uint64(a.Term)).Uint64("epoch", a.Config.Epoch).
			Strs("voters", names(a.Config.Voters)).Str("mode", string(a.Config.Mode)).Msg("voters changed")
		if d.held != nil && d.held.term == a.Term {
			d.held.confirm(a)
		}
	case lease.Observed:
		if d.held == nil {
			d.follows = 0
			d.follow()
		}
		d.o.Logger.Info().Uint64("term", uint64(a.Term)).Str("peer", string(a.Holder)).Msg("holder observed")
	}
}

// follow gives the log the voters as this host knows them, while it does not hold
// the lease: not to count stability, but to know where to push what this host
// writes and whose signatures make a snapshot valid. A new host learns the voters
// only some time after it has seen the holder.
func (d *Duty) follow() {
	if d.held != nil {
		return
	}
	if cfg := d.o.Elector.View().Lease.Config; !cfg.IsZero() && cfg.Epoch != d.follows {
		d.follows = cfg.Epoch
		d.o.History.SetVoters(cfg)
	}
}

// confirm logs a configuration that became stable, once the term is open, and
// tells the core when a majority of its voters has the log: only then may the
// next voter be added, or voters that know nothing could outvote the rest.
func (d *Duty) confirm(ctx context.Context, held *heldTerm, a lease.ConfigStable) {
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
			events, err := d.o.History.Append(ctx, []event.Draft{{
				Term: a.Term, Kind: event.KindConfigChanged, Body: event.ConfigChanged{Config: a.Config},
			}})
			if err != nil {
				return err
			}
			seq = events[len(events)-1].Seq
		}
		_, err := d.o.History.WaitStable(ctx, seq)
		return err
	}, d.warn(a.Term, "logging the voters"))
	if err == nil {
		d.o.Elector.TermReady(a.Term, a.Config.Epoch)
	}
}

// serve opens the term and schedules under it, until ctx ends or the lease is
// lost. Whatever fails meanwhile is tried again: only the lease ends a term.
func (d *Duty) serve(ctx context.Context, held *heldTerm, a lease.Acquired) error {
	d.o.History.SetVoters(a.Config)
	select {
	case <-d.o.Ready:
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
		// lease is about to expire; a late renewal may still start it again.
		{"scheduling", func() error { return d.o.Scheduler.Run(ctx, a.Term) }},
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
func (d *Duty) catchUp(ctx context.Context, a lease.Acquired) error {
	if a.Config.Mode != cluster.ModeAvailable {
		ctx, cancel := context.WithTimeout(ctx, catchUpTry)
		defer cancel()
		return d.o.History.CatchUp(ctx, a.Term, a.Config.Voters, a.Config.Majority())
	}
	// Every voter may go on alone: read what those that answer know.
	try, cancel := context.WithTimeout(ctx, catchUpAlone)
	defer cancel()
	err := d.meet(try, a.Term, a.Config.Voters)
	if err != nil && ctx.Err() == nil {
		d.o.Logger.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("going on without some voters")
		return nil
	}
	return err
}

// meet reads what all voters know except those believed to be down.
func (d *Duty) meet(ctx context.Context, term cluster.Term, voters []cluster.NodeID) error {
	up := d.o.Elector.View().NotDown(voters)
	return d.o.History.CatchUp(ctx, term, up, len(up))
}

// open writes term_start, once, and waits until it is stable.
func (d *Duty) open(ctx context.Context, held *heldTerm, a lease.Acquired) error {
	if held.began == 0 {
		events, err := d.o.History.Append(ctx, []event.Draft{{
			Term: a.Term, Kind: event.KindTermStart, Body: event.TermStart{
				Term: a.Term, Voters: a.Config.Voters, Grants: a.Grants, Previous: a.Previous,
				Cut: d.o.History.Cut(), Profile: d.o.Profile, Split: a.Config.Split(), ConfigTerm: a.Config.Term, Epoch: a.Config.Epoch,
			},
		}})
		if err != nil {
			return fmt.Errorf("start term %d: %w", a.Term, err)
		}
		held.began = events[len(events)-1].Seq
	}
	if _, err := d.o.History.WaitStable(ctx, held.began); err != nil {
		return fmt.Errorf("start term %d: %w", a.Term, err)
	}
	close(held.opened)
	d.o.Members.Begin()
	d.o.Elector.TermReady(a.Term, a.Config.Epoch)
	return nil
}

// quiesce stops issuing, flushes, logs the release and tells the core.
func (d *Duty) quiesce(ctx context.Context, a lease.Quiesce) {
	if d.held == nil || d.held.term != a.Term {
		d.o.Elector.Quiesced(a.Term)
		return
	}
	flush, cancel := context.WithTimeout(ctx, quiesceTime)
	defer cancel()
	if err := d.o.Scheduler.Quiesce(flush); err != nil {
		d.o.Logger.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("scheduler not flushed")
	}
	d.end("released")
	events, err := d.o.History.Append(flush, []event.Draft{{
		Kind: event.KindLeaseReleased,
		Body: event.LeaseReleased{Term: a.Term, Successor: a.Successor, Reason: a.Reason},
	}})
	if err == nil {
		_, err = d.o.History.WaitStable(flush, events[0].Seq-1)
	}
	// That the term was released may become stable while the successor asks for votes,
	// but before this host may stop.
	d.o.Elector.Quiesced(a.Term)
	if err == nil {
		_, err = d.o.History.WaitStable(flush, events[0].Seq)
	}
	if err != nil {
		d.o.Logger.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("release not flushed to the voters")
	}
}

// end stops the goroutine of the held term and waits for it.
func (d *Duty) end(reason string) {
	if d.held == nil {
		return
	}
	d.held.cancel()
	timer := time.NewTimer(endTermTime)
	defer timer.Stop()
	select {
	case <-d.held.done:
	case <-timer.C:
		d.o.Logger.Error().Uint64("term", uint64(d.held.term)).Str("reason", reason).Msg("term does not end")
	}
	d.o.Members.End()
	d.held = nil
}

func (d *Duty) warn(term cluster.Term, doing string) func(error) {
	return func(err error) {
		d.o.Logger.Warn().Err(err).Uint64("term", uint64(term)).Str("doing", doing).Msg("holder retries")
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
		if err := wait.For(ctx, retryPause); err != nil {
			return err
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
