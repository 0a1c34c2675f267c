package coord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// SetVoters asks the lease core, on the holder, for other voters or another
// mode, and waits until the wish is in a stable voter configuration, which a
// later holder follows as well; the changes themselves come afterwards, one at
// a time. An error wraps ErrNotHolder, or lease.ErrVoters if the request cannot
// be followed, and nothing changed then; or it wraps that of ctx, and the wish
// may come true all the same.
func (s *Service) SetVoters(ctx context.Context, r lease.SetVoters) error {
	return s.ChangeVoters(ctx, func(*View) (lease.SetVoters, error) { return r, nil })
}

// ChangeVoters is SetVoters for a wish that depends on the present one: want
// is called once, between two steps of the lease core, with a view that has
// all wishes before. Its error is returned, and nothing changed then.
func (s *Service) ChangeVoters(ctx context.Context, want func(*View) (lease.SetVoters, error)) error {
	var refused error
	var term cluster.Term
	var epoch uint64
	err := s.call(ctx, func() {
		var r lease.SetVoters
		if s.lease.Status().Role != cluster.RoleHolder {
			refused = lease.ErrNotHolding
			return
		}
		s.publishView(s.now())
		if r, refused = want(s.view.Load()); refused == nil {
			refused = lease.CheckVoters(s.lease, r)
		}
		if refused != nil {
			return
		}
		s.step(r)
		st := s.lease.Status()
		term, epoch = st.Term, st.Config.Epoch
	})
	switch {
	case err != nil:
		return fmt.Errorf("set voters: %w", err)
	case errors.Is(refused, lease.ErrNotHolding):
		return fmt.Errorf("set voters: %w", ErrNotHolder)
	case refused != nil:
		return refused
	}
	for {
		var st lease.Status
		if err := s.call(ctx, func() { st = s.lease.Status() }); err != nil {
			return fmt.Errorf("set voters: %w", err)
		}
		switch {
		case st.Role != cluster.RoleHolder || st.Term != term:
			return fmt.Errorf("set voters: %w: the lease was lost before enough voters agreed", ErrNotHolder)
		case st.Stable.Term == term && st.Stable.Epoch >= epoch:
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("set voters: not agreed to by enough voters: %w", err)
		}
	}
}

// VoteLost tells the lease core that promises of this voter are not known any
// more: the other hosts know more of its log than its own disk does, or the
// like. The host abstains, across restarts, until the holder has taken it out
// of the voters and in again.
func (s *Service) VoteLost(reason string) {
	s.post(func() { s.step(lease.VoteLost{Reason: reason}) })
}

// VoterTerm is the term below which this host may acknowledge no authority:
// PromisedTerm, or while it abstains the highest that there is. It may be
// called from any goroutine.
func (s *Service) VoterTerm() cluster.Term {
	if s.abstains.Load() {
		return math.MaxUint64
	}
	return s.PromisedTerm()
}

// noteAbstaining follows whether this host abstains.
func (s *Service) noteAbstaining(reason string) {
	abstains := reason != ""
	if s.abstains.Swap(abstains) == abstains {
		return
	}
	s.dirty = true
	s.m.abstaining.Set(oneIf(abstains))
	if abstains {
		s.log.Error().Str("reason", reason).Msg("vote record lost: this host abstains until it is admitted again")
	} else {
		s.log.Info().Msg("this host abstains no longer: it may become a voter again")
	}
}

// tellSelf tells the core what changed about this host and the cluster's size.
func (s *Service) tellSelf() {
	e := lease.PeerChanged{
		Node: s.o.Self, Priority: s.self.Priority, Zone: s.self.Zone, Members: len(s.members), Gone: s.removed,
	}
	if e != s.toldSelf {
		s.toldSelf = e
		s.step(e)
	}
}

// configBytes is what the proof of a voter configuration signs.
func (s *Service) configBytes(c cluster.VoterConfig) []byte {
	return append(s.o.Verifier.Cluster[:len(s.o.Verifier.Cluster):len(s.o.Verifier.Cluster)], c.SignedBytes()...)
}

// signConfig adds the proof to a record that this host issued. One that names
// no issuer comes from this host's own disk, which it answers for.
func (s *Service) signConfig(c *cluster.VoterConfig) {
	if c.IsZero() || len(c.Proof) > 0 {
		return
	}
	if c.Issuer == "" {
		c.Issuer = s.o.Self
	}
	if c.Issuer != s.o.Self {
		return
	}
	text := s.configBytes(*c)
	if !bytes.Equal(text, s.signed.text) {
		s.signed = proven{text: text, proof: ed25519.Sign(s.o.Key, text)}
	}
	c.Proof = s.signed.proof
}

// proven is a signature over a record, made or found to be good.
type proven struct{ text, proof []byte }

// checkConfig refuses a voter configuration that no holder signed: its issuer
// is a member, or was one.
func (s *Service) checkConfig(from cluster.NodeID, c cluster.VoterConfig) error {
	if c.IsZero() {
		return nil
	}
	text := s.configBytes(c)
	if len(c.Proof) > 0 && bytes.Equal(c.Proof, s.checked.proof) && bytes.Equal(text, s.checked.text) {
		return nil
	}
	for _, key := range s.keysOf(c.Issuer) {
		if len(c.Proof) == ed25519.SignatureSize && ed25519.Verify(key, text, c.Proof) {
			s.checked = proven{text: text, proof: bytes.Clone(c.Proof)}
			return nil
		}
	}
	return wire.Refuse(reasonConfigProof, "voter configuration %d/%d of %q, brought by %s", c.Term, c.Epoch, c.Issuer, from)
}

// keysOf returns the identity keys that a host has or had.
func (s *Service) keysOf(n cluster.NodeID) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	if m, ok := s.dir.Load().byNode[n]; ok {
		keys = append(keys, ed25519.PublicKey(m.IDPub))
	}
	for _, r := range s.table.Retired() {
		if r.Node == n && len(r.Cert.IDPub) == ed25519.PublicKeySize {
			keys = append(keys, ed25519.PublicKey(r.Cert.IDPub))
		}
	}
	return keys
}
