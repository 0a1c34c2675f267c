package lease

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// available reports whether this holder may hold without hearing the other
// voter.
func (s *State) available() bool {
	return s.vote.Config.Mode == cluster.ModeAvailable && s.hold.base.Mode == cluster.ModeAvailable
}

// acquire turns a won vote into a tenure: the lease counts from the sending
// of the vote. The configuration is issued anew in this term at once, which
// settles whatever change an earlier holder left half done.
func (m *machine) acquire() {
	c := m.vote.Config
	m.phase = holding
	m.guard = guard{}
	m.hold = tenure{term: m.cand.term, since: m.now, base: c, renewAt: m.now}
	t := &m.hold
	grants := make([]cluster.NodeID, 0, len(c.Voters))
	for i, v := range c.Voters {
		if m.cand.granted&(1<<i) == 0 {
			continue
		}
		grants = append(grants, v)
		t.acks[t.nacks] = ack{node: v, until: m.cand.sent + m.timing.safe(m.timing.VoteGuard)}
		t.nacks++
	}
	previous := m.last.Holder
	m.issue(c.Voters, c.Mode)
	t.until = m.leaseUntil()
	m.do(Acquired{Term: t.term, Until: t.until, Previous: previous, Grants: grants, Config: m.vote.Config})
	m.observe(m.self, t.term)
	m.renew()
	m.settle()
}

// ack returns the entry of voter n, nil if it is none.
func (m *machine) ackOf(n cluster.NodeID) *ack {
	for i := range m.hold.nacks {
		if m.hold.acks[i].node == n {
			return &m.hold.acks[i]
		}
	}
	return nil
}

// leaseUntil is the time until which a majority of the configuration, and of
// the one that it replaces, is bound to this holder.
func (m *machine) leaseUntil() time.Duration {
	u := m.boundUntil(&m.vote.Config)
	if !m.hold.stable {
		u = min(u, m.boundUntil(&m.hold.base))
	}
	return u
}

func (m *machine) boundUntil(c *cluster.VoterConfig) time.Duration {
	if c.Mode == cluster.ModeAvailable {
		if a := m.ackOf(m.self); a != nil {
			return a.until
		}
		return 0
	}
	var bound [cluster.MaxVoters]time.Duration
	for i, v := range c.Voters {
		if a := m.ackOf(v); a != nil {
			bound[i] = a.until
		}
	}
	b := bound[:len(c.Voters)]
	slices.Sort(b)
	return b[len(b)-c.Majority()]
}

func (m *machine) extend() {
	if u := m.leaseUntil(); u > m.hold.until {
		m.hold.until = u
		m.do(Extended{Term: m.hold.term, Until: u})
	}
}

// renew sends one renewal to every voter, and to the other hosts that are
// alive so that they know who holds.
func (m *machine) renew() {
	t := &m.hold
	m.round++
	t.sent[m.round%ringSize] = sending{round: m.round, at: m.now}
	t.renewAt = m.now + m.timing.Renew
	if a := m.ackOf(m.self); a != nil {
		a.until = m.now + m.timing.safe(m.timing.Lease)
	}
	msg := Message{Phase: Renew, Term: t.term, Round: m.round}
	m.everyone(func(n cluster.NodeID) { m.send(n, msg) })
	m.extend()
}

// everyone calls f for every voter but this host, of both configurations
// while a change is pending, then for other hosts that are alive.
func (m *machine) everyone(f func(cluster.NodeID)) {
	cur, base := m.vote.Config, m.hold.base
	for _, v := range cur.Voters {
		if v != m.self {
			f(v)
		}
	}
	if !m.hold.stable {
		for _, v := range base.Voters {
			if v != m.self && !cur.Has(v) {
				f(v)
			}
		}
	}
	n := 0
	for i := range m.peers {
		p := &m.peers[i]
		if p.Alive && !p.Gone && !cur.Has(p.Node) && n < maxFollowers {
			f(p.Node)
			n++
		}
	}
}

func (m *machine) onRenewReply(from cluster.NodeID, msg *Message) {
	m.seen = max(m.seen, msg.Promised)
	t := &m.hold
	if !m.holds() || msg.Term != t.term {
		return
	}
	if !msg.Granted {
		m.renewRefused(from, msg)
		return
	}
	a := m.ackOf(from)
	sent := t.sent[msg.Round%ringSize]
	if a == nil || sent.round != msg.Round {
		return
	}
	a.until = max(a.until, sent.at+m.timing.safe(m.timing.Lease))
	if msg.Config.Term == t.term {
		a.epoch = max(a.epoch, msg.Config.Epoch)
	}
	m.extend()
	m.settle()
}

// renewRefused decides what a refusal means: a later holder, the other holder
// after a partition in available mode, or a voter that was left bound to a
// candidacy that failed.
func (m *machine) renewRefused(from cluster.NodeID, msg *Message) {
	t := &m.hold
	switch {
	case msg.Config.Term > t.term:
		if m.adopt(msg.Config) {
			m.persist()
			m.lose("higher term", "")
		}
	case msg.Promised <= t.term:
	case m.available() && msg.Holder == from:
		if !better(m.priority, m.self, msg.Priority, from) {
			m.lose("better claim", from)
			return
		}
		m.lose("merge after a partition", "")
		m.startVote()
	case msg.Holder != "" && msg.Holder != m.self:
		m.lose("higher term", msg.Holder)
	case m.ackOf(from) != nil && msg.Round != t.outbidRound:
		t.outbidRound = msg.Round
		if t.outbid++; t.outbid < 2 || m.phase == quiescing {
			return
		}
		// The voter cannot help this term any more; a higher one of the
		// same holder brings it back.
		m.lose("a voter promised a later term", m.self)
		m.startVote()
	}
}

// lose ends the tenure. The guard for itself goes with it.
func (m *machine) lose(reason string, successor cluster.NodeID) {
	m.do(Lost{Term: m.hold.term, Reason: reason, Successor: successor})
	m.lastLoss = Loss{Term: m.hold.term, Reason: reason, At: m.now}
	m.phase = idle
	m.hold = tenure{}
	m.vacate()
}
