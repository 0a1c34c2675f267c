package election

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// voteCheck is the self-check of the vote store.
const voteCheck = "vote_store"

// actionSize is how many actions wait for the daemon; see deliver.
const actionSize = 256

// Elector is this host's part in the lease.
type Elector struct {
	o       Options
	log     zerolog.Logger
	m       *metrics
	auth    *Authority
	state   lease.State
	sign    *signer
	votes   *votes
	checks  checks
	actions chan lease.Action

	self     cluster.Member
	size     int               // members of the cluster
	removed  bool              // this host is none of them
	reported lease.PeerChanged // last told to the core about this host
}

// New loads the vote record and makes the core's state.
func New(o Options) (*Elector, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	sign := &signer{self: o.Self.Node, key: o.Key, cluster: o.Cluster, keyOf: o.KeyOf, former: o.Former}
	e := &Elector{
		o: o, log: o.Logger, m: m, auth: newAuthority(o.Now), sign: sign,
		votes:   &votes{store: o.Store, sign: sign, now: o.Now, mono: o.Mono, took: m.voteSave, log: o.Logger, gate: o.Gate},
		checks:  checks{failing: make(map[string]string)},
		actions: make(chan lease.Action, actionSize), self: o.Self,
	}
	vote, found, err := o.Store.LoadVote()
	lost := ""
	switch {
	case errors.Is(err, ErrVoteLost):
		e.log.Error().Err(err).Msg("vote record cannot be trusted")
		vote, lost = lease.VoteRecord{}, err.Error()
	case err != nil:
		return nil, err
	case !found && !o.FirstStart:
		lost = "vote record is missing" // the first start saved one
	}
	fresh := !found && lost == ""
	if o.Alone && (fresh || lost != "") {
		// Nobody else can have been promised anything: the only host begins
		// anew, above the terms of its log.
		vote.Config = cluster.VoterConfig{
			Epoch: 1, Voters: []cluster.NodeID{o.Self.Node}, Mode: cluster.AutoMode(1), Issuer: o.Self.Node,
		}
		lost = ""
	}
	sign.config(&vote.Config)
	mode := o.Mode
	if mode == "" {
		mode = cluster.ModeAuto
	}
	e.state, err = lease.New(lease.Options{
		Self: o.Self.Node, Priority: o.Self.Priority, Witness: o.Self.Witness, Timing: o.Timing, ModeSetting: mode,
		Zone: o.Self.Zone, MaxVoters: o.MaxVoters, Vote: vote, Fresh: fresh, Lost: lost, Floor: o.LastTerm,
	}, o.Now())
	if err != nil {
		return nil, err
	}
	if vote = e.state.Status().Vote; !found || lost != "" {
		// An empty record is saved as well: from then on a missing one is lost.
		e.votes.unsaved = &vote
	}
	e.auth.promised.Store(uint64(vote.PromisedTerm))
	e.noteAbstaining(vote.Lost)
	return e, nil
}

// Authority is what this host may do by the lease.
func (e *Elector) Authority() *Authority { return e.auth }

// Actions are what the lease core asks of the daemon, in order: Acquired,
// Extended, Quiesce, Lost, Observed, Duty and ConfigStable. The channel holds
// 256 and is never closed.
func (e *Elector) Actions() <-chan lease.Action { return e.actions }

// Status is the lease as this host sees it.
func (e *Elector) Status() lease.Status { return e.state.Status() }

// Signed is Status with the voter configuration as others see it. It updates the
// metrics of the lease.
func (e *Elector) Signed() lease.Status {
	st := e.state.Status()
	e.sign.config(&st.Config)
	e.m.term.Set(float64(max(st.Term, st.Vote.PromisedTerm)))
	e.m.promised.Set(float64(st.Vote.PromisedTerm))
	e.m.holding.Set(oneIf(st.Role == cluster.RoleHolder))
	return st
}

// StaleClaim reports whether a claim to publish under term ignores the lease
// that is valid.
func (e *Elector) StaleClaim(term cluster.Term) bool { return lease.StaleClaim(e.state, term) }

