package lease

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// available reports whether this holder may hold without hearing the other
// voters.
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
	m.issue(c)
	t.until = m.leaseUntil()
	m.do(Acquired{Term: t.term, Until: t.until, Previous: previous, Grants: grants, Config: m.vote.Config})
	m.observe(m.self, t.term)
	m.persist() // no effect of the term needs the record, but others must not hear of it before
	m.renew()
	m.settle()
}

// ackOf returns the entry of voter n, nil if it is none.
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
		if next := m.hold.sent[m.round%ringSize].at + m.timing.Renew; u >= next {
			m.hold.renewAt = max(m.hold.renewAt, next)
		}
		m.do(Extended{Term: m.hold.term, Until: u})
	}
}

// renew sends one renewal to every voter, and to the other hosts that are
// alive so that they know who holds.
func (m *machine) renew() {
	t := &m.hold
	m.round++
	t.sent[m.round%ringSize] = sending{round: m.round, at: m.now}
	t.look = true
	if a := m.ackOf(m.self); a != nil {
		a.until = m.now + m.timing.safe(m.timing.Lease)
	}
	msg := Message{Phase: Renew, Term: t.term, Round: m.round}
	m.everyone(func(n cluster.NodeID) {
		msg.Ack = !t.stable && t.base.Has(n) && !m.vote.Config.Has(n)
		m.send(n, msg)
	})
	m.extend()
	t.renewAt = m.now + m.timing.Renew
	if m.timing.Resend > 0 && t.until < t.renewAt {
		t.renewAt = m.now + m.timing.Resend // one that is lost must not end the lease
	}
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
	for _, i := range m.followers() {
		f(m.peers[i].Node)
	}
}

// followers are the hosts beyond the voters that hear of renewals, as indices
// of peers: the best ones, since they are who stands next. The others learn
// from the holder's heartbeats who holds.
func (m *machine) followers() []int {
	var all []int
	for i := range m.peers {
		if p := &m.peers[i]; p.Alive && !p.Gone && !m.vote.Config.Has(p.Node) {
			all = append(all, i)
		}
	}
	if len(all) > maxFollowers {
		slices.SortFunc(all, func(a, b int) int {
			x, y := &m.peers[a], &m.peers[b]
			if better(x.Priority, x.Node, y.Priority, y.Node) {
				return -1
			}
			return 1
		})
		all = all[:fewFollowers]
	}
	return all
}

func (m *machine) onRenewReply(from cluster.NodeID, msg *Message) {
	t := &m.hold
	if !m.holds() || msg.Term != t.term {
		return
	}
	switch {
	case msg.Reason == refusedLost:
		m.noteLost(from, max(m.now, 1))
	case msg.Granted:
		m.noteLost(from, 0)
	}
	a := m.ackOf(from)
	if a == nil {
		if msg.Reason != refusedLost {
			m.refuse(from, msg, RefusedNonVoter)
		}
		return
	}
	m.seen = max(m.seen, msg.Promised)
	sent := t.sent[msg.Round%ringSize]
	known := sent.round == msg.Round
	if known && msg.Config.Term == t.term && (msg.Granted || msg.Reason == refusedLost) {
		a.epoch = max(a.epoch, msg.Config.Epoch)
	}
	switch {
	case msg.Granted && known:
		a.until = max(a.until, sent.at+m.timing.safe(m.timing.Lease))
		m.extend()
	case !msg.Granted && msg.Reason != refusedLost:
		m.renewRefused(from, msg)
		return
	}
	m.settle()
}

// noteLost remembers when a host said that it lost its vote record, 0 if it
// votes again.
func (m *machine) noteLost(n cluster.NodeID, at time.Duration) {
	if i, ok := m.find(n); ok && m.peers[i].lostAt != at {
		m.peers = slices.Clone(m.peers)
		m.peers[i].lostAt = at
		m.hold.look = true
	}
}

// renewRefused decides what a refusal means: a later holder, the other holder
// after a partition in available mode, or a voter that was left bound to a
// candidacy that failed.
func (m *machine) renewRefused(from cluster.NodeID, msg *Message) {
	t := &m.hold
	if m.available() && msg.Promised > t.term && msg.Holder != "" && msg.Holder != m.self {
		prio, known := msg.Priority, msg.Holder == from
		if p := m.lookup(msg.Holder); !known && p != nil {
			prio, known = p.Priority, true
		}
		if known && better(m.priority, m.self, prio, msg.Holder) && m.mayMerge(msg) {
			m.merge(msg)
			return
		}
	}
	switch {
	case msg.Config.Term > t.term:
		if m.adopt(msg.Config) {
			m.persist()
			m.lose("higher term", "")
		}
	case msg.Promised <= t.term:
	case m.available() && msg.Holder == from:
		m.lose("better claim", from)
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

// mayMerge reports whether this host could stand by the record of msg.
func (m *machine) mayMerge(msg *Message) bool {
	after := m.State
	if msg.Config.Newer(after.vote.Config) {
		after.vote.Config = msg.Config
	}
	return after.blocked() == ""
}

// merge is what the better of two holders does that meet in available mode:
// it gives up its own term and asks at once for one above both, under the newer
// of both records.
func (m *machine) merge(msg *Message) {
	m.lose("merge after a partition", "")
	if m.adopt(msg.Config) {
		m.persist()
	}
	m.startVote()
}

// lose ends the tenure. The guard for itself goes with it.
func (m *machine) lose(reason string, successor cluster.NodeID) {
	m.do(Lost{Term: m.hold.term, Reason: reason, Successor: successor})
	m.lastLoss = Loss{Term: m.hold.term, Reason: reason, At: m.now}
	m.phase = idle
	m.hold = tenure{}
	m.vacate()
}
