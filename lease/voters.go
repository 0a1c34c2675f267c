package lease

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// target returns who shall vote: goal is what the record holds on to, whoever
// is there; all has the newcomer as well that the holder would take now. Both
// are sorted. An operator's choice is followed as it is. Else voters stay:
// only one that left for good goes, one that was silent for Timing.Replace
// gives its place to another, and one of a zone with too many to one of
// another zone.
func (m *machine) target() (goal, all []cluster.NodeID) {
	cur := &m.vote.Config
	goal = slices.DeleteFunc(slices.Clone(cur.Wanted()), m.isGone)
	if len(goal) == 0 {
		goal = slices.DeleteFunc(slices.Clone(cur.Voters), m.isGone)
	}
	if cur.Pinned || len(goal) == 0 {
		return goal, goal
	}
	limit := m.limit()
	if len(goal) < limit {
		if v := m.pick(goal, limit); v != "" {
			return goal, with(goal, v)
		}
		return goal, goal
	}
	if out, in := m.exchange(goal, limit); in != "" {
		goal = with(without(goal, out), in)
	}
	return goal, goal
}

func (m *machine) isGone(n cluster.NodeID) bool {
	p := m.lookup(n)
	return p != nil && p.Gone
}

// hosts is how many hosts the cluster has, as far as this one knows.
func (m *machine) hosts() int {
	n := 1
	for i := range m.peers {
		if !m.peers[i].Gone {
			n++
		}
	}
	return max(n, m.members)
}

// limit is how many voters the holder chooses.
func (m *machine) limit() int {
	switch {
	case m.maxVoters > 0:
		return m.maxVoters
	case m.hosts() <= cluster.MaxVoters:
		return cluster.MaxVoters
	}
	return DefaultVoters
}

// admissible reports whether p can become a voter now.
func (m *machine) admissible(p *peer) bool {
	return p.ready() && !p.Abstains && !m.lostLately(p)
}

// fewVoters are so few that any host is welcome as another.
const fewVoters = 3

