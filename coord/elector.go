package coord

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// Self-checks of this package: about the vote store, and about being a member.
const (
	voteCheck   = "vote_store"
	memberCheck = "membership"
)

// maxReason bounds the text of a refusal between hosts.
const maxReason = 128

// leaseBound is the lease as MayAct sees it: never more than what the core
// holds, and taken back before anything that follows from losing it.
type leaseBound struct {
	term   cluster.Term
	until  time.Duration
	margin time.Duration
}

// leaseMessage is the payload of lease_claim and lease_release. Hosts of
// different timing must not bind each other, so every message says which it
// goes by.
type leaseMessage struct {
	lease.Message
	Profile cluster.Profile `json:"profile"`
}

// newLease loads the vote record and makes the core's state.
func (s *Service) newLease() error {
	vote, found, err := s.o.Store.LoadVote()
	lost := ""
	switch {
	case errors.Is(err, ErrVoteLost):
		s.log.Error().Err(err).Msg("vote record cannot be trusted")
		vote, lost = lease.VoteRecord{}, err.Error()
	case err != nil:
		return err
	case !found && !firstBoot(s.o.Boot):
		lost = "vote record is missing" // the first start saved one
	}
	fresh := !found && lost == ""
	if alone := len(s.table.Members()) == 1 && len(s.table.Retired()) == 0; s.o.Founder && alone && (fresh || lost != "") {
		// Nobody else can have been promised anything: the only host begins
		// anew, above the terms of its log.
		vote.Config = cluster.VoterConfig{
			Epoch: 1, Voters: []cluster.NodeID{s.o.Self}, Mode: cluster.AutoMode(1), Issuer: s.o.Self,
		}
		lost = ""
	}
	s.signConfig(&vote.Config)
	mode := s.o.Mode
	if mode == "" {
		mode = cluster.ModeAuto
	}
	s.lease, err = lease.New(lease.Options{
		Self: s.o.Self, Priority: s.self.Priority, Witness: s.self.Witness, Timing: *s.o.Timing, ModeSetting: mode,
		Zone: s.self.Zone, MaxVoters: s.o.MaxVoters, Vote: vote, Fresh: fresh, Lost: lost, Floor: s.o.LastTerm,
	}, s.now())
	if err != nil {
		return err
	}
	if vote = s.lease.Status().Vote; !found || lost != "" {
		// An empty record is saved as well: from then on a missing one is lost.
		s.unsaved = &vote
	}
	s.promised.Store(uint64(vote.PromisedTerm))
	s.noteAbstaining(vote.Lost)
	return nil
}

// startLease saves a founder's first record before anything can follow from
// it, and tells the core about the peers.
func (s *Service) startLease() {
	if s.unsaved != nil {
		vote := *s.unsaved
		if !s.saveVote(vote) {
			s.setFailing(voteCheck, "vote record cannot be saved")
		}
	}
	s.tellSelf()
	// Who is gone may still be a voter: the holder takes it out.
	for _, r := range s.table.Retired() {
		s.step(lease.PeerChanged{Node: r.Node, Gone: true})
	}
	s.drain(s.o.Local().Draining)
	s.step(lease.Tick{Jitter: s.o.Rand()})
}

// step feeds the core one event and carries out what it answers, in order.
func (s *Service) step(ev lease.Event) {
	st, acts := lease.Step(s.lease, ev, s.now())
	s.lease = st
	s.log.Trace().Stringer("event", ev).Int("actions", len(acts)).Msg("lease step")
	if len(acts) > 0 {
		s.dirty = true
	}
	status := st.Status()
	s.noteAbstaining(status.Abstaining)
	// A promise binds from the moment it is decided.
	if p := uint64(status.Vote.PromisedTerm); p > s.promised.Load() {
		s.promised.Store(p)
	}
	next := &leaseBound{margin: s.o.Timing.ActMargin}
	if status.Role == cluster.RoleHolder {
		next.term, next.until = status.Term, status.Until
	}
	// What is lost is taken back first, what is won is given last.
	if cur := s.bound.Load(); cur.term != next.term {
		s.bound.Store(&leaseBound{})
	} else if next.until < cur.until {
		s.bound.Store(next)
	}
	for i, a := range acts {
		if p, ok := a.(lease.Persist); ok && !s.saveVote(p.Vote) {
			s.bound.Store(&leaseBound{})
			s.tell(acts[:i])
			s.setFailing(voteCheck, "vote record cannot be saved")
			return
		}
		s.carryOut(a)
	}
	s.bound.Store(next)
	s.tell(acts)
}