// Start saves a founder's first record before anything can follow from it, and
// tells the core about this host and those that are no longer members: one of
// them may still be a voter, and the holder takes it out.
func (e *Elector) Start(gone []cluster.NodeID, draining bool) {
	if e.votes.unsaved != nil && !e.votes.save(*e.votes.unsaved) {
		e.SetFailing(voteCheck, "vote record cannot be saved")
	}
	e.TellSelf()
	for _, node := range gone {
		e.Step(lease.PeerChanged{Node: node, Gone: true})
	}
	e.Drain(draining)
	e.Tick()
}

// SetSelf notes what changed about this host and the cluster's size, for the
// next TellSelf.
func (e *Elector) SetSelf(self cluster.Member, members int, removed bool) {
	e.self, e.size, e.removed = self, members, removed
}

// TellSelf tells the core what changed about this host.
func (e *Elector) TellSelf() {
	ev := lease.PeerChanged{
		Node: e.o.Self.Node, Priority: e.self.Priority, Zone: e.self.Zone, Members: e.size, Gone: e.removed,
	}
	if ev != e.reported {
		e.reported = ev
		e.Step(ev)
	}
}

// Due does what time asks for, but for Tick.
func (e *Elector) Due(now time.Duration) {
	e.retrySave(now)
	if e.checks.draining && !e.checks.drained {
		e.Drain(true) // once the handover is done
	}
}

// Tick lets the core's time pass.
func (e *Elector) Tick() { e.Step(lease.Tick{Jitter: e.o.Rand()}) }

// Expired reports whether it is time for Tick.
func (e *Elector) Expired(now time.Duration) bool { return now >= lease.Deadline(e.state) }

// Deadline is when Due or Tick has something to do at the latest.
func (e *Elector) Deadline() time.Duration {
	at := lease.Deadline(e.state)
	if e.votes.unsaved != nil {
		at = min(at, e.votes.again)
	}
	return at
}

// Step feeds the core one event and carries out what it answers, in order.
func (e *Elector) Step(ev lease.Event) {
	st, acts := lease.Step(e.state, ev, e.o.Now())
	e.state = st
	e.log.Trace().Stringer("event", ev).Int("actions", len(acts)).Msg("lease step")
	if len(acts) > 0 {
		e.o.Changed()
	}
	status := st.Status()
	e.noteAbstaining(status.Abstaining)
	// A promise binds from the moment it is decided.
	if p := uint64(status.Vote.PromisedTerm); p > e.auth.promised.Load() {
		e.auth.promised.Store(p)
	}
	next := &bound{margin: e.o.Timing.ActMargin}
	if status.Role == cluster.RoleHolder {
		next.term, next.until = status.Term, status.Until
	}
	// What is lost is taken back first, what is won is given last.
	if cur := e.auth.bound.Load(); cur.term != next.term {
		e.auth.bound.Store(&bound{})
	} else if next.until < cur.until {
		e.auth.bound.Store(next)
	}
	delivered := 0
	for i, a := range acts {
		if p, ok := a.(lease.Persist); ok && !e.votes.save(p.Vote) {
			e.auth.bound.Store(&bound{})
			e.tell(acts[delivered:i])
			e.SetFailing(voteCheck, "vote record cannot be saved")
			return
		}
		e.carryOut(a)
		if _, ok := a.(lease.Acquired); ok {
			// What gives the right to act is saved; what follows is not part of it.
			e.auth.bound.Store(next)
			e.tell(acts[delivered : i+1])
			delivered = i + 1
		}
	}
	e.auth.bound.Store(next)
	e.tell(acts[delivered:])
}

// carryOut does what an action asks of this host's voice.
func (e *Elector) carryOut(action lease.Action) {
	switch a := action.(type) {
	case lease.Send:
		// The core takes a promise for saved once it has asked for that. While
		// one is not, this host may say nothing that relies on it.
		if e.votes.unsaved == nil || a.Msg.Phase == lease.ReleaseTerm {
			e.Send(a)
		}
		if p := a.Msg.Phase; p == lease.Renew || p == lease.RenewReply {
			e.o.Renewal()
		}
	case lease.Acquired:
		e.m.changes.WithLabelValues("acquired").Inc()
		e.log.Info().Uint64("term", uint64(a.Term)).Str("peer", string(a.Previous)).Msg("lease acquired")
	case lease.Lost:
		e.m.changes.WithLabelValues("lost").Inc()
		e.log.Info().Uint64("term", uint64(a.Term)).Str("reason", a.Reason).Str("peer", string(a.Successor)).Msg("lease lost")
	case lease.Duty:
		e.onDuty(a)
	case lease.Refused:
		e.m.refused.WithLabelValues(a.Why).Inc()
		if e.o.Gate.Pass("refused/" + a.Why + "/" + string(a.Node)) {
			e.log.Debug().Str("peer", string(a.Node)).Str("reason", a.Why).Str("phase", string(a.Phase)).Msg("lease message refused")
		}
	case lease.Observed:
		e.log.Debug().Uint64("term", uint64(a.Term)).Str("peer", string(a.Holder)).Msg("holder observed")
	}
}

