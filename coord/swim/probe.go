package swim

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// purpose is why a host is probed.
type purpose uint8

const (
	probeTurn  purpose = iota // its turn
	probeMore                 // the one before it was not answered
	probeAgain                // it is suspected here, or the shell asked
	probeRetry                // it failed
)

// A probe is tried four times, each half a Timeout after the one before; with
// the third, others are asked to help. What is far has as much longer as the way there
// and back usually takes, and those who help the way to them as well.
const (
	helpStage = 2
	lastStage = 3
)

// probe is one that waits for an answer.
type probe struct {
	n       uint64
	target  *peer
	why     purpose
	sent    time.Duration
	due     time.Duration
	stage   uint8 // tries so far, less one
	helpers []cluster.NodeID
	nacked  []cluster.NodeID
}

// relay is a probe for another host.
type relay struct {
	from   cluster.NodeID
	theirs uint64
	n      uint64
	target cluster.NodeID
	due    time.Duration
	nacked bool
}

// due does what time asks for.
func (c *Core) due() {
	c.dueRelays()
	if !c.active {
		return
	}
	c.dueProbes()
	c.expire()
	if !c.alone && len(c.list) > 0 && c.now >= c.heardAny+c.t.Alone {
		c.abandon()
	}
	if c.now >= c.nextAt {
		c.period()
	}
	if c.failed > 0 && c.now >= c.retryAt {
		c.retry()
	}
	c.push()
}

// period probes the next host, and those that this host suspects.
func (c *Core) period() {
	c.census()
	c.nextAt = c.now + c.scaled(c.t.Period)
	c.probeNext(probeTurn)
	for _, d := range c.suspects {
		if p := d.peer; p.own && p.state == Suspect && c.now >= p.again && !c.probing(p) && c.countAgain() < maxAgain {
			p.again = c.now + c.t.Period
			c.probe(p, probeAgain)
		}
	}
}

func (c *Core) countAgain() int {
	n := 0
	for i := range c.probes {
		if c.probes[i].why == probeAgain {
			n++
		}
	}
	return n
}

// probeNext probes whose turn it is.
func (c *Core) probeNext(why purpose) {
	for range 2*len(c.list) + 2 {
		if c.at >= len(c.ring) {
			c.shuffle()
		}
		if len(c.ring) == 0 {
			return
		}
		p := c.ring[c.at]
		c.at++
		if c.peers[p.node] == p && p.state < Failed && !c.probing(p) {
			c.probe(p, why)
			return
		}
	}
}

// shuffle begins a new turn.
func (c *Core) shuffle() {
	c.ring = append(c.ring[:0], c.list...)
	for i := len(c.ring) - 1; i > 0; i-- {
		j := c.below(i + 1)
		c.ring[i], c.ring[j] = c.ring[j], c.ring[i]
	}
	c.at = 0
}

// retry tries one failed host again.
func (c *Core) retry() {
	c.retryAt = c.now + c.t.Retry
	if c.now < c.fastTill {
		c.retryAt = c.now + fastPeriod
	}
	skip := c.below(c.failed)
	for _, p := range c.list {
		if p.state < Failed {
			continue
		}
		if skip == 0 {
			if !c.probing(p) {
				c.probe(p, probeRetry)
			}
			return
		}
		skip--
	}
}

func (c *Core) probing(p *peer) bool {
	return slices.ContainsFunc(c.probes, func(o probe) bool { return o.target == p })
}

func (c *Core) probe(p *peer, why purpose) {
	if len(c.probes) >= maxProbes {
		return
	}
	c.n++
	c.stats.Probes++
	c.probes = append(c.probes, probe{n: c.n, target: p, why: why, sent: c.now, due: c.now + c.scaled(c.t.Timeout/2) + p.trip})
	c.sendProbe(&c.probes[len(c.probes)-1])
}

// sendProbe keeps news for hosts that are likely to get them.
func (c *Core) sendProbe(pr *probe) {
	m := Message{Kind: Probe, N: pr.n}
	if pr.why == probeTurn && pr.stage == 0 {
		c.send(pr.target.node, m)
	} else {
		c.sendBare(pr.target.node, m)
	}
}

// dueProbes looks at the probes that were not answered in time.
func (c *Core) dueProbes() {
	for i := 0; i < len(c.probes); {
		pr := &c.probes[i]
		if c.now < pr.due {
			i++
			continue
		}
		if pr.stage < lastStage && pr.target.confirmed && pr.why != probeRetry {
			c.tryAgain(pr)
			i++
			continue
		}
		done := *pr
		c.probes = slices.Delete(c.probes, i, i+1)
		if done.stage == lastStage {
			c.unanswered(&done)
		}
	}
}

// tryAgain repeats a probe; halfway it asks others to help.
func (c *Core) tryAgain(pr *probe) {
	pr.stage++
	pr.due += c.scaled(c.t.Timeout / 2)
	c.sendProbe(pr)
	if pr.stage != helpStage {
		return
	}
	c.stats.Indirect++
	pr.helpers = c.some(helpers, pr.target)
	for _, h := range pr.helpers {
		c.send(h, Message{Kind: PingReq, N: pr.n, Target: pr.target.node})
	}
	pr.due += pr.target.trip + c.farthest(pr.helpers)
}

// farthest is how long the way to the farthest of some hosts and back usually takes.
func (c *Core) farthest(hosts []cluster.NodeID) (trip time.Duration) {
	for _, n := range hosts {
		trip = max(trip, c.peers[n].trip)
	}
	return trip
}

// maxTrip bounds what a host may make others wait for it.
const maxTrip = 2 * time.Second

