package path

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Way is how messages reach a host.
type Way string

// The ways.
const (
	Direct Way = "direct" // through the mesh
	Onion  Way = "onion"  // through a stream between onion services
)

// Timing is how long what takes.
type Timing struct {
	// Down is how long a host that was never heard may take, and for how long
	// nothing may come over the mesh from one that still has a stream.
	Down time.Duration
	// Space is the least time between two signs of life of which both count.
	Space time.Duration
	// Linger is how long a stream stays that nobody needs.
	Linger time.Duration
	// Yield is how long the higher node id lets the lower one dial first.
	Yield time.Duration
	// MinRetry and MaxRetry bound the pause after a dial that failed or a
	// stream that broke.
	MinRetry, MaxRetry time.Duration
}

// Bounds of what one host keeps.
const (
	MaxStreams = 64
	MaxDials   = 8
	healSigns  = 3 // signs of life over the mesh, in a row, that end deafness
)

// DefaultTiming fits heartbeats that come this often.
func DefaultTiming(heartbeat, suspect time.Duration) Timing {
	return Timing{
		Down: max(suspect, 3*heartbeat), Space: heartbeat / 2, Linger: 2 * time.Minute, Yield: 3 * time.Second,
		MinRetry: time.Second, MaxRetry: time.Minute,
	}
}

// Event is what happened.
type Event interface{ isEvent() }

type (
	// Add makes a host known, or says whether it has an onion service now.
	Add struct {
		Node  cluster.NodeID
		Onion bool
	}
	// Remove forgets a host.
	Remove struct{ Node cluster.NodeID }
	// Heard is an authenticated message that came over the mesh.
	Heard struct{ Node cluster.NodeID }
	// Lost says that a host is believed to be unreachable.
	Lost struct{ Node cluster.NodeID }
	// Word is what a host said last on its stream: whether it is deaf.
	Word struct {
		Node cluster.NodeID
		Deaf bool
	}
	// Opened says that there is a stream to a host, dialled by either.
	Opened struct{ Node cluster.NodeID }
	// Closed says that there is none any more; Jitter is in [0, 1).
	Closed struct {
		Node   cluster.NodeID
		Jitter float64
	}
	// Failed says that the dial that was asked for brought no stream.
	Failed struct {
		Node   cluster.NodeID
		Jitter float64
	}
	// Tick lets time pass.
	Tick struct{}
)

func (Add) isEvent()    {}
func (Remove) isEvent() {}
func (Heard) isEvent()  {}
func (Lost) isEvent()   {}
func (Word) isEvent()   {}
func (Opened) isEvent() {}
func (Closed) isEvent() {}
func (Failed) isEvent() {}
func (Tick) isEvent()   {}

// Action is what to do.
type Action interface {
	isAction()
	String() string
}

type (
	// Dial asks for a stream; Opened or Failed must follow.
	Dial struct{ Node cluster.NodeID }
	// Close ends the stream; Closed must follow.
	Close struct{ Node cluster.NodeID }
	// Say tells the other end whether this host is deaf to it.
	Say struct {
		Node cluster.NodeID
		Deaf bool
	}
	// Changed says that messages take another way from now on.
	Changed struct {
		Node cluster.NodeID
		To   Way
	}
)

func (Dial) isAction()    {}
func (Close) isAction()   {}
func (Say) isAction()     {}
func (Changed) isAction() {}

func (a Dial) String() string    { return fmt.Sprintf("dial %s", a.Node) }
func (a Close) String() string   { return fmt.Sprintf("close %s", a.Node) }
func (a Say) String() string     { return fmt.Sprintf("say %s deaf=%t", a.Node, a.Deaf) }
func (a Changed) String() string { return fmt.Sprintf("changed %s %s", a.Node, a.To) }

// Core decides for all hosts. The zero value is not usable.
type Core struct {
	self  cluster.NodeID
	t     Timing
	peers map[cluster.NodeID]*peer
	open  int
	dials int
}

