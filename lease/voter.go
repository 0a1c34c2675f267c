package lease

import (
	"github.com/skein-project/skein/cluster"
)

// Reasons of a refusal, as they travel in replies.
const (
	refusedNoConfig   = "no voter configuration"
	refusedConfig     = "newer voter configuration"
	refusedQuarantine = "started too recently"
	refusedGone       = "candidate left"
	refusedHolding    = "holding"
	refusedCandidate  = "candidate itself"
	refusedGuard      = "lease is held"
	refusedPreference = "better candidate alive"
	refusedPromised   = "promised a later term"
	refusedReleased   = "term was released"
	refusedIneligible = "candidate is not eligible"
	refusedNonVoter   = "candidate is not a voter"
	refusedLost       = "vote record lost"
)

// prefersOther reports whether this voter knows a better candidate than
// (prio, node) and still waits for it.
func (m *machine) prefersOther(prio uint32, node cluster.NodeID) bool {
	if m.now >= m.vacant+m.timing.Defer {
		return false
	}
	if m.self != node && m.blocked() == "" && m.now >= m.standFrom && better(m.priority, m.self, prio, node) {
		return true
	}
	for i := range m.peers {
		if m.standsBetter(&m.peers[i], prio, node) {
			return true
		}
	}
	return false
}

// refusal says why this voter would not vote for the sender of msg, empty if
// it would. It holds for pre-votes and votes alike.
func (m *machine) refusal(from cluster.NodeID, msg *Message) string {
	p := m.lookup(from)
	switch {
	case m.vote.Config.IsZero():
		return refusedNoConfig
	case m.vote.Config.Newer(msg.Config):
		return refusedConfig
	case m.now < m.grantFrom:
		return refusedQuarantine
	case p != nil && p.Gone:
		return refusedGone
	case p != nil && p.Alive && !p.Eligible:
		return refusedIneligible
	case outsider(&msg.Config, from):
		return refusedNonVoter
	case m.vote.Lost != "":
		return refusedLost
	case m.holds() && (msg.Phase != Vote || !m.yields(from, msg)):
		return refusedHolding
	case m.phase == voting:
		return refusedCandidate
	case m.guard.node != "" && m.guard.node != from && !m.givesUp(from, msg):
		return refusedGuard
	}
	return ""
}

// outsider reports whether n cannot hold under c, since it is no voter.
func outsider(c *cluster.VoterConfig, n cluster.NodeID) bool {
	return (c.Mode != cluster.ModeQuorum || c.Split()) && !c.Has(n)
}

// givesUp reports whether this voter lets go of its guard for the claim of a
// better host: in available mode two holders may have met, and the better one
// asks for a term above both.
func (m *machine) givesUp(from cluster.NodeID, msg *Message) bool {
	p := m.lookup(m.guard.node)
	return m.vote.Config.Mode == cluster.ModeAvailable && msg.Phase == Vote && msg.Term > m.guard.term &&
		p != nil && better(msg.Priority, from, p.Priority, p.Node)
}

// yields reports whether a holder in available mode gives way to the claim.
func (m *machine) yields(from cluster.NodeID, msg *Message) bool {
	return m.available() && msg.Term > m.hold.term && better(msg.Priority, from, m.priority, m.self)
}

// refuse tells the shell of a message that cannot be meant honestly.
func (m *machine) refuse(from cluster.NodeID, msg *Message, why string) {
	if why != "" {
		m.do(Refused{Node: from, Phase: msg.Phase, Why: why})
	}
}

// badClaim is why a claim refused for reason is one that nobody should make,
// empty for the refusals of everyday.
func badClaim(reason string) string {
	switch reason {
	case refusedPromised, refusedReleased:
		return RefusedTerm
	case refusedConfig:
		return RefusedEpoch
	case refusedNonVoter:
		return RefusedNonVoter
	case refusedGone, refusedIneligible:
		return RefusedCandidate
	}
	return ""
}

func (m *machine) answer(to cluster.NodeID, req *Message, p Phase, reason string) {
	r := Message{Phase: p, Term: req.Term, Round: req.Round, Granted: reason == "", Reason: reason, Promised: m.vote.PromisedTerm}
	if reason == refusedLost {
		r.Promised = max(m.seen, m.vote.PromisedTerm) // it may have used them
	}
	switch {
	case reason == "":
	case m.holds():
		r.Holder = m.self
	case m.holder.Holder != to:
		r.Holder = m.holder.Holder
	}
	m.send(to, r)
}

// learn takes over the record of a candidate if this host has none and is
// named in it, or if it has an earlier one and the candidate joins the voters. The
// record is a holder's all the same: were it not believed until a holder brings it,
// a holder that falls right after it had added this host, or the candidate, would
// leave behind voters who cannot be had.
func (m *machine) learn(from cluster.NodeID, msg *Message) {
	c := &m.vote.Config
	if (c.IsZero() || !m.holds() && msg.Config.Joining(from) && msg.Config.Newer(*c)) && msg.Config.Has(m.self) && m.adopt(msg.Config) {
		m.persist()
	}
}

func (m *machine) onPreVote(from cluster.NodeID, msg *Message) {
	m.learn(from, msg)
	m.repeated(msg)
	reason := m.refusal(from, msg)
	named := msg.Released != nil && msg.Released.Successor == from && msg.Released.Term >= m.last.Term
	if reason == "" && !named && (m.prefersOther(msg.Priority, from) || m.duels(msg.Priority, from)) {
		reason = refusedPreference
	}
	m.refuse(from, msg, badClaim(reason))
	m.answer(from, msg, PreVoteReply, reason)
}

