package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/lease"
)

// Lease is what this host may do by the lease, and what the daemon tells the lease
// core. Its methods may be called from any goroutine.
type Lease struct {
	now     func() time.Duration
	elector *election.Elector
	hosts   *hosts
	health  *health.Monitor
	views   *views
	loop    *loop
}

// MayAct reports whether this host may use term now: it holds that term, the
// lease goes on for a margin, and the vote behind it is on disk. It may be
// called from any goroutine.
func (l *Lease) MayAct(term cluster.Term) bool {
	return l.elector.Authority().MayAct(term)
}

// PromisedTerm is the highest term that this host has promised: it must not
// acknowledge authority of a lower one. It may be called from any goroutine.
func (l *Lease) PromisedTerm() cluster.Term { return l.elector.Authority().PromisedTerm() }

// VoterTerm is the lowest term whose authority this host may acknowledge:
// PromisedTerm, or while it abstains the highest that there is. It may be called
// from any goroutine.
func (l *Lease) VoterTerm() cluster.Term { return l.elector.Authority().VoterTerm() }

// MayPublish reports whether this host has the publishing duty: as the holder
// of the lease, or because no lease is visible and no better host is there. It
// is not exclusive, unlike a term: two hosts that do not hear each other both
// have it. It may be called from any goroutine.
func (l *Lease) MayPublish() bool { return l.elector.Authority().MayPublish() }

// Actions are what the lease core asks of the daemon, in order: Acquired,
// Extended, Quiesce, Lost, Observed, Duty and ConfigStable. The channel holds 256;
// see View for what a reader that is too slow finds instead. It is never
// closed.
func (l *Lease) Actions() <-chan lease.Action { return l.elector.Actions() }

// TermReady tells the core that a majority of the voters of configuration epoch
// holds the log as it was when term began or that configuration came.
func (l *Lease) TermReady(term cluster.Term, epoch uint64) {
	l.loop.post(func() { l.elector.Step(lease.TermReady{Term: term, Epoch: epoch}) })
}

// Quiesced answers a Quiesce: nothing more is issued in term and all is
// flushed.
func (l *Lease) Quiesced(term cluster.Term) {
	l.loop.post(func() { l.elector.Step(lease.Quiesced{Term: term}) })
}

// SelfCheck notes whether a named check of this host is good; reason is empty
// if it is. While any check fails the host gives the lease up and does not
// stand.
func (l *Lease) SelfCheck(name, reason string) {
	l.loop.post(func() { l.elector.SetFailing(name, reason) })
}

// StepDown hands the lease over, to the host named if it is able, and waits
// until this host does not hold it any more. A host that is leaving does not
// stand again; for it, not holding is no error.
func (l *Lease) StepDown(ctx context.Context, to cluster.NodeID, reason string, leaving bool) error {
	holding := false
	err := l.loop.call(ctx, func() {
		holding = l.elector.StepDown(to, reason, leaving)
	})
	if err != nil {
		return fmt.Errorf("step down: %w", err)
	}
	if !holding {
		if leaving {
			return nil
		}
		return fmt.Errorf("step down: %w", ErrNotHolder)
	}
	for {
		if err := l.loop.call(ctx, func() { holding = l.elector.Status().Role == cluster.RoleHolder }); err != nil {
			if errors.Is(err, transport.ErrStopped) {
				return nil // a loop that ended holds nothing
			}
			return fmt.Errorf("step down: %w", err)
		}
		if !holding {
			return nil
		}
		if err := wait.For(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("step down: %w", err)
		}
	}
}

// Depart tells the lease core that a member is about to leave for good, so
// that the holder takes it out of the voters while it still can say that it
// knows. It holds for d; a host that then is still a member counts again. A
// voter whose key were revoked first could not confirm its own going, which in
// a configuration of two that goes by majority blocks every change.
func (l *Lease) Depart(ctx context.Context, node cluster.NodeID, d time.Duration) error {
	var refused error
	err := l.loop.call(ctx, func() {
		p := l.hosts.peers[node]
		if p == nil {
			refused = transport.ErrNotMember
			return
		}
		now := l.now()
		p.departs = now + d
		l.reportPeers(now)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("depart %s: %w", node, err)
	}
	return nil
}

// reportPeers tells the lease core what changed about the others.
func (l *Lease) reportPeers(now time.Duration) {
	for _, m := range l.hosts.members {
		p := l.hosts.peers[m.Node]
		// A host that was never heard is unknown, it does not count; nor does
		// one that was never heard to sign.
		if p == nil {
			continue
		}
		if _, heard := l.health.LastHeard(m.Node); !p.core.known && (p.beatAt == 0 || !heard) {
			continue
		}
		e := lease.PeerChanged{
			Node: m.Node, Priority: m.Priority,
			Eligible: p.beat.Eligible && !m.Witness && p.compat.why == "",
			Alive:    l.health.Present(m.Node, now) && p.compat.why == "",
			CaughtUp: p.caughtUp, Gone: now < p.departs, Abstains: p.beat.Abstains,
			Publishing: p.beat.Role == cluster.RolePublisher, Holds: p.holds(), Zone: m.Zone,
		}
		if p.core.known && p.core.PeerChanged == e {
			continue
		}
		p.core = reported{PeerChanged: e, known: true}
		l.views.touch()
		l.elector.Step(e)
	}
}
