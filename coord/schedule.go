package coord

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/transport"
)

// Up to MaxDirect other hosts are sent heartbeats in every round. In a larger
// cluster the failure detector of package swim judges them, and heartbeats go
// to the holder, the voters, the publisher and fullRandom others, now and then.
// The holder and a voter judge each other by silence all the same: renewals and
// their answers are signs of life, as prompt as the profile is.
const (
	// MaxDirect bounds the hosts that one round of heartbeats goes to; in a
	// larger cluster the voters and the holder come first and the rest in turn.
	MaxDirect = health.MaxDirect
	// A silent host is tried again after retryShare of the time that it has
	// been silent, at most every maxRetry, and for ever: dead is not gone.
	retryShare = 40
	maxRetry   = time.Minute
	// fullEvery is the least time between heartbeats to one of these;
	// fullShare per member keeps what a voter gets within bounds.
	fullEvery  = time.Minute
	fullShare  = 200 * time.Millisecond
	fullRandom = 3
	// voterEvery is the time between a voter's heartbeats to the holder, which
	// hands over only to hosts whose log it knows to be good.
	voterEvery = 10 * time.Second
	// unheardShare per member is the least time between heartbeats to a host
	// that was never heard.
	unheardShare = 500 * time.Millisecond
	// maxUnheard bounds the heartbeats of a round to hosts that the failure
	// detector does not look after: many that start at once must not drown.
	maxUnheard = 16
	// byeRandom is how many hosts beside these are told that this one stops.
	byeRandom = 8
)

// schedule decides to whom this host sends heartbeats, and when.
type schedule struct {
	every   time.Duration // between rounds
	suspect time.Duration // silence after which a host is suspected
	rand    func() float64
	hosts   *hosts
	health  *health.Monitor
	elector *election.Elector
	paths   *transport.Paths
	waiting *introductions

	at       time.Duration // next round
	round    int           // how many were sent; decides who comes first in the next
	fullAt   time.Duration // next heartbeats to the random ones
	kickedAt time.Duration // when all silent hosts were last tried at once
	renewed  time.Duration // when the lease was last renewed here, as holder or voter
}

// begin sets the time of the next round. A tenth of jitter keeps hosts that
// started together apart. Where the lease is renewed, rounds are late instead,
// until renewal brings them forward.
func (c *schedule) begin(now time.Duration) {
	late := c.rand()
	if c.renewed > 0 && now-c.renewed < 2*c.every {
		late = 1
	}
	c.at = now + c.every - c.every/20 + time.Duration(late*float64(c.every/10))
}

// renewal has a round that is due soon go out with a renewal of the lease or with
// its answer, because waking for a packet costs more than what is in it.
func (c *schedule) renewal(now time.Duration) {
	c.renewed = now
	if c.at-now <= c.every/4 {
		c.at = now
	}
}

// targets returns the hosts that this round's heartbeats go to. It allows each
// host the silence that follows from turns and paths.
func (c *schedule) targets(now time.Duration, leaving bool) []cluster.NodeID {
	if c.hosts.removed {
		return nil
	}
	st := c.elector.Status()
	self := c.hosts.self.Node
	var full map[cluster.NodeID]bool
	if c.health.Large() {
		full = c.full(now, leaving)
	}
	settling := c.health.Settling(now)
	var first, rest []cluster.NodeID
	others := 0 // that would be in rest if all lived
	for _, m := range c.hosts.members {
		if m.Node == self {
			continue
		}
		if full != nil && c.health.Probes(m.Node) && (leaving || !settling) {
			if full[m.Node] {
				first = append(first, m.Node)
			}
			continue
		}
		// Far down in a large cluster a host learns who holds from that host's
		// own heartbeats only.
		p := c.hosts.peers[m.Node]
		important := m.Node == st.Holder || st.Config.Has(m.Node) || p.holds() != 0
		if !important {
			others++
		}
		switch {
		case now-p.sentAt < c.retryPause(p, now):
		case important:
			first = append(first, m.Node)
		case full != nil && c.waiting.queued[m.Node] && !leaving: // its introduction is a heartbeat
		default:
			rest = append(rest, m.Node)
		}
	}
	room := max(1, MaxDirect-len(first))
	if full != nil && !settling {
		room = min(room, c.health.Slower(maxUnheard))
	}
	if len(rest) > room {
		start := c.round * room % len(rest)
		rest = append(rest[start:], rest[:start]...)[:room]
	}
	// Hosts are heard in turn too. Only holder and voters hear each other in
	// every round for certain.
	turns := max(1, (others+room-1)/room)
	slack := time.Duration(turns-1) * 2 * c.every
	if settling {
		slack = max(slack, health.SettleFor)
	}
	core := func(n cluster.NodeID) bool { return n == st.Holder || st.Config.Has(n) }
	for _, m := range c.hosts.members {
		if core(m.Node) && core(self) {
			c.health.SetSlack(m.Node, c.paths.Slack(m.Node))
		} else {
			c.health.SetSlack(m.Node, slack+c.paths.Slack(m.Node))
		}
	}
	return append(first, rest...)
}

