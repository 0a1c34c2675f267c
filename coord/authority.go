package coord

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/lease"
)

// MayAct reports whether this host may use term now: it holds that term, the
// lease goes on for a margin, and the vote behind it is on disk. It may be
// called from any goroutine.
func (s *Service) MayAct(term cluster.Term) bool {
	return s.elector.Authority().MayAct(term)
}

// PromisedTerm is the highest term that this host has promised: it must not
// acknowledge authority of a lower one. It may be called from any goroutine.
func (s *Service) PromisedTerm() cluster.Term { return s.elector.Authority().PromisedTerm() }

// VoterTerm is the lowest term whose authority this host may acknowledge:
// PromisedTerm, or while it abstains the highest that there is. It may be called
// from any goroutine.
func (s *Service) VoterTerm() cluster.Term { return s.elector.Authority().VoterTerm() }

// MayPublish reports whether this host has the publishing duty: as the holder
// of the lease, or because no lease is visible and no better host is there. It
// is not exclusive, unlike a term: two hosts that do not hear each other both
// have it. It may be called from any goroutine.
func (s *Service) MayPublish() bool { return s.elector.Authority().MayPublish() }

// Actions are what the lease core asks of the daemon, in order: Acquired,
// Extended, Quiesce, Lost, Observed, Duty and ConfigStable. The channel holds 256;
// see View for what a reader that is too slow finds instead. It is never
// closed.
func (s *Service) Actions() <-chan lease.Action { return s.elector.Actions() }

// TermReady tells the core that a majority of the voters of configuration epoch
// holds the log as it was when term began or that configuration came.
func (s *Service) TermReady(term cluster.Term, epoch uint64) {
	s.post(func() { s.elector.Step(lease.TermReady{Term: term, Epoch: epoch}) })
}

// Quiesced answers a Quiesce: nothing more is issued in term and all is
// flushed.
func (s *Service) Quiesced(term cluster.Term) {
	s.post(func() { s.elector.Step(lease.Quiesced{Term: term}) })
}

// SelfCheck notes whether a named check of this host is good; reason is empty
// if it is. While any check fails the host gives the lease up and does not
// stand.
func (s *Service) SelfCheck(name, reason string) {
	s.post(func() { s.elector.SetFailing(name, reason) })
}

// StepDown hands the lease over, to the host named if it is able, and waits
// until this host does not hold it any more. A host that is leaving does not
// stand again; for it, not holding is no error.
func (s *Service) StepDown(ctx context.Context, to cluster.NodeID, reason string, leaving bool) error {
	holding := false
	err := s.call(ctx, func() {
		holding = s.elector.StepDown(to, reason, leaving)
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
		if err := s.call(ctx, func() { holding = s.elector.Status().Role == cluster.RoleHolder }); err != nil {
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

func publicKey(k ed25519.PrivateKey) ed25519.PublicKey {
	pub, ok := k.Public().(ed25519.PublicKey)
	if !ok {
		panic("coord: an Ed25519 key without an Ed25519 public key")
	}
	return pub
}
