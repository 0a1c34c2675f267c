package swim

import (
	"math/bits"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// class orders news: what must not wait comes first.
type class uint8

const (
	nothing class = iota
	refutation
	death
	accusation
	update
)

const (
	// spread, times the binary logarithm of the cluster's size, is how often a
	// host passes news on; updates, which nobody waits for, half as often.
	spread = 2
	// Urgent news that was passed on fewer than pushes times is sent to pushTo
	// hosts at once, every pushPause. If there is more than a few, as when many
	// fail at once, it is manyPushes: no host is to miss one of them by chance.
	pushes     = 2
	manyPushes = 12
	pushTo     = 2
	pushPause  = 100 * time.Millisecond
	// maxDeltaBytes bounds the text of the deltas in one message; deltaBytes is
	// that of one without its names.
	maxDeltaBytes = 640
	deltaBytes    = 110
	// tellPause is the time between two notices to one host that it is doubted.
	tellPause = time.Second
)

// news is what is to be passed on about a host.
type news struct {
	class class
	sends int
}

// rumour makes p's state news. News of a known class that only has become more
// certain can wait for a probe.
func (c *Core) rumour(p *peer, k class) {
	if !c.active {
		return
	}
	if p.class == nothing {
		c.rumours = append(c.rumours, p)
	}
	sends := 0
	if p.class == k && k == accusation {
		sends = min(p.sends, pushes)
	}
	p.news = news{class: k, sends: sends}
}

// quiet takes back what is not true any more.
func (c *Core) quiet(p *peer) {
	p.news = news{}
	c.rumours = slices.DeleteFunc(c.rumours, func(o *peer) bool { return o == p })
}

// send sends m with this host's own state and what news fit.
func (c *Core) send(to cluster.NodeID, m Message) {
	p := c.peers[to]
	m.Deltas = c.doubts(p)
	if p != nil && p.state == Alive && len(c.rumours) > 0 {
		m.Deltas = c.deltas(p)
	}
	c.emit(to, m)
}

// sendBare sends m to a host that may well not get it: no news, but that it is
// doubted itself.
func (c *Core) sendBare(to cluster.NodeID, m Message) {
	m.Deltas = c.doubts(c.peers[to])
	c.emit(to, m)
}

func (c *Core) emit(to cluster.NodeID, m Message) {
	m.Inc, m.Ineligible = c.me.inc, c.me.ineligible
	c.do(Send{To: to, Msg: m})
}

// doubts tells a host that it is doubted.
func (c *Core) doubts(p *peer) []Delta {
	if p == nil || !p.confirmed || p.state == Alive {
		return nil
	}
	p.told = c.now
	return []Delta{c.delta(p)}
}

// delta is what this host says of p now.
func (c *Core) delta(p *peer) Delta {
	d := Delta{Node: p.node, Boot: p.boot, Inc: p.inc, State: p.state, Ineligible: p.ineligible}
	switch p.state {
	case Suspect:
		d.Witnesses = p.witnesses()
		d.By = c.me.node
		if len(p.accusers) > 0 {
			d.By = p.accusers[0]
		}
		d.Age = max(0, c.now-p.since)
	case Failed, Left:
		d.Age = max(0, c.now-p.since)
	case Alive:
	}
	return d
}

// deltas are the news for to, by class, then what was passed on least often.
func (c *Core) deltas(to *peer) []Delta {
	var out []Delta
	// The best few, by insertion: the list is as long as the cluster at most.
	var best [MaxDeltas]*peer
	n := 0
	for _, p := range c.rumours {
		if p == to {
			continue
		}
		i := n
		for i > 0 && before(p, best[i-1]) {
			i--
		}
		if i == len(best) {
			continue
		}
		n = min(n+1, len(best))
		copy(best[i+1:n], best[i:n-1])
		best[i] = p
	}
	room := maxDeltaBytes
	for _, p := range best[:n] {
		d := c.delta(p)
		if room -= deltaBytes + len(d.Node) + len(d.By); room < 0 {
			break
		}
		out = append(out, d)
		p.sends++
	}
	limit := bits.Len(uint(c.living))
	c.rumours = slices.DeleteFunc(c.rumours, func(p *peer) bool {
		over := p.sends >= spread*limit || p.class == update && p.sends >= limit
		if over {
			p.news = news{}
		}
		return over
	})
	return out
}

func before(a, b *peer) bool {
	if a.class != b.class {
		return a.class < b.class
	}
	return a.sends < b.sends
}

// urgent reports whether there is news that is not to wait for a probe.
func (c *Core) urgent() bool {
	all, few, more := 0, 0, 0
	for _, p := range c.rumours {
		if p.class < update {
			all++
			if p.sends < pushes {
				few++
			}
			if p.sends < manyPushes {
				more++
			}
		}
	}
	return few > 0 || more > 0 && all > 2*MaxDeltas
}

// push sends urgent news to some hosts at once.
func (c *Core) push() {
	if c.now < c.pushAt || len(c.rumours) == 0 || !c.urgent() {
		return
	}
	c.pushAt = c.now + pushPause
	for _, to := range c.some(pushTo, nil) {
		c.send(to, Message{Kind: Gossip})
	}
}

// tell lets p know that it is doubted.
func (c *Core) tell(p *peer) {
	if c.active && p.state != Alive && !p.private && (p.told == 0 || c.now-p.told >= tellPause) {
		c.send(p.node, Message{Kind: Gossip})
	}
}

// learn takes hearsay.
func (c *Core) learn(d *Delta) {
	if d.Node == c.me.node {
		c.refute(d)
		return
	}
	p := c.peers[d.Node]
	if p == nil || !p.confirmed || !c.active {
		return // what others say of a host does not confirm it
	}
	if d.Boot > p.boot+maxBootJump || (d.Boot == p.boot && d.Inc > p.inc+maxJump) || (d.Boot > p.boot && d.Inc > maxJump) {
		c.stats.Refused++
		return
	}
	order := 0
	switch {
	case d.Boot > p.boot, d.Boot == p.boot && d.Inc > p.inc:
		order = 1
	case d.Boot < p.boot, d.Inc < p.inc:
		order = -1
	}
	// No one can have missed a sign of life for longer than it takes to end a
	// suspicion, or before this host heard one.
	since := c.now - min(max(d.Age, 0), 3*patience(c.t, c.living, 0))
	switch {
	case order < 0, d.State == Alive && order == 0, p.state == Left && order == 0:
		return
	case d.State != Alive && d.Boot == p.direct && order == 0 && p.heard > since:
		return // it was heard since
	case d.State == Suspect && order == 0 && p.state >= Failed:
		return
	}
	if order > 0 {
		if p.ineligible != d.Ineligible {
			c.do(Informed{Node: p.node, Ineligible: d.Ineligible})
		}
		p.boot, p.inc, p.ineligible = d.Boot, d.Inc, d.Ineligible
	}
	switch d.State {
	case Alive:
		c.alive(p, true)
	case Suspect:
		if order > 0 && p.state != Suspect {
			c.alive(p, false) // it was alive to refute what was known
		} else if order > 0 {
			c.set(p, Alive)
		}
		p.private = false
		c.suspect(p, []cluster.NodeID{d.By}, min(max(d.Witnesses, 0), MaxWitnesses), since, false)
	case Failed, Left:
		// That a host left only counts from itself: by hearsay it can refute.
		p.private = false
		c.end(p, Failed, max(since, p.heard))
	}
}

// refute answers what is said of this host.
func (c *Core) refute(d *Delta) {
	switch {
	case d.State == Alive, d.Boot != c.me.boot, d.Inc < c.me.inc:
		return
	case d.Inc > c.me.inc+maxJump:
		c.stats.Refused++
		return
	}
	c.me.inc = d.Inc + 1
	c.stats.Refutations++
	c.blame(1)
	c.rumour(&c.me, refutation)
}
