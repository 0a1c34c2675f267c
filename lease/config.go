package lease

import (
	"slices"

	"github.com/skein-project/skein/cluster"
)

// issue makes the newest record one of this term with the given voters. It
// is pending until settle finds it stable.
func (m *machine) issue(voters []cluster.NodeID, mode cluster.Mode) {
	t := &m.hold
	m.vote.Config = cluster.VoterConfig{Epoch: m.vote.Config.Epoch + 1, Term: t.term, Voters: voters, Mode: mode}
	t.stable = false
	var acks [maxAcks]ack
	n := 0
	keep := func(v cluster.NodeID) {
		a := ack{node: v}
		if old := m.ackOf(v); old != nil {
			a = *old
		}
		if v == m.self {
			a.epoch = m.vote.Config.Epoch
		}
		acks[n] = a
		n++
	}
	for _, v := range voters {
		keep(v)
	}
	for _, v := range t.base.Voters {
		if !slices.Contains(voters, v) {
			keep(v)
		}
	}
	t.acks, t.nacks = acks, n
	m.persist()
}

// settle makes the pending record stable once it is persisted by enough of
// the old and of the new voters.
func (m *machine) settle() {
	t := &m.hold
	if t.stable || !m.persisted(&t.base) || !m.persisted(&m.vote.Config) {
		return
	}
	t.stable, t.base = true, m.vote.Config
	m.do(ConfigStable{Term: t.term, Config: t.base})
}

// persisted reports whether enough voters of c have the newest record: a
// majority, or in available mode all that did not leave for good, since there
// no majority keeps the other side from acting on an older one.
func (m *machine) persisted(c *cluster.VoterConfig) bool {
	have, need := 0, c.Majority()
	if c.Mode == cluster.ModeAvailable {
		need = len(c.Voters)
	}
	for _, v := range c.Voters {
		if a := m.ackOf(v); a != nil && a.epoch == m.vote.Config.Epoch {
			have++
			continue
		}
		if p := m.lookup(v); c.Mode == cluster.ModeAvailable && p != nil && p.Gone {
			have++
		}
	}
	return have >= need
}

// reconfigure issues the next change of voters or mode, if one is wanted and
// nothing is pending: at most one voter, or the mode of the same two.
func (m *machine) reconfigure() {
	t := &m.hold
	if !t.ready || !t.stable || t.readyEpoch < m.vote.Config.Epoch {
		return
	}
	voters, mode := m.wanted()
	cur := &m.vote.Config
	if mode == cur.Mode && slices.Equal(voters, cur.Voters) {
		return
	}
	m.issue(voters, mode)
	m.renew()
	m.settle()
}

// wanted returns the next configuration. Voters that left for good go first,
// then alive hosts come in, best first. Two voters in available mode change to
// quorum before a third comes: were both done at once, one voter and the third
// could elect a holder while the other, not having heard, acts alone.
func (m *machine) wanted() ([]cluster.NodeID, cluster.Mode) {
	cur := &m.vote.Config
	for i, v := range cur.Voters {
		if p := m.lookup(v); p != nil && p.Gone {
			rest := slices.Delete(slices.Clone(cur.Voters), i, i+1)
			if len(rest) == 2 {
				return rest, cluster.ModeQuorum
			}
			return rest, m.modeOf(len(rest))
		}
	}
	add := m.newcomer()
	switch {
	case add == "" && len(cur.Voters) == 2:
		return cur.Voters, m.modeOf(2)
	case add == "":
		return cur.Voters, cur.Mode
	case len(cur.Voters) == 2 && cur.Mode != cluster.ModeQuorum:
		return cur.Voters, cluster.ModeQuorum
	}
	i, _ := slices.BinarySearch(cur.Voters, add)
	voters := slices.Insert(slices.Clone(cur.Voters), i, add)
	return voters, m.modeOf(len(voters))
}

// newcomer is this host itself if it holds without being a voter, else the
// best alive host that is no voter yet.
func (m *machine) newcomer() cluster.NodeID {
	switch {
	case len(m.vote.Config.Voters) >= cluster.MaxVoters:
		return ""
	case !m.vote.Config.Has(m.self):
		return m.self
	}
	var best *peer
	for i := range m.peers {
		p := &m.peers[i]
		if p.Alive && p.CaughtUp && !p.Gone && !m.vote.Config.Has(p.Node) &&
			(best == nil || better(p.Priority, p.Node, best.Priority, best.Node)) {
			best = p
		}
	}
	if best == nil {
		return ""
	}
	return best.Node
}

func (m *machine) modeOf(n int) cluster.Mode {
	if n == 2 && m.setting == cluster.ModeQuorum {
		return cluster.ModeQuorum
	}
	return cluster.AutoMode(n)
}