// tell delivers what the daemon must know of acts. It comes after the bound is
// published, so that whoever learns of a term may use it.
func (e *Elector) tell(acts []lease.Action) {
	for _, a := range acts {
		switch a.(type) {
		case lease.Persist, lease.Send, lease.Refused:
		default:
			e.deliver(a)
		}
	}
}

// deliver hands an action to the daemon. Its channel is bounded: an Extended
// is left out once half of it is used, since Status and MayAct say as much, and
// when it is full the oldest action goes, counted. A reader that missed
// actions finds the present state in Status.
func (e *Elector) deliver(a lease.Action) {
	if _, ok := a.(lease.Extended); ok && len(e.actions) >= cap(e.actions)/2 {
		e.o.Dropped("extended")
		return
	}
	for {
		select {
		case e.actions <- a:
			return
		default:
		}
		select {
		case <-e.actions:
			e.o.Dropped("action")
			if e.o.Gate.Pass("actions") {
				e.log.Error().Msg("lease actions are not read: oldest dropped")
			}
		default:
		}
	}
}

// retrySave tries again to save a vote that could not be saved; once the
// newest is on disk the host may hold again.
func (e *Elector) retrySave(now time.Duration) {
	if e.votes.unsaved != nil {
		if now < e.votes.again || !e.votes.save(e.state.Status().Vote) {
			return
		}
	}
	if _, ok := e.checks.failing[voteCheck]; ok {
		e.votes.pause = 0
		e.SetFailing(voteCheck, "")
	}
}

// SetFailing notes the outcome of a self-check, which is good without a reason,
// and tells the core. While any check fails the host gives the lease up and does
// not stand.
func (e *Elector) SetFailing(name, reason string) {
	if !e.checks.set(name, reason) {
		return
	}
	e.o.Changed()
	if reason == "" {
		e.log.Info().Str("check", name).Msg("self-check passes again")
	} else {
		e.log.Error().Str("check", name).Str("reason", reason).Msg("self-check failed")
	}
	e.tellChecks()
}

// Failing says which self-checks fail, and why. It is never changed.
func (e *Elector) Failing() map[string]string { return e.checks.failing }

// tellChecks tells the core whether this host may hold.
func (e *Elector) tellChecks() {
	reason := e.checks.reason()
	e.Step(lease.SelfCheck{OK: reason == "", Reason: reason})
}

// Drain follows what the daemon says about draining: a holder hands over in
// good order first, then the host does not stand.
func (e *Elector) Drain(draining bool) {
	holds := e.state.Status().Role == cluster.RoleHolder
	switch {
	case draining && holds && !e.checks.draining:
		e.Step(lease.StepDown{Reason: "draining"})
	case draining && !holds && !e.checks.drained, !draining && e.checks.drained:
		e.checks.drained = draining
		e.o.Changed()
		e.tellChecks()
	}
	e.checks.draining = draining
}

// Willing says whether this host wants to stand for the lease at all.
func (e *Elector) Willing() bool { return !e.self.Witness && !e.checks.leaving && !e.checks.draining }

// Eligible says whether this host stands for the lease now.
func (e *Elector) Eligible() bool { return e.Willing() && len(e.checks.failing) == 0 }

// Leave says that this host is leaving: it does not stand again.
func (e *Elector) Leave() { e.checks.leaving = true }

// StepDown asks the core to hand the lease over, to the host named if it is
// able. It reports whether this host holds.
func (e *Elector) StepDown(to cluster.NodeID, reason string, leaving bool) bool {
	holds := e.state.Status().Role == cluster.RoleHolder
	if leaving {
		e.Leave()
	}
	e.Step(lease.StepDown{To: to, Reason: reason, Leaving: leaving})
	return holds
}

