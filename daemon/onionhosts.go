package daemon

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// keeper is a living host that could publish an address at once.
type keeper struct {
	node     cluster.NodeID
	priority uint32
}

// publishes decides whether self publishes an address: it has the publishing
// duty and the key, or whoever has the duty is known to lack the key and self is
// the best of those that have it. That two do it who know the points of all hosts
// is harmless, that nobody does is not.
func publishes(self cluster.NodeID, d lease.Duty, keepers []keeper, known bool) bool {
	has := func(n cluster.NodeID) bool {
		return slices.ContainsFunc(keepers, func(k keeper) bool { return k.node == n })
	}
	switch {
	case !has(self):
		return false
	case d.Publishing:
		return true
	case !known || d.Publisher == "" || has(d.Publisher):
		return false
	}
	best := slices.MinFunc(keepers, func(a, b keeper) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.node, b.node))
	})
	return best.node == self
}

// publishTerm is the term under which self publishes or would: that of its own
// lease, which a majority granted, or the last one in the log. The term that
// another host says to hold counts for nothing until it is in the log.
func publishTerm(d lease.Duty, self cluster.NodeID, logged cluster.Term) cluster.Term {
	if d.ByLease && d.Publisher == self {
		logged = max(logged, d.Term)
	}
	return min(logged, descriptor.MaxRevisionTerm)
}

// heard is what a host said of its share.
type heard struct {
	first *byte // of its first piece: pieces are replaced, never changed
	count int
	share publisher.Share
	err   error
}

// shares reads what the hosts say; one that cannot be read leaves what the host
// said before. The loop of onions owns it.
type shares struct{ hosts map[cluster.NodeID]*heard }

func newShares() *shares { return &shares{hosts: map[cluster.NodeID]*heard{}} }

// look takes in a view and returns what is refused, each once.
func (s *shares) look(v *coord.View) (refused []publisher.Refused) {
	members := map[cluster.NodeID]bool{}
	for _, m := range v.Members {
		members[m.Node] = true
		pieces := m.IntroPoints.Points
		h := s.hosts[m.Node]
		if len(pieces) == 0 || len(pieces[0]) == 0 {
			if h != nil && m.Health != cluster.Dead {
				delete(s.hosts, m.Node) // it says that it has none
			}
			continue
		}
		if h != nil && h.first == &pieces[0][0] && h.count == len(pieces) {
			continue
		}
		if h == nil {
			h = &heard{}
			s.hosts[m.Node] = h
		}
		h.first, h.count = &pieces[0][0], len(pieces)
		share, err := publisher.DecodeShare(m.Node, pieces)
		if h.err = err; err != nil {
			refused = append(refused, publisher.Refused{Node: m.Node, Err: fmt.Errorf("share of %s: %w", m.Node, err)})
			continue
		}
		h.share = share
	}
	maps.DeleteFunc(s.hosts, func(n cluster.NodeID, _ *heard) bool { return !members[n] })
	return refused
}

// knows reports whether this host ever read a share of another one, or knows that
// it has none.
func (s *shares) knows(v *coord.View, node cluster.NodeID) bool {
	m, ok := v.Member(node)
	return ok && (m.IntroPoints.Known || s.hosts[node] != nil)
}

// unreadTime is how long a share that cannot be read keeps its host's place as
// the publisher.
const unreadTime = time.Minute

// unread is a publisher whose share was not read yet.
type unread struct {
	node  cluster.NodeID
	since time.Time
}

// knows reports whether this host may judge by its share if another one has a
// key. In a large cluster it reads few, and would publish the points of few.
func (o *onions) knows(v *coord.View, node cluster.NodeID) bool {
	switch {
	case len(v.Members) > coord.MaxDirect:
		return false
	case o.shares.knows(v, node):
		o.unread = unread{}
		return true
	case o.unread.node != node:
		o.unread = unread{node, time.Now()}
	}
	return time.Since(o.unread.since) >= unreadTime
}

// keepers are the hosts that could publish an address.
func (s *shares) keepers(v *coord.View, a descriptor.Address) (list []keeper) {
	for _, m := range v.Members {
		h := s.hosts[m.Node]
		if h != nil && (m.Health == cluster.Alive || m.Health == cluster.Suspect) && slices.Contains(h.share.Keys, a) {
			list = append(list, keeper{m.Node, m.Priority})
		}
	}
	return list
}

// serving are the hosts whose points belong in the descriptor of a master
// address: those that answer for it and are alive, or suspected and reached
// behind their onion. Digest names the list.
func (s *shares) serving(v *coord.View, master descriptor.Address, answers func(cluster.NodeID, descriptor.Address) bool) (hosts []publisher.Host, digest string) {
	var sum []byte
	for _, m := range v.Members {
		h := s.hosts[m.Node]
		if h == nil || h.share.Address.IsZero() || len(h.share.Text) == 0 || !slices.Contains(h.share.Serves, master) {
			continue
		}
		switch {
		case m.Node == v.Self || m.Health == cluster.Alive:
		case m.Health == cluster.Suspect && answers(m.Node, h.share.Address):
		default:
			continue
		}
		relays := h.share.Relays
		if relays == nil {
			relays = []descriptor.Fingerprint{}
		}
		hosts = append(hosts, publisher.Host{Node: m.Node, Address: h.share.Address, Weight: h.share.Weight, Text: h.share.Text, Relays: relays})
		sum = append(append(sum, m.Node...), 0)
		sum = binary.BigEndian.AppendUint32(sum, h.share.Weight)
		sum = append(sum, h.share.Address[:]...)
		for _, r := range relays {
			sum = append(sum, r[:]...)
		}
		sum = fmt.Appendf(sum, "%p", h.first)
	}
	return hosts, string(sum)
}

// Times of asking a suspected host behind its onion.
const (
	probeTime      = 15 * time.Second
	probeTimeTest  = 2 * time.Second // in a network with test timings
	probeEvery     = 10 * time.Second
	maxProbes      = 32 // at once
	probeIsolation = "probe-"
)

// probed is what is known of a suspected host.
type probed struct {
	running bool
	ok      bool
	at      time.Duration // of the answer; 0: none yet
}