// measured takes a round trip to a host.
func (p *peer) measured(trip time.Duration) {
	if trip = min(trip, maxTrip); p.trip > 0 {
		trip = (7*p.trip + trip) / 8
	}
	p.trip = trip
}

// unanswered judges a probe that nobody answered.
func (c *Core) unanswered(pr *probe) {
	c.stats.Unanswered++
	p := pr.target
	if len(pr.helpers) > len(pr.nacked) {
		c.blame(1) // it is not only the target that this host does not hear
	}
	if p.heard > pr.sent || p.state >= Failed {
		return // it lives, or it is known
	}
	// While no helper answers, this host itself may be the one that is cut off.
	p.private = len(pr.nacked) == 0 && len(pr.helpers) > 0 && (p.state != Suspect || p.private)
	c.suspect(p, append([]cluster.NodeID{c.me.node}, pr.nacked...), 0, pr.sent, true)
	if (pr.why == probeTurn || pr.why == probeMore) && len(c.probes) < maxProbes*2/3 {
		// Many may be gone: each one that is found makes this host look faster.
		c.probeNext(probeMore)
	}
}

// some returns up to n hosts that seem well, but not.
func (c *Core) some(n int, not *peer) []cluster.NodeID {
	var out []cluster.NodeID
	if len(c.list) == 0 {
		return nil
	}
	for range 8 * n {
		p := c.list[c.below(len(c.list))]
		if p == not || !p.confirmed || p.state != Alive || slices.Contains(out, p.node) {
			continue
		}
		if out = append(out, p.node); len(out) == n {
			break
		}
	}
	return out
}

// abandon takes all others as failed: this host hears nobody.
func (c *Core) abandon() {
	c.alone = true
	for _, p := range c.list {
		if p.confirmed && p.state < Failed {
			p.private = true
			c.end(p, Failed, max(p.heard, c.heardAny))
		}
	}
}

// receive handles a message of another host.
func (c *Core) receive(e *Receive) {
	p := c.peers[e.From]
	if p == nil {
		return
	}
	m := &e.Msg
	c.heard(p, e.Boot, m.Inc, m.Ineligible, true, c.answers(p, m))
	switch m.Kind {
	case Probe:
		c.send(e.From, Message{Kind: Ack, N: m.N})
	case PingReq:
		c.onPingReq(p, m)
	case Ack:
		c.onAck(p, m)
	case Nack:
		c.onNack(p, m)
	case Gossip:
	}
	for i := range m.Deltas {
		c.learn(&m.Deltas[i])
	}
}

// answers reports whether m answers a probe of this host to p.
func (c *Core) answers(p *peer, m *Message) bool {
	return m.Kind == Ack && m.Target == "" && slices.ContainsFunc(c.probes, func(o probe) bool {
		return o.n == m.N && o.target == p
	}) || m.Kind == Ack && slices.ContainsFunc(c.relays, func(o relay) bool { return o.n == m.N && o.target == p.node })
}

func (c *Core) onPingReq(from *peer, m *Message) {
	target := c.peers[m.Target]
	if m.Target == c.me.node {
		c.send(from.node, Message{Kind: Ack, N: m.N, Target: m.Target})
		return
	}
	each := 0
	for i := range c.relays {
		if c.relays[i].from == from.node {
			each++
		}
	}
	if target == nil || target == from || each >= maxRelaysEach || len(c.relays) >= maxRelays {
		return
	}
	c.n++
	c.relays = append(c.relays, relay{
		from: from.node, theirs: m.N, n: c.n, target: target.node, due: c.now + c.t.Timeout*4/5 + target.trip,
	})
	c.sendBare(target.node, Message{Kind: Probe, N: c.n})
}

// dueRelays tells who asked that there is no answer yet; one that comes later
// is still passed on.
func (c *Core) dueRelays() {
	for i := 0; i < len(c.relays); {
		r := &c.relays[i]
		switch {
		case c.now < r.due:
			i++
		case r.nacked:
			c.relays = slices.Delete(c.relays, i, i+1)
		default:
			r.nacked, r.due = true, c.now+2*c.t.Timeout
			c.send(r.from, Message{Kind: Nack, N: r.theirs, Target: r.target})
			i++
		}
	}
}

func (c *Core) onAck(from *peer, m *Message) {
	for i := range c.relays {
		if r := c.relays[i]; r.n == m.N && r.target == from.node && m.Target == "" {
			c.relays = slices.Delete(c.relays, i, i+1)
			c.send(r.from, Message{Kind: Ack, N: r.theirs, Target: r.target})
			return
		}
	}
	for i := range c.probes {
		pr := &c.probes[i]
		if pr.n != m.N {
			continue
		}
		switch {
		case m.Target == "" && pr.target == from:
			c.blame(-1)
			if pr.stage == 0 { // else it is not known which try it answers
				from.measured(c.now - pr.sent)
				c.do(Answered{Node: from.node, Sent: pr.sent, Trip: c.now - pr.sent})
			}
		case m.Target == pr.target.node && slices.Contains(pr.helpers, from.node):
			if p := pr.target; p.state == Suspect && p.own {
				c.alive(p, false) // for the others it refutes itself
			}
		default:
			return
		}
		c.probes = slices.Delete(c.probes, i, i+1)
		return
	}
}

func (c *Core) onNack(from *peer, m *Message) {
	for i := range c.probes {
		pr := &c.probes[i]
		if pr.n == m.N && pr.target.node == m.Target && slices.Contains(pr.helpers, from.node) &&
			!slices.Contains(pr.nacked, from.node) {
			pr.nacked = append(pr.nacked, from.node)
		}
	}
}