type peer struct {
	onion   bool          // it has an address
	heard   time.Duration // over the mesh, last; when it was added if never
	ever    bool          // it was heard, or a stream was open
	deaf    bool          // this host to it
	signs   int           // of life since it is deaf
	word    bool          // it is deaf to this host
	stream  bool
	closing bool // Close was asked for
	dialing bool
	again   time.Duration // no dial before
	pause   time.Duration // after the next failure
	needed  time.Duration // when the stream was last needed
	way     Way
}

// New returns a Core that knows no host.
func New(self cluster.NodeID, t Timing) *Core {
	return &Core{self: self, t: t, peers: map[cluster.NodeID]*peer{}}
}

// Way is how messages reach a host.
func (c *Core) Way(node cluster.NodeID) Way {
	if p := c.peers[node]; p != nil {
		return p.way
	}
	return Direct
}

// Deaf reports whether this host hears nothing of node over the mesh.
func (c *Core) Deaf(node cluster.NodeID) bool {
	p := c.peers[node]
	return p != nil && p.deaf
}

// Keep reports whether, of two streams to node, the one that this host dialled
// is to stay: that of the lower node id.
func (c *Core) Keep(node cluster.NodeID) bool { return c.self < node }

// Deadline is when Tick has something to do at the latest; ok is false if
// never.
func (c *Core) Deadline() (at time.Duration, ok bool) {
	soonest := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, p := range c.peers {
		switch {
		case !p.deaf && (!p.ever || p.way == Onion):
			soonest(p.heard + c.t.Down)
		case p.deaf && c.mayDial(p):
			soonest(p.again)
		}
		if p.stream && !p.deaf && !p.word && !p.closing {
			soonest(p.needed + c.t.Linger)
		}
	}
	return at, ok
}

// Step takes in one event and returns what to do, in this order.
func (c *Core) Step(ev Event, now time.Duration) []Action {
	switch e := ev.(type) {
	case Add:
		c.add(e, now)
		return c.settle(e.Node, now)
	case Remove:
		return c.remove(e.Node)
	case Heard:
		return c.with(e.Node, now, func(p *peer) { c.sign(p, now) })
	case Lost:
		return c.lost(e.Node, now)
	case Word:
		return c.with(e.Node, now, func(p *peer) {
			p.word = e.Deaf && p.stream
			p.pause = c.t.MinRetry // it took the stream, and did not just let it begin
		})
	case Opened:
		return c.opened(e.Node, now)
	case Closed:
		return c.with(e.Node, now, func(p *peer) { c.closed(p, e.Jitter, now) })
	case Failed:
		return c.with(e.Node, now, func(p *peer) { c.failed(p, e.Jitter, now) })
	case Tick:
		return c.tick(now)
	}
	return nil
}

func (c *Core) add(e Add, now time.Duration) {
	if e.Node == c.self {
		return
	}
	p := c.peers[e.Node]
	if p == nil {
		p = &peer{heard: now, way: Direct, pause: c.t.MinRetry}
		c.peers[e.Node] = p
	}
	if e.Onion && !p.onion {
		p.again, p.pause = now, c.t.MinRetry
	}
	p.onion = e.Onion
}

func (c *Core) remove(node cluster.NodeID) []Action {
	p := c.peers[node]
	if p == nil {
		return nil
	}
	delete(c.peers, node)
	if p.dialing {
		c.dials--
	}
	if !p.stream {
		return nil
	}
	c.open--
	return []Action{Close{Node: node}}
}

// with lets f change what is known of node and settles what follows.
func (c *Core) with(node cluster.NodeID, now time.Duration, f func(*peer)) []Action {
	p := c.peers[node]
	if p == nil {
		return nil
	}
	f(p)
	return c.settle(node, now)
}

// sign counts a sign of life over the mesh.
func (c *Core) sign(p *peer, now time.Duration) {
	switch {
	case !p.deaf:
	case p.signs == 0 || now-p.heard > c.t.Down:
		p.signs = 1
	case now-p.heard < c.t.Space:
		return // came together with the last one
	default:
		p.signs++
	}
	p.heard, p.ever = now, true
}