// pick returns the best host that may join voters, this one if it holds
// without being a voter, empty if there is none. Where there is a choice its
// zone must have room, and once there are a few voters it must have been there
// for a while.
func (m *machine) pick(voters []cluster.NodeID, limit int) cluster.NodeID {
	choice := m.hosts() > limit
	if !choice && !slices.Contains(voters, m.self) {
		return m.self
	}
	var z zones
	if choice {
		z = m.zones(voters, limit)
	}
	var best *peer
	for i := range m.peers {
		p := &m.peers[i]
		if !m.admissible(p) || slices.Contains(voters, p.Node) || (choice && z.voters[p.Zone] >= z.room) {
			continue
		}
		if choice && len(voters) >= fewVoters && m.now < p.up+m.timing.PreemptDelay {
			continue
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

// zones says how voters are spread.
type zones struct {
	voters map[string]int // by zone
	count  int            // zones that have a host that votes or could
	room   int            // how many voters a zone may have
}

// zones counts. With three zones and more none may have a majority, with two
// they are to be as even as can be.
func (m *machine) zones(voters []cluster.NodeID, limit int) zones {
	z := zones{voters: map[string]int{}, room: limit}
	seen := map[string]bool{}
	for _, v := range voters {
		zone := m.zoneOf(v)
		z.voters[zone]++
		seen[zone] = true
	}
	for i := range m.peers {
		if p := &m.peers[i]; m.admissible(p) {
			seen[p.Zone] = true
		}
	}
	switch z.count = len(seen); {
	case z.count >= 3:
		z.room = max(1, limit/2)
	case z.count == 2:
		z.room = (limit + 1) / 2
	}
	return z
}

func (m *machine) zoneOf(n cluster.NodeID) string {
	if n == m.self {
		return m.zone
	}
	if p := m.lookup(n); p != nil {
		return p.Zone
	}
	return ""
}

// exchange returns a voter that is to give its place to another host, one for
// one; in is empty if there is none. A voter that is alive keeps its place
// unless its zone has too many.
func (m *machine) exchange(voters []cluster.NodeID, limit int) (out, in cluster.NodeID) {
	if len(m.vote.Config.Target) > 0 {
		return m.substitute(voters, limit)
	}
	if m.hosts() <= len(voters) {
		return "", ""
	}
	for _, v := range voters {
		if v != m.self && m.now >= m.silentSince(v)+m.timing.Replace {
			if in = m.pick(without(voters, v), len(voters)); in != "" {
				return v, in
			}
		}
	}
	z := m.zones(voters, len(voters))
	out = m.surplus(voters, &z)
	if out == "" {
		return "", ""
	}
	rest := without(voters, out)
	in = m.pick(rest, len(voters))
	if in == "" || z.voters[m.zoneOf(in)]+1 >= z.voters[m.zoneOf(out)] {
		return "", "" // no better than before
	}
	return out, in
}

// substitute finds another host for one that was to become a voter and went
// away before it did.
func (m *machine) substitute(goal []cluster.NodeID, limit int) (out, in cluster.NodeID) {
	for _, v := range goal {
		if v == m.self || m.vote.Config.Has(v) || m.now < m.silentSince(v)+m.timing.PreemptDelay {
			continue
		}
		rest := without(goal, v)
		for _, c := range m.vote.Config.Voters {
			if !slices.Contains(rest, c) {
				rest = with(rest, c)
			}
		}
		if in = m.pick(rest, max(limit, len(rest))); in != "" {
			return v, in
		}
	}
	return "", ""
}

// surplus returns the worst voter of a zone that has too many, empty if none
// has.
func (m *machine) surplus(voters []cluster.NodeID, z *zones) cluster.NodeID {
	var worst *peer
	for _, v := range voters {
		p := m.lookup(v)
		if p == nil || z.voters[p.Zone] <= z.room {
			continue
		}
		if worst == nil || better(worst.Priority, worst.Node, p.Priority, p.Node) {
			worst = p
		}
	}
	if worst == nil {
		return ""
	}
	return worst.Node
}

// silentSince is since when n was not there, now if it is; a host that this
// holder never heard was not there all its tenure.
func (m *machine) silentSince(n cluster.NodeID) time.Duration {
	p := m.lookup(n)
	switch {
	case p == nil:
		return m.hold.since
	case p.Alive:
		return m.now
	}
	return p.down
}

// leaver returns the voter to take out next: one that left for good, one that
// lost its vote record, then of those that are not wanted one that is not
// there, and one that is there only once all that are wanted have come.
func (m *machine) leaver(all []cluster.NodeID) cluster.NodeID {
	cur := &m.vote.Config
	for _, v := range cur.Voters {
		if m.isGone(v) {
			return v
		}
	}
	if len(cur.Voters) == 1 {
		return ""
	}
	complete := true
	for _, v := range all {
		complete = complete && cur.Has(v)
	}
	for _, v := range cur.Voters {
		if p := m.lookup(v); p != nil && m.lostLately(p) {
			return v
		}
	}
	var out cluster.NodeID
	for _, v := range cur.Voters {
		if slices.Contains(all, v) {
			continue
		}
		p := m.lookup(v)
		switch {
		case v != m.self && (p == nil || !p.Alive):
			return v
		case !complete && len(cur.Voters) < cluster.MaxVoters:
		case v == m.self && out != "":
		default:
			out = v
		}
	}
	return out
}

// joiner returns the best wanted host that is no voter yet and can become one.
func (m *machine) joiner(all []cluster.NodeID) cluster.NodeID {
	var best *peer
	for _, v := range all {
		if m.vote.Config.Has(v) {
			continue
		}
		if v == m.self {
			return v
		}
		p := m.lookup(v)
		if p != nil && m.admissible(p) && (best == nil || better(p.Priority, p.Node, best.Priority, best.Node)) {
			best = p
		}
	}
	if best == nil {
		return ""
	}
	return best.Node
}