// carryOut does what an action asks of this host's voice.
func (s *Service) carryOut(action lease.Action) {
	switch a := action.(type) {
	case lease.Send:
		// The core takes a promise for saved once it has asked for that. While
		// one is not, this host may say nothing that relies on it.
		if s.unsaved == nil || a.Msg.Phase == lease.ReleaseTerm {
			s.sendLease(a)
		}
	case lease.Acquired:
		s.m.changes.WithLabelValues("acquired").Inc()
		s.log.Info().Uint64("term", uint64(a.Term)).Str("peer", string(a.Previous)).Msg("lease acquired")
	case lease.Lost:
		s.m.changes.WithLabelValues("lost").Inc()
		s.log.Info().Uint64("term", uint64(a.Term)).Str("reason", a.Reason).Str("peer", string(a.Successor)).Msg("lease lost")
	case lease.Duty:
		s.onDuty(a)
	case lease.Refused:
		s.m.refused.WithLabelValues(a.Why).Inc()
		if s.logGate.pass("refused/" + a.Why + "/" + string(a.Node)) {
			s.log.Debug().Str("peer", string(a.Node)).Str("reason", a.Why).Str("phase", string(a.Phase)).Msg("lease message refused")
		}
	case lease.Observed:
		s.log.Debug().Uint64("term", uint64(a.Term)).Str("peer", string(a.Holder)).Msg("holder observed")
	}
}

// tell delivers what the daemon must know of acts. It comes after the bound is
// published, so that whoever learns of a term may use it.
func (s *Service) tell(acts []lease.Action) {
	for _, a := range acts {
		switch a.(type) {
		case lease.Persist, lease.Send, lease.Refused:
		default:
			s.deliver(a)
		}
	}
}

// deliver hands an action to the daemon. Its channel is bounded: an Extended
// is left out once half of it is used, since View and MayAct tell as much, and
// when it is full the oldest action goes, counted. A reader that missed
// actions finds the present state in View.
func (s *Service) deliver(a lease.Action) {
	if _, ok := a.(lease.Extended); ok && len(s.actions) >= cap(s.actions)/2 {
		s.m.dropped.WithLabelValues("extended").Inc()
		return
	}
	for {
		select {
		case s.actions <- a:
			return
		default:
		}
		select {
		case <-s.actions:
			s.m.dropped.WithLabelValues("action").Inc()
			if s.logGate.pass("actions") {
				s.log.Error().Msg("lease actions are not read: oldest dropped")
			}
		default:
		}
	}
}

// saveVote makes a vote durable. While it cannot, this host must not hold.
func (s *Service) saveVote(v lease.VoteRecord) bool {
	s.signConfig(&v.Config)
	start := s.o.Mono()
	err := s.o.Store.SaveVote(v)
	s.m.voteSave.Observe((s.o.Mono() - start).Seconds())
	if err == nil {
		s.unsaved = nil
		return true
	}
	s.unsaved = &v
	s.savePause = min(max(2*s.savePause, time.Second), 30*time.Second)
	s.saveAgain = s.now() + s.savePause
	if s.logGate.pass("vote") {
		s.log.Error().Err(err).Uint64("term", uint64(v.PromisedTerm)).Msg("vote not saved")
	}
	return false
}

// retrySave tries again to save a vote that could not be saved; once the
// newest is on disk the host may hold again.
func (s *Service) retrySave(now time.Duration) {
	if s.unsaved != nil {
		if now < s.saveAgain || !s.saveVote(s.lease.Status().Vote) {
			return
		}
	}
	if _, ok := s.failing[voteCheck]; ok {
		s.savePause = 0
		s.setFailing(voteCheck, "")
	}
}

// setFailing notes the outcome of a self-check and tells the core.
func (s *Service) setFailing(name, reason string) {
	if s.failing[name] == reason {
		return
	}
	s.failing = maps.Clone(s.failing)
	s.dirty = true
	if reason == "" {
		delete(s.failing, name)
		s.log.Info().Str("check", name).Msg("self-check good again")
	} else {
		s.failing[name] = reason
		s.log.Error().Str("check", name).Str("reason", reason).Msg("self-check failed")
	}
	s.tellChecks()
}

