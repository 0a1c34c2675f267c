package lease

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// successor picks who takes over: to if it is able, else the best voter that
// is; empty if there is none.
func (m *machine) successor(to cluster.NodeID) cluster.NodeID {
	var best *peer
	for i := range m.peers {
		p := &m.peers[i]
		if !m.mayFollow(p) {
			continue
		}
		if p.Node == to {
			return to
		}
		if best == nil || better(p.Priority, p.Node, best.Priority, best.Node) {
			best = p
		}
	}
	if best == nil {
		return ""
	}
	return best.Node
}

// mayFollow reports whether p can take over at once: it is able, and a voter
// that need not first hear so.
func (s *State) mayFollow(p *peer) bool {
	return p.able() && s.vote.Config.Has(p.Node) && (s.hold.stable || s.hold.base.Has(p.Node))
}

// stepDown begins a handover: the shell stops issuing, then the release goes
// out, at the latest after Quiesce.
func (m *machine) stepDown(to cluster.NodeID, reason string) {
	switch m.phase {
	case holding:
		t := &m.hold
		t.successor, t.reason = m.successor(to), reason
		t.quiesceBy = m.now + m.timing.Quiesce
		m.phase = quiescing
		m.do(Quiesce{Term: t.term, Successor: t.successor, Reason: reason})
	case preVoting, voting:
		m.abort()
		m.pause(m.timing.Abstain)
	}
}

// release ends the tenure and says so twice, since a lost datagram would cost
// the others a whole lease of waiting.
func (m *machine) release() {
	t := m.hold
	rel := &Release{Term: t.term, Holder: m.self, Successor: t.successor}
	var to []cluster.NodeID
	m.everyone(func(n cluster.NodeID) {
		if n == t.successor { // it waits for this
			to = slices.Insert(to, 0, n)
			return
		}
		to = append(to, n)
	})
	m.lose(t.reason, t.successor)
	for range 2 {
		for _, n := range to {
			m.send(n, Message{Phase: ReleaseTerm, Term: t.term, Successor: t.successor, Released: rel})
		}
	}
	m.released, m.releaseAt = *rel, m.now
	m.standFrom = max(m.standFrom, m.now+m.timing.Abstain)
}

// preemptor returns the better host to hand over to, and when. The delay
// grows with every tenure that the host lost by crashing.
func (s *State) preemptor() (cluster.NodeID, time.Duration) {
	// In available mode a record waits for every voter, which may be long.
	if s.phase != holding || !s.hold.ready || (!s.hold.stable && !s.available()) {
		return "", 0
	}
	var best *peer
	for i := range s.peers {
		p := &s.peers[i]
		if s.mayFollow(p) && better(p.Priority, p.Node, s.priority, s.self) &&
			(best == nil || better(p.Priority, p.Node, best.Priority, best.Node)) {
			best = p
		}
	}
	if best == nil {
		return "", 0
	}
	delay := s.timing.PreemptDelay
	if s.now-best.lastLoss <= s.timing.LossWindow {
		for range best.losses {
			delay = min(2*delay, s.timing.PreemptCap)
		}
	}
	return best.Node, max(best.since+delay, s.hold.since+s.timing.MinTenure)
}
