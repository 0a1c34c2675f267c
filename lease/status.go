package lease

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Status is what operators and shells may know of a State.
type Status struct {
	Self cluster.NodeID
	Role cluster.Role // holder, standby or witness
	// Phase is idle, pre_vote, vote, hold or quiesce.
	Phase string
	// Holder, Term and Until are this host's own lease if it holds, else
	// the last that it knows to be live; Holder is empty if none is.
	Holder cluster.NodeID
	Term   cluster.Term
	Until  time.Duration
	// TenureStart and Ready are about this host's own lease.
	TenureStart time.Duration
	Ready       bool
	Vote        VoteRecord
	// Config is the newest record, Stable the last one known to be stable
	// (holder only), Pending whether they differ.
	Config, Stable cluster.VoterConfig
	Pending        bool
	// QuarantineUntil is when this host begins to vote after its start.
	QuarantineUntil time.Duration
	// Target are the voters that the configuration leads to, and TargetAuto
	// says that the holder chooses them.
	Target     []cluster.NodeID
	TargetAuto bool
	// Acks is what the holder knows of its voters, sorted by node; elsewhere it
	// is empty.
	Acks []VoterStatus
	// Abstaining says why this voter grants nothing until it is admitted
	// again, empty if it does.
	Abstaining string
	// Blocked says why this host does not stand, or that it cannot win because voters
	// are missing; empty if it could.
	Blocked  string
	LastLoss Loss
	// Publisher is who this host believes to have the publishing duty, empty
	// if nobody; PublishWhy is PublishByLease or PublishByRule then.
	// Publishing says that it is this host.
	Publisher  cluster.NodeID
	Publishing bool
	PublishWhy string
}

// VoterStatus is what a holder knows of a voter.
type VoterStatus struct {
	Node cluster.NodeID
	// Epoch is the newest record of this term that the voter has on its disk,
	// 0 if none is known.
	Epoch uint64
	// Until is until when the voter is bound to the holder.
	Until time.Duration
	// Abstaining says that the voter lost its vote record and grants nothing.
	Abstaining bool
}

// Status returns a summary of s.
func (s State) Status() Status {
	st := Status{
		Self: s.self, Role: cluster.RoleStandby, Phase: phaseNames[s.phase], Holder: s.holder.Holder, Term: s.holder.Term,
		Vote: s.vote, Config: s.vote.Config, Target: s.vote.Config.Wanted(), TargetAuto: !s.vote.Config.Pinned,
		Abstaining: s.vote.Lost, QuarantineUntil: s.grantFrom, Blocked: s.blocked(), LastLoss: s.lastLoss,
		Publisher: s.duty.Publisher, Publishing: s.duty.Publishing, PublishWhy: s.duty.Why(),
	}
	switch {
	case s.holds():
		st.Role, st.Until, st.TenureStart, st.Ready = cluster.RoleHolder, s.hold.until, s.hold.since, s.hold.ready
		st.Stable, st.Pending, st.Acks = s.hold.base, !s.hold.stable, s.ackStatus()
	case s.witness:
		st.Role = cluster.RoleWitness
	}
	if !s.holds() && s.holder.Holder != "" {
		st.Until = s.guard.until
	}
	if st.Blocked == "" {
		st.Blocked = s.short()
	}
	if st.Holder == "" {
		// Renewals go to voters and to some others only. Whom they do not
		// reach takes the holder's own word for it, to show and to forward.
		if p := s.declared(); p != nil {
			st.Holder, st.Term = p.Node, p.Holds
		}
	}
	return st
}

// short says which voters are missing, if those that are there are too few for anybody
// to hold and no lease is visible; empty: they are enough. It says nothing of times,
// so that it changes with the voters only: it is pushed to who watches.
func (s *State) short() string {
	c := &s.vote.Config
	if c.Mode != cluster.ModeQuorum || s.holds() || s.holder.Holder != "" || s.declared() != nil {
		return ""
	}
	var silent, abstain []string
	for _, v := range c.Voters {
		switch p := s.lookup(v); {
		case v == s.self:
		case p == nil || !p.Alive || p.Gone:
			silent = append(silent, string(v))
		case p.Abstains:
			abstain = append(abstain, string(v))
		}
	}
	if len(c.Voters)-len(silent)-len(abstain) >= c.Majority() {
		return ""
	}
	if len(c.Voters) == 2 && len(silent) == 1 {
		return "quorum of two voters needs " + silent[0] + ", which is not there: a third voter, a witness perhaps, would do"
	}
	text := fmt.Sprintf("needs %d of %d voters", c.Majority(), len(c.Voters))
	if len(silent) > 0 {
		text += "; not heard: " + strings.Join(silent, ", ")
	}
	if len(abstain) > 0 {
		text += "; abstaining: " + strings.Join(abstain, ", ")
	}
	return text
}

// ackStatus is what a holder knows of its voters.
func (s *State) ackStatus() []VoterStatus {
	out := make([]VoterStatus, 0, s.hold.nacks)
	for _, a := range s.hold.acks[:s.hold.nacks] {
		if s.hold.stable && !s.vote.Config.Has(a.node) {
			continue // it was one until the last change
		}
		v := VoterStatus{Node: a.node, Epoch: a.epoch, Until: a.until}
		if p := s.lookup(a.node); p != nil {
			v.Abstaining = s.lostLately(p)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b VoterStatus) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return out
}