func (c *Core) lost(node cluster.NodeID, now time.Duration) []Action {
	p := c.peers[node]
	if p == nil {
		return nil
	}
	c.deafen(p, node, now)
	var out []Action
	if p.way == Onion && !p.closing {
		p.closing = true
		out = append(out, Close{Node: node})
	}
	return append(out, c.settle(node, now)...)
}

// deafen notes that nothing comes over the mesh.
func (c *Core) deafen(p *peer, node cluster.NodeID, now time.Duration) {
	if !p.deaf {
		p.deaf = true
		if node < c.self {
			p.again = max(p.again, now+c.t.Yield)
		}
	}
	p.signs = 0
}

func (c *Core) opened(node cluster.NodeID, now time.Duration) []Action {
	p := c.peers[node]
	if p == nil {
		return []Action{Close{Node: node}}
	}
	if p.dialing {
		p.dialing = false
		c.dials--
	}
	if !p.stream {
		p.stream, p.needed = true, now
		c.open++
	}
	p.closing, p.word, p.ever = false, false, true
	return append([]Action{Say{Node: node, Deaf: p.deaf}}, c.settle(node, now)...)
}

func (c *Core) closed(p *peer, jitter float64, now time.Duration) {
	if p.stream {
		p.stream = false
		c.open--
	}
	p.closing, p.word = false, false
	p.again = now + c.backoff(p, jitter)
}

func (c *Core) failed(p *peer, jitter float64, now time.Duration) {
	if !p.dialing {
		return
	}
	p.dialing = false
	c.dials--
	p.again = now + c.backoff(p, jitter)
}

// backoff is the pause before the next dial; the one after it will be longer.
func (c *Core) backoff(p *peer, jitter float64) time.Duration {
	pause := p.pause
	p.pause = min(2*p.pause, c.t.MaxRetry)
	return pause/2 + time.Duration(min(max(jitter, 0), 1)*float64(pause)/2)
}

func (c *Core) mayDial(p *peer) bool {
	return p.onion && !p.stream && !p.dialing && c.dials < MaxDials && c.open+c.dials < MaxStreams
}

func (c *Core) tick(now time.Duration) []Action {
	nodes := make([]cluster.NodeID, 0, len(c.peers))
	for node := range c.peers {
		nodes = append(nodes, node)
	}
	// Who waits longest for a dial comes first.
	slices.SortFunc(nodes, func(a, b cluster.NodeID) int {
		if d := c.peers[a].again - c.peers[b].again; d != 0 {
			if d < 0 {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a), string(b))
	})
	var out []Action
	for _, node := range nodes {
		p := c.peers[node]
		if !p.deaf && (!p.ever || p.way == Onion) && now-p.heard >= c.t.Down {
			c.deafen(p, node, now)
			if p.stream {
				out = append(out, Say{Node: node, Deaf: true})
			}
		}
		out = append(out, c.settle(node, now)...)
	}
	return out
}

// settle draws the conclusions about one host.
func (c *Core) settle(node cluster.NodeID, now time.Duration) []Action {
	p := c.peers[node]
	if p == nil {
		return nil
	}
	var out []Action
	if p.deaf && p.signs >= healSigns {
		p.deaf, p.signs = false, 0
		if p.stream {
			out = append(out, Say{Node: node, Deaf: false})
		}
	}
	needed := p.deaf || p.word
	if needed {
		p.needed = now
	}
	way := Direct
	if p.stream && !p.closing && needed {
		way = Onion
	}
	if way != p.way {
		p.way = way
		out = append(out, Changed{Node: node, To: way})
	}
	if p.stream && !needed && !p.closing && now-p.needed >= c.t.Linger {
		p.closing = true
		out = append(out, Close{Node: node})
	}
	if p.deaf && c.mayDial(p) && now >= p.again {
		p.dialing = true
		c.dials++
		out = append(out, Dial{Node: node})
	}
	return out
}