// tellChecks tells the core whether this host may hold.
func (s *Service) tellChecks() {
	var reasons []string
	for _, n := range slices.Sorted(maps.Keys(s.failing)) {
		reasons = append(reasons, n+": "+s.failing[n])
	}
	if s.drained {
		reasons = append(reasons, "draining")
	}
	s.step(lease.SelfCheck{OK: len(reasons) == 0, Reason: strings.Join(reasons, "; ")})
}

// drain follows what the daemon says about draining: a holder hands over in
// good order first, then the host does not stand.
func (s *Service) drain(draining bool) {
	holds := s.lease.Status().Role == cluster.RoleHolder
	switch {
	case draining && holds && !s.draining:
		s.step(lease.StepDown{Reason: "draining"})
	case draining && !holds && !s.drained, !draining && s.drained:
		s.drained, s.dirty = draining, true
		s.tellChecks()
	}
	s.draining = draining
}

// eligible says whether this host stands for the lease.
func (s *Service) eligible() bool {
	return !s.self.Witness && !s.leaving && !s.draining && len(s.failing) == 0
}

// sendLease sends a message of the core.
func (s *Service) sendLease(a lease.Send) {
	m := leaseMessage{Message: a.Msg, Profile: s.o.Profile}
	if len(m.Reason) > maxReason {
		m.Reason = m.Reason[:maxReason]
	}
	s.signConfig(&m.Config)
	if r := m.Released; r != nil && r.Holder == s.o.Self {
		signed := *r
		signed.Proof = ed25519.Sign(s.o.Key, s.releaseBytes(signed))
		m.Released = &signed
	}
	err := s.sendClaim(a.To, m)
	if err != nil && wire.ReasonOf(err) == wire.ReasonSize && m.Released != nil {
		// With the longest names not all fits. A claim does without the
		// release, and a release without the record.
		if m.Phase == lease.ReleaseTerm {
			m.Config = cluster.VoterConfig{}
		} else {
			m.Released = nil
		}
		err = s.sendClaim(a.To, m)
	}
	if err != nil && s.logGate.pass("lease/"+string(a.To)) {
		s.log.Warn().Err(err).Str("peer", string(a.To)).Msg("lease message not sent")
	}
}

func (s *Service) sendClaim(to cluster.NodeID, m leaseMessage) error {
	kind := wire.TypeLeaseClaim
	var payload wire.Payload
	var err error
	if m.Phase == lease.ReleaseTerm {
		kind = wire.TypeLeaseRelease
		payload, err = wire.NewRelease(m)
	} else {
		payload, err = wire.NewClaim(m)
	}
	if err != nil {
		return err
	}
	return s.send(to, kind, payload)
}

// releaseBytes is what the proof of a release signs.
func (s *Service) releaseBytes(r lease.Release) []byte {
	b := append([]byte("skein/release/1\n"), s.o.Verifier.Cluster[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Term))
	for _, n := range []cluster.NodeID{r.Holder, r.Successor} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(n)))
		b = append(b, n...)
	}
	return b
}

// onLease hands a lease message to the core once shape, timing and proof are
// good.
func (s *Service) onLease(from cluster.NodeID, kind wire.Type, raw json.RawMessage) {
	if raw == nil {
		s.reject(from, wire.Refuse(wire.ReasonTerm, "%s without a term", kind))
		return
	}
	m, err := decodeLease(kind, raw)
	if err == nil {
		err = s.checkLease(from, &m)
	}
	if err != nil {
		s.reject(from, err)
		return
	}
	s.step(lease.Receive{From: from, Msg: m.Message})
}

// decodeLease reads the payload of a lease message.
func decodeLease(kind wire.Type, raw json.RawMessage) (leaseMessage, error) {
	var m leaseMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
	}
	if m.Term == 0 {
		return m, wire.Refuse(wire.ReasonTerm, "%s without a term", kind)
	}
	if err := m.Validate(); err != nil {
		return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
	}
	if (m.Phase == lease.ReleaseTerm) != (kind == wire.TypeLeaseRelease) {
		return m, wire.Refuse(wire.ReasonPayload, "%s in %s", m.Phase, kind)
	}
	if len(m.Reason) > maxReason {
		return m, wire.Refuse(wire.ReasonPayload, "%s: reason of %d bytes", kind, len(m.Reason))
	}
	ids := []cluster.NodeID{m.Holder, m.Successor}
	if r := m.Released; r != nil {
		if r.Term == 0 || r.Term > wire.MaxNumber || r.Holder == "" || len(r.Proof) != ed25519.SignatureSize {
			return m, wire.Refuse(wire.ReasonPayload, "%s: release without term, holder or proof", kind)
		}
		ids = append(ids, r.Holder, r.Successor)
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		if _, err := cluster.ParseNodeID(string(id)); err != nil {
			return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
		}
	}
	return m, nil
}