// Stop gives up the lease at once; whoever wanted a proper handover has asked
// for it before.
func (e *Elector) Stop() {
	e.auth.bound.Store(&bound{})
	e.Step(lease.StepDown{Reason: "daemon stops", Leaving: true})
	e.Step(lease.SelfCheck{Reason: "daemon stops"})
	e.auth.bound.Store(&bound{})
}

// EndDuty takes the publishing duty back, whoever has it then.
func (e *Elector) EndDuty() {
	if e.auth.publishing.Load() {
		d := lease.Duty{}
		e.onDuty(d)
		e.deliver(d)
	}
}

// onDuty follows a change of the publishing duty.
func (e *Elector) onDuty(d lease.Duty) {
	if was := e.auth.publishing.Swap(d.Publishing); was != d.Publishing {
		e.log.Info().Bool("publishing", d.Publishing).Str("peer", string(d.Publisher)).Str("reason", d.Why()).
			Uint64("term", uint64(d.Term)).Msg("publishing duty changed")
	}
	e.m.publishing.Set(oneIf(d.Publishing))
}

// noteAbstaining follows whether this host abstains.
func (e *Elector) noteAbstaining(reason string) {
	abstains := reason != ""
	if e.auth.abstains.Swap(abstains) == abstains {
		return
	}
	e.o.Changed()
	e.m.abstaining.Set(oneIf(abstains))
	if abstains {
		e.log.Error().Str("reason", reason).Msg("vote record lost: this host abstains until it is admitted again")
	} else {
		e.log.Info().Msg("this host no longer abstains: it may become a voter again")
	}
}

// Send sends a message of the core.
func (e *Elector) Send(a lease.Send) {
	m := Message{Message: a.Msg, Profile: e.o.Profile}
	if len(m.Reason) > maxReason {
		m.Reason = m.Reason[:maxReason]
	}
	e.sign.config(&m.Config)
	m.Released = e.sign.release(m.Released)
	err := e.queue(a.To, m)
	if err != nil && wire.ReasonOf(err) == wire.ReasonSize && m.Released != nil {
		// With the longest names not all fits. A claim does without the
		// release, and a release without the record.
		if m.Phase == lease.ReleaseTerm {
			m.Config = cluster.VoterConfig{}
		} else {
			m.Released = nil
		}
		err = e.queue(a.To, m)
	}
	if err != nil && e.o.Gate.Pass("lease/"+string(a.To)) {
		e.log.Warn().Err(err).Str("peer", string(a.To)).Msg("lease message not sent")
	}
}

func (e *Elector) queue(to cluster.NodeID, m Message) error {
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
	return e.o.Send(to, kind, payload)
}

// Receive hands a lease message to the core once shape, timing and proof are
// good.
func (e *Elector) Receive(from cluster.NodeID, kind wire.Type, raw json.RawMessage) {
	if raw == nil {
		e.o.Reject(from, wire.Refuse(wire.ReasonTerm, "%s without a term", kind))
		return
	}
	m, err := decode(kind, raw)
	if err == nil {
		err = e.check(from, &m)
	}
	if err != nil {
		e.o.Reject(from, err)
		return
	}
	e.Step(lease.Receive{From: from, Msg: m.Message})
}

// check refuses what this host cannot take at its word.
func (e *Elector) check(from cluster.NodeID, m *Message) error {
	if err := e.o.Judge(from, m.Profile); err != nil {
		return err
	}
	if err := e.CheckConfig(from, m.Config); err != nil {
		return err
	}
	return e.sign.checkRelease(from, m.Released)
}

// CheckConfig refuses a voter configuration that no holder signed.
func (e *Elector) CheckConfig(from cluster.NodeID, c cluster.VoterConfig) error {
	return e.sign.checkConfig(from, c)
}

// Change asks the core, on the holder, for other voters or another mode. It
// returns the term and epoch of the configuration that has the wish.
func (e *Elector) Change(want func() (lease.SetVoters, error)) (cluster.Term, uint64, error) {
	if e.state.Status().Role != cluster.RoleHolder {
		return 0, 0, lease.ErrNotHolding
	}
	r, err := want()
	if err == nil {
		err = lease.CheckVoters(e.state, r)
	}
	if err != nil {
		return 0, 0, err
	}
	e.Step(r)
	st := e.state.Status()
	return st.Term, st.Config.Epoch, nil
}
