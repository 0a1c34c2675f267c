package descriptor

import (
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// Candidate is what a host has to offer.
type Candidate struct {
	Node cluster.NodeID
	// Weight is its share of the points relative to others; 0 is a host that
	// is drained, of which nothing is taken.
	Weight uint32
	Points []Point
}

// Pick is the choice of points for one descriptor.
type Pick struct {
	Points []Point
	Nodes  []cluster.NodeID // Nodes[i] has Points[i]
}

// Count returns how many points of a host were chosen.
func (p Pick) Count(node cluster.NodeID) (n int) {
	for _, x := range p.Nodes {
		if x == node {
			n++
		}
	}
	return n
}

// Wanted returns how many descriptors with different points serve the hosts
// best, if there are up to dirs directories: one if all points fit in it.
func Wanted(hosts []Candidate, dirs int) int {
	m := newMerge(hosts, newStream([32]byte{}, "wanted"))
	m.fill(MaxPoints + 1)
	if m.taken <= MaxPoints {
		return 1
	}
	return max(dirs, 1)
}

// Merge chooses the points of n descriptors: in each at most MaxPoints, at most
// one per relay, one of as many hosts as possible, and beyond that shares by
// weight, over all n together. With up to 20 hosts each is in all of them, with
// up to 40 in half of them or more, as far as their relays are different. The
// seed decides what is left open. Hosts must have different names.
func Merge(hosts []Candidate, n int, seed [32]byte) []Pick {
	random := newStream(seed, "merge")
	m := newMerge(hosts, random)
	picks := make([]Pick, 0, max(n, 0))
	for range n {
		m.reset(random)
		m.fill(MaxPoints)
		picks = append(picks, m.pick())
	}
	return picks
}

// merge matches relays with hosts. A host can have one more point exactly if
// there is an alternating path from it to a relay that nobody has: it takes a
// relay from another host, which takes another one instead. So what is taken
// greedily, smallest share first, is never given back, and a host that cannot
// grow never can again; the shares that result are as even as any.
type merge struct {
	hosts []*share
	owner map[Fingerprint]*share
	taken int
}

// share is the part of one host.
type share struct {
	node   cluster.NodeID
	weight uint64
	points []Point // one per relay
	total  uint64  // in all descriptors so far
	count  int     // in this one
	full   bool    // cannot grow in this one
}

func newMerge(hosts []Candidate, random stream) *merge {
	m := &merge{owner: map[Fingerprint]*share{}}
	for _, h := range hosts {
		if h.Weight == 0 {
			continue
		}
		s := &share{node: h.Node, weight: uint64(h.Weight)}
		for _, p := range h.Points {
			if !slices.ContainsFunc(s.points, func(q Point) bool { return q.Relay == p.Relay }) {
				s.points = append(s.points, p)
			}
		}
		m.hosts = append(m.hosts, s)
	}
	// The order of the input must not matter.
	slices.SortStableFunc(m.hosts, func(a, b *share) int { return strings.Compare(string(a.node), string(b.node)) })
	m.hosts = shuffled(random, m.hosts)
	return m
}

// reset begins another descriptor with the relays in another order.
func (m *merge) reset(random stream) {
	clear(m.owner)
	m.taken = 0
	for _, s := range m.hosts {
		s.count, s.full = 0, false
		s.points = shuffled(random, s.points)
	}
}

func (m *merge) fill(limit int) {
	for m.taken < limit {
		s := m.smallest()
		if s == nil {
			return
		}
		if !m.grow(s, map[Fingerprint]bool{}) {
			s.full = true
			continue
		}
		s.count++
		s.total++
		m.taken++
	}
}

// smallest returns the host that has the next claim: one without a point in
// this descriptor, then the one with the smallest share.
func (m *merge) smallest() (best *share) {
	for _, s := range m.hosts {
		if !s.full && (best == nil || s.before(best)) {
			best = s
		}
	}
	return best
}

// before compares the shares as they would be halfway to the next point, which
// favours neither light hosts nor heavy ones.
func (s *share) before(o *share) bool {
	if (s.count == 0) != (o.count == 0) {
		return s.count == 0
	}
	return (2*s.total+1)*o.weight < (2*o.total+1)*s.weight
}

func (m *merge) grow(s *share, seen map[Fingerprint]bool) bool {
	for _, p := range s.points {
		if m.owner[p.Relay] == nil {
			m.owner[p.Relay] = s
			return true
		}
	}
	for _, p := range s.points {
		if o := m.owner[p.Relay]; o != s && !seen[p.Relay] {
			seen[p.Relay] = true
			if m.grow(o, seen) {
				m.owner[p.Relay] = s
				return true
			}
		}
	}
	return false
}

func (m *merge) pick() (p Pick) {
	for _, s := range m.hosts {
		for _, pt := range s.points {
			if m.owner[pt.Relay] == s {
				p.Points = append(p.Points, pt)
				p.Nodes = append(p.Nodes, s.node)
			}
		}
	}
	return p
}