// checkLease refuses what this host cannot take at its word.
func (s *Service) checkLease(from cluster.NodeID, m *leaseMessage) error {
	p := s.peers[from]
	switch {
	case p == nil:
		return wire.Refuse(wire.ReasonUnknownSender, "%s was removed", from)
	case p.major:
		return wire.Refuse(reasonMajor, "%s: %s", from, p.incompatible)
	case m.Profile != s.o.Profile:
		s.setProfile(p, m.Profile)
		return wire.Refuse(reasonProfile, "%s has profile %q, this host %q", from, m.Profile, s.o.Profile)
	}
	if err := s.checkConfig(from, m.Config); err != nil {
		return err
	}
	r := m.Released
	if r == nil {
		return nil
	}
	holder, ok := s.dir.Load().byNode[r.Holder]
	if !ok || !ed25519.Verify(ed25519.PublicKey(holder.IDPub), s.releaseBytes(*r), r.Proof) {
		return wire.Refuse(reasonProof, "release of term %d by %s, brought by %s", r.Term, r.Holder, from)
	}
	return nil
}

// stopLease gives up the lease at once when the loop ends; whoever wanted a
// proper handover has asked for it before.
func (s *Service) stopLease() {
	s.bound.Store(&leaseBound{})
	s.step(lease.StepDown{Reason: "daemon stops", Leaving: true})
	s.step(lease.SelfCheck{Reason: "daemon stops"})
	s.bound.Store(&leaseBound{})
}

// MayAct reports whether this host may use term now: it holds that term, the
// lease goes on for a margin, and the vote behind it is on disk. It may be
// called from any goroutine.
func (s *Service) MayAct(term cluster.Term) bool {
	b := s.bound.Load()
	return term != 0 && b.term == term && s.now()+b.margin < b.until
}

// PromisedTerm is the highest term that this host has promised: it must not
// acknowledge authority of a lower one. It may be called from any goroutine.
func (s *Service) PromisedTerm() cluster.Term { return cluster.Term(s.promised.Load()) }

// AckTerm reports whether this host may acknowledge authority of term. It may
// be called from any goroutine.
func (s *Service) AckTerm(term cluster.Term) bool { return term >= s.VoterTerm() }

// Actions are what the lease core asks of the daemon, in order: Acquired,
// Extended, Quiesce, Lost, Observed, Duty and ConfigStable. The channel holds 256;
// see View for what a reader that is too slow finds instead. It is never
// closed.
func (s *Service) Actions() <-chan lease.Action { return s.actions }

// TermReady tells the core that a majority of the voters of configuration epoch
// holds the log as it was when term began or that configuration came.
func (s *Service) TermReady(term cluster.Term, epoch uint64) {
	s.post(func() { s.step(lease.TermReady{Term: term, Epoch: epoch}) })
}

// Quiesced answers a Quiesce: nothing more is issued in term and all is
// flushed.
func (s *Service) Quiesced(term cluster.Term) { s.post(func() { s.step(lease.Quiesced{Term: term}) }) }

// SelfCheck notes whether a named check of this host is good; reason is empty
// if it is. While any check fails the host gives the lease up and does not
// stand.
func (s *Service) SelfCheck(name, reason string) { s.post(func() { s.setFailing(name, reason) }) }

// StepDown hands the lease over, to the host named if it is able, and waits
// until this host does not hold it any more. A host that is leaving does not
// stand again; for it, not holding is no error.
func (s *Service) StepDown(ctx context.Context, to cluster.NodeID, reason string, leaving bool) error {
	holding := false
	err := s.call(ctx, func() {
		holding = s.lease.Status().Role == cluster.RoleHolder
		s.leaving = s.leaving || leaving
		s.step(lease.StepDown{To: to, Reason: reason, Leaving: leaving})
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
		if err := s.call(ctx, func() { holding = s.lease.Status().Role == cluster.RoleHolder }); err != nil {
			if errors.Is(err, ErrStopped) {
				return nil // a loop that ended holds nothing
			}
			return fmt.Errorf("step down: %w", err)
		}
		if !holding {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
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