// full lists the hosts that get a heartbeat in this round although the failure
// detector looks after them.
func (c *schedule) full(now time.Duration, leaving bool) map[cluster.NodeID]bool {
	out := make(map[cluster.NodeID]bool)
	st, self, members := c.elector.Status(), c.hosts.self.Node, c.hosts.members
	every := max(fullEvery, time.Duration(len(members))*fullShare, 3*c.every)
	random := 0
	switch {
	case leaving:
		random = byeRandom
	case now >= c.fullAt:
		random = fullRandom
		c.fullAt = now + every - every/20 + time.Duration(c.rand()*float64(every/10))
	}
	for node, p := range c.hosts.peers {
		wait := every*3/4 + time.Duration(c.rand()*float64(every/2)) // so that hosts do not go together
		if node == st.Holder && st.Config.Has(self) {
			wait = voterEvery
		}
		if (node == st.Holder || node == st.Publisher || st.Config.Has(node)) && (leaving || now-p.sentAt >= wait) {
			out[node] = true
		}
	}
	for range random {
		if m := members[int(c.rand()*float64(len(members)))%len(members)]; m.Node != self && c.health.Of(m.Node) == cluster.Alive {
			out[m.Node] = true
		}
	}
	return out
}

// retryPause is how long this host waits between heartbeats to p: not at all
// beyond the usual while it is heard, ever longer while it is silent.
func (c *schedule) retryPause(p *peerState, now time.Duration) time.Duration {
	pause := min((now-p.lastSign(c.health))/retryShare, maxRetry)
	if _, heard := c.health.LastHeard(p.node); !heard && c.health.Large() && now-p.since > health.SettleFor {
		// Whoever is there has said so by now; the others may be many.
		pause = max(pause, time.Duration(len(c.hosts.members))*unheardShare)
	}
	if pause <= c.every {
		return 0
	}
	return pause - c.every/2 // rounds come with jitter
}

// retrySilent has every silent host tried at once: one of them was heard again,
// so the network is probably back.
func (c *schedule) retrySilent(now time.Duration) {
	if now-c.kickedAt < 10*time.Second && c.kickedAt != 0 {
		return
	}
	c.kickedAt = now
	for _, p := range c.hosts.peers {
		if now-p.lastSign(c.health) > c.suspect {
			p.sentAt = 0
		}
	}
	c.at = min(c.at, now)
}

// audience lists the living hosts to which news goes at once: all, or in a large
// cluster those that hold or publish. The rest learn from heartbeats.
func (c *schedule) audience() []cluster.NodeID {
	st := c.elector.Status()
	var out []cluster.NodeID
	for _, m := range c.hosts.members {
		p := c.hosts.peers[m.Node]
		if p == nil || c.health.Of(m.Node) != cluster.Alive {
			continue
		}
		if len(c.hosts.members) <= MaxDirect || m.Node == st.Holder || m.Node == st.Publisher || p.beat.Role == cluster.RolePublisher {
			out = append(out, m.Node)
		}
	}
	return out
}

// reach lists the hosts that news of membership is pushed to; all others pull.
func (c *schedule) reach(now time.Duration) []cluster.NodeID {
	if !c.health.Large() {
		return c.targets(now, false)
	}
	members := c.hosts.members
	out := make([]cluster.NodeID, 0, byeRandom)
	for i := 0; i < len(members) && len(out) < byeRandom; i++ {
		if m := members[(c.round*byeRandom+i)%len(members)]; m.Node != c.hosts.self.Node {
			out = append(out, m.Node)
		}
	}
	return out
}