// duels reports whether this host is the better of two candidates that ask for pre-votes
// at the same time: two distant hosts that need each other's vote would otherwise keep
// voting for themselves.
func (m *machine) duels(prio uint32, node cluster.NodeID) bool {
	return m.phase == preVoting && m.vote.Config.Mode == cluster.ModeQuorum && better(m.priority, m.self, prio, node)
}

// repeated notes the release that a successor repeats, which makes the order
// in which release and request arrive irrelevant.
func (m *machine) repeated(msg *Message) {
	if msg.Released != nil && msg.Released.Holder != m.self {
		m.noteRelease(msg.Released)
	}
}

func (m *machine) onVote(from cluster.NodeID, msg *Message) {
	m.learn(from, msg)
	m.repeated(msg)
	reason := m.refusal(from, msg)
	v := &m.vote
	if reason == "" && (msg.Term < v.PromisedTerm || (msg.Term == v.PromisedTerm && v.PromisedTo != from)) {
		reason = refusedPromised
	}
	if reason == "" {
		m.grant(from, msg.Term)
	}
	m.refuse(from, msg, badClaim(reason))
	m.answer(from, msg, VoteReply, reason)
}

// grant promises term to n, durably, and guards it for a moment.
func (m *machine) grant(n cluster.NodeID, term cluster.Term) {
	if m.holds() {
		m.lose("better claim", n)
	}
	m.abort()
	if m.vote.PromisedTerm != term || m.vote.PromisedTo != n {
		m.vote.PromisedTerm, m.vote.PromisedTo = term, n
		m.seen = max(m.seen, term)
		m.persist()
	}
	until := m.now + m.timing.VoteGuard
	if m.guard.node == n {
		until = max(until, m.guard.until)
	}
	m.guard = guard{node: n, term: term, until: until}
}

// onRenew is the voter's side of a renewal, and of the voter records that
// come with it.
func (m *machine) onRenew(from cluster.NodeID, msg *Message) {
	if reason := m.refuseRenew(from, msg); reason != "" {
		m.refuse(from, msg, badClaim(reason))
		m.answer(from, msg, RenewReply, reason)
		return
	}
	m.seen = max(m.seen, msg.Term)
	if m.holds() {
		m.lose("higher term", from)
	}
	m.abort()
	changed := m.adopt(msg.Config)
	if msg.Term > m.vote.PromisedTerm {
		m.vote.PromisedTerm, m.vote.PromisedTo = msg.Term, from
		changed = true
	}
	if m.readmit() || changed {
		m.persist()
	}
	m.guard = guard{node: from, term: msg.Term, until: m.now + m.timing.Lease}
	m.observe(from, msg.Term)
	switch {
	case m.vote.Lost != "":
		m.answer(from, msg, RenewReply, refusedLost)
	case m.vote.Config.Has(m.self) || msg.Ack:
		m.answer(from, msg, RenewReply, "")
	}
}

// voteLost makes this host abstain.
func (m *machine) voteLost(reason string) {
	if reason == "" {
		reason = refusedLost
	}
	if m.holds() {
		m.lose(reason, "")
	}
	m.abort()
	m.grantFrom = max(m.grantFrom, m.now+m.timing.Lease)
	if m.vote.Lost == "" {
		m.vote.Lost = reason
		m.persist()
	}
}

// readmit ends abstaining once the holder has taken this host out of the
// voters: whatever it promised before binds nobody any more, since a majority
// that does not count it has agreed to the record. Its guards, which it does
// not know either, have run out by then.
func (m *machine) readmit() bool {
	c := &m.vote.Config
	if m.vote.Lost == "" || c.IsZero() || c.Has(m.self) || m.now < m.grantFrom {
		return false
	}
	m.vote.Lost = ""
	return true
}

// refuseRenew says why a renewal is refused, empty if it is not.
func (m *machine) refuseRenew(from cluster.NodeID, msg *Message) string {
	newest := &msg.Config
	if m.vote.Config.Newer(msg.Config) {
		newest = &m.vote.Config
	}
	switch {
	case !newest.IsZero() && outsider(newest, from):
		return refusedNonVoter
	case msg.Term < m.vote.PromisedTerm:
		return refusedPromised
	case m.released.Holder == from && msg.Term <= m.released.Term:
		return refusedReleased
	case m.holds() && m.hold.term >= msg.Term:
		return refusedHolding
	case m.holds() && m.available() && better(m.priority, m.self, msg.Priority, from) && m.mayMerge(msg):
		m.seen = max(m.seen, msg.Term)
		m.merge(msg)
		return refusedHolding
	}
	return ""
}

// adopt takes over a newer voter configuration; the caller persists.
func (m *machine) adopt(c cluster.VoterConfig) bool {
	if !c.Newer(m.vote.Config) || c.Validate() != nil {
		return false
	}
	m.vote.Config = c
	m.seen = max(m.seen, c.Term)
	if c.Term > m.vote.PromisedTerm {
		m.vote.PromisedTerm, m.vote.PromisedTo = c.Term, ""
	}
	return true
}

// noteRelease ends the guard for a released term.
func (m *machine) noteRelease(r *Release) {
	if r.Term <= m.released.Term {
		return
	}
	m.released, m.releaseAt = *r, m.now
	m.seen = max(m.seen, r.Term)
	if r.Successor == m.self {
		m.standFrom = min(m.standFrom, m.now) // though it stepped down itself a moment ago
	}
	if m.holds() || m.guard.node != r.Holder || m.guard.term > r.Term {
		return
	}
	m.vacate()
	if r.Successor != "" && r.Successor != m.self {
		// The successor goes first.
		m.standFrom = max(m.standFrom, m.now+2*m.timing.Skew)
	}
}
