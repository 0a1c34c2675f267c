package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/scheduler"
)

// Bounds of the holder's duty.
const (
	// catchUpTry bounds one attempt to read a majority's logs.
	catchUpTry = 5 * time.Second
	// retryPause lies between attempts; the lease bounds their number.
	retryPause = 50 * time.Millisecond
	// quiesceTime bounds the flush before a release; the lease core releases
	// after 500 ms whatever happens here.
	quiesceTime = 400 * time.Millisecond
	// endTermTime bounds the end of a term that was lost.
	endTermTime = 10 * time.Second
)

// elector is what the duty needs of the coordination service.
type elector interface {
	TermReady(term cluster.Term)
	Quiesced(term cluster.Term)
}

// history is what the duty needs of the event log.
type history interface {
	Append(ctx context.Context, drafts []cluster.Draft) ([]cluster.Event, error)
	WaitStable(ctx context.Context, seq uint64) (int, error)
	CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, need int) error
	Heads() []cluster.Head
	SetVoters(cfg cluster.VoterConfig)
}

// chunkScheduler is what the duty needs of the scheduler.
type chunkScheduler interface {
	Run(ctx context.Context, term cluster.Term) error
	Quiesce(ctx context.Context) error
}

// duty turns what the lease core decides into what a holder does: catch up,
// open the term in the log, schedule, flush, let go.
type duty struct {
	log     zerolog.Logger
	profile cluster.Profile
	// ready is closed when the own chain may be appended to.
	ready   <-chan struct{}
	elector elector
	history history
	sched   chunkScheduler

	held *heldTerm // nil: not holding
}

// heldTerm is the goroutine that serves one term.
type heldTerm struct {
	term   cluster.Term
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine ended
}

// run follows the lease until ctx ends.
func (d *duty) run(ctx context.Context, actions <-chan lease.Action) error {
	defer d.end("daemon stops")
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
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
		held := &heldTerm{term: a.Term, cancel: cancel, done: make(chan struct{})}
		d.held = held
		go func() {
			defer close(held.done)
			if err := d.serve(termCtx, a); err != nil && termCtx.Err() == nil {
				d.log.Error().Err(err).Uint64("term", uint64(a.Term)).Msg("term ended early")
			}
		}()
	case lease.Quiesce:
		d.quiesce(ctx, a)
	case lease.Lost:
		d.end(a.Reason)
	case lease.ConfigStable:
		d.history.SetVoters(a.Config)
		d.log.Info().Uint64("term", uint64(a.Term)).Uint64("epoch", a.Config.Epoch).
			Strs("voters", names(a.Config.Voters)).Str("mode", string(a.Config.Mode)).Msg("voters changed")
		if _, err := d.history.Append(ctx, []cluster.Draft{{
			Term: a.Term, Kind: cluster.KindConfigChanged, Body: cluster.ConfigChanged{Config: a.Config},
		}}); err != nil {
			d.log.Warn().Err(err).Uint64("term", uint64(a.Term)).Msg("voter change not logged")
		}
	case lease.Observed:
		d.log.Info().Uint64("term", uint64(a.Term)).Str("peer", string(a.Holder)).Msg("holder observed")
	}
}

// serve opens the term and schedules under it until ctx ends.
func (d *duty) serve(ctx context.Context, a lease.Acquired) error {
	d.history.SetVoters(a.Config)
	select {
	case <-d.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Whatever was stable lies on a majority, and the granters promised not to
	// acknowledge older terms any more: a majority of them knows all of it.
	need := min(a.Config.Majority(), len(a.Grants))
	if err := retry(ctx, func() error {
		try, cancel := context.WithTimeout(ctx, catchUpTry)
		defer cancel()
		return d.history.CatchUp(try, a.Term, a.Grants, need)
	}, d.warn(a.Term, "catching up")); err != nil {
		return fmt.Errorf("catch up for term %d: %w", a.Term, err)
	}
	events, err := d.history.Append(ctx, []cluster.Draft{{
		Term: a.Term, Kind: cluster.KindTermStart, Body: cluster.TermStart{
			Term: a.Term, Voters: a.Config.Voters, Grants: a.Grants, Previous: a.Previous,
			Cut: cutOf(d.history.Heads()), Profile: d.profile, ConfigTerm: a.Config.Term, Epoch: a.Config.Epoch,
		},
	}})
	if err != nil {
		return fmt.Errorf("start term %d: %w", a.Term, err)
	}
	seq := events[len(events)-1].Seq
	if err := retry(ctx, func() error {
		_, err := d.history.WaitStable(ctx, seq)
		return err
	}, d.warn(a.Term, "making term_start stable")); err != nil {
		return fmt.Errorf("start term %d: %w", a.Term, err)
	}
	d.elector.TermReady(a.Term)
	// The scheduler starts again from the log whenever it ends for another
	// reason than the lease: it keeps nothing that is not there.
	return retry(ctx, func() error {
		err := d.sched.Run(ctx, a.Term)
		if err == nil || errors.Is(err, scheduler.ErrLeaseLost) {
			return nil
		}
		return err
	}, d.warn(a.Term, "scheduling"))
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
		Body: cluster.LeaseReleased{Term: a.Term, Successor: a.Successor, Reason: "released"},
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

// cutOf turns the heads that this host knows into a cut.
func cutOf(heads []cluster.Head) cluster.Cut {
	cut := make(cluster.Cut, 0, len(heads))
	for _, h := range heads {
		cut = append(cut, cluster.SourceMark{Source: h.Source, Mark: cluster.Mark{Seq: h.Seq, Hash: h.Hash}})
	}
	slices.SortFunc(cut, func(a, b cluster.SourceMark) int { return a.Source.Compare(b.Source) })
	return cut
}

func names(ids []cluster.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
