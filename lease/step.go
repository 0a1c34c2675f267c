package lease

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// machine is a State in the middle of a step.
type machine struct {
	State
	acts []Action
}

// Step applies one event at local time now and returns the new state and what
// to do, in order. First everything that has run out by now is expired, then
// the event is applied, then whatever is due is done. A now below that of an
// earlier step counts as that one. Equal inputs give equal outputs.
func Step(s State, ev Event, now time.Duration) (State, []Action) {
	m := machine{State: s}
	m.now = max(m.now, now)
	m.expire()
	switch e := ev.(type) {
	case Tick:
		if e.Jitter >= 0 && e.Jitter < 1 {
			m.jitter = e.Jitter
		}
	case Receive:
		m.receive(e.From, &e.Msg)
	case PeerChanged:
		m.peerChanged(&e)
	case TermReady:
		if m.holds() && m.hold.term == e.Term {
			m.hold.ready, m.hold.look = true, true
			m.hold.readyEpoch = max(m.hold.readyEpoch, e.Epoch)
		}
	case StepDown:
		m.leaving = m.leaving || e.Leaving
		m.stepDown(e.To, e.Reason)
	case SelfCheck:
		m.selfCheck(e)
	case Suspended:
		m.suspended()
	case SetVoters:
		m.setVoters(e)
	case VoteLost:
		m.voteLost(e.Reason)
	case Quiesced:
		if m.phase == quiescing && m.hold.term == e.Term {
			m.release()
		}
	}
	m.advance()
	m.publish()
	return m.State, m.acts
}

func (m *machine) do(a Action) { m.acts = append(m.acts, a) }

func (m *machine) persist() { m.do(Persist{Vote: m.vote}) }

func (m *machine) send(to cluster.NodeID, msg Message) {
	msg.Priority = m.priority
	msg.Config = m.vote.Config
	m.do(Send{To: to, Msg: msg})
}

// expire ends what has run out, before anything else is looked at.
func (m *machine) expire() {
	if m.holds() && m.now >= m.hold.until {
		m.lose("expired", "")
	}
	if m.guard.node != "" && m.now >= m.guard.until {
		m.vacate()
	}
	if (m.phase == preVoting || m.phase == voting) && m.now >= m.cand.deadline {
		m.count(true)
	}
}

// vacate forgets the guard: from now on this voter is free.
func (m *machine) vacate() {
	m.guard = guard{}
	m.vacant = m.now
	m.observe("", m.last.Term)
}

// observe tells the shell when the known holder changes.
func (m *machine) observe(holder cluster.NodeID, term cluster.Term) {
	o := Observed{Holder: holder, Term: term}
	if holder != "" {
		if m.last.Holder != holder {
			m.countLoss(m.last)
		}
		m.last = o
	}
	if m.holder.Holder == holder && (holder == "" || m.holder.Term == term) {
		return
	}
	m.holder = o
	if holder == "" {
		m.unseen = m.now
	}
	m.do(o)
}

// countLoss remembers that a peer's tenure ended without a release, which
// makes the next voluntary handover to it wait longer.
func (m *machine) countLoss(o Observed) {
	if o.Holder == "" || o.Holder == m.self || (m.released.Holder == o.Holder && m.released.Term >= o.Term) {
		return
	}
	i, ok := m.find(o.Holder)
	if !ok {
		return
	}
	m.peers = slices.Clone(m.peers)
	p := &m.peers[i]
	if m.now-p.lastLoss > m.timing.LossWindow {
		p.losses = 0
	}
	p.losses, p.lastLoss = min(p.losses+1, 32), m.now
}

func (m *machine) peerChanged(e *PeerChanged) {
	if e.Node == m.self {
		// What else is true of this host it knows better.
		m.priority, m.gone, m.zone = e.Priority, e.Gone, e.Zone
		m.members = e.Members
		return
	}
	i, ok := m.find(e.Node)
	if ok && m.peers[i].PeerChanged == *e {
		return
	}
	if !ok {
		if len(m.peers) >= maxPeers {
			return
		}
		m.peers = slices.Insert(slices.Clone(m.peers), i, peer{})
	} else {
		m.peers = slices.Clone(m.peers)
	}
	p := &m.peers[i]
	was, up, alive := p.able(), p.ready(), ok && p.Alive
	p.PeerChanged = *e
	if p.able() && !was {
		p.since = m.now
	}
	if p.ready() && !up {
		p.up = m.now
	}
	if !p.Alive && (alive || !ok) {
		p.down = m.now
	}
	if m.holds() {
		m.hold.look = true
		m.settle()
	}
}

func (m *machine) selfCheck(e SelfCheck) {
	m.notOK = ""
	if e.OK {
		return
	}
	m.notOK = e.Reason
	if m.notOK == "" {
		m.notOK = "self-check failed"
	}
	if m.holds() {
		// A host that cannot hold cannot be trusted to flush either.
		m.hold.successor, m.hold.reason = m.successor(""), m.notOK
		m.release()
	}
	m.abort()
}

func (m *machine) suspended() {
	if m.holds() {
		m.lose("suspended", "")
	}
	m.abort()
	m.grantFrom = max(m.grantFrom, m.now+m.timing.Lease)
	if m.holder.Holder == "" {
		m.unseen = m.now // nothing could be seen meanwhile
	}
}

// receive handles a message of another host.
func (m *machine) receive(from cluster.NodeID, msg *Message) {
	if from == m.self || msg.Term == 0 {
		return
	}
	switch msg.Phase {
	case PreVote:
		m.onPreVote(from, msg)
	case Vote:
		m.onVote(from, msg)
	case Renew:
		m.onRenew(from, msg)
	case ReleaseTerm:
		if msg.Released != nil && msg.Released.Holder == from {
			m.noteRelease(msg.Released)
		}
	case PreVoteReply, VoteReply:
		m.onAnswer(from, msg)
	case RenewReply:
		m.onRenewReply(from, msg)
	}
}

// advance does what is due.
func (m *machine) advance() {
	switch m.phase {
	case idle:
		switch {
		case !m.stands() || m.now < m.standAt():
		case m.named() && m.releaseAt == m.now:
			m.startVote() // the release says what a pre-vote would ask
		default:
			m.startPreVote()
		}
	case preVoting, voting:
		if m.cand.again > 0 && m.now >= m.cand.again {
			m.askAgain()
		}
	case holding, quiescing:
		if m.now >= m.hold.renewAt {
			m.renew()
		}
		if m.phase == quiescing {
			if m.now >= m.hold.quiesceBy {
				m.release()
			}
			return
		}
		m.reconfigure()
		if n, when := m.preemptor(); n != "" && m.now >= when {
			m.stepDown(n, "preempted by a better host")
		}
	}
}
