package swim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Timing is every duration of the protocol.
type Timing struct {
	// Period is the time between probes, Timeout how long the direct and then
	// the indirect part of one wait for an answer.
	Period, Timeout time.Duration
	// Suspicion, times the decimal logarithm of the cluster's size, is the
	// shortest time between suspicion and failure; without witnesses it is
	// three times as long.
	Suspicion time.Duration
	// Retry is the time between tries of failed hosts.
	Retry time.Duration
	// Alone is how long nobody at all is heard until all count as failed.
	Alone time.Duration
}

// DefaultTiming returns the durations that every profile has.
func DefaultTiming() Timing {
	return Timing{
		Period: time.Second, Timeout: 500 * time.Millisecond, Suspicion: 2 * time.Second,
		Retry: 5 * time.Second, Alone: 6 * time.Second,
	}
}

// ErrOptions is wrapped by every error of New.
var ErrOptions = errors.New("invalid swim options")

// Options are what a Core is made of.
type Options struct {
	Self     cluster.NodeID
	Boot     uint64 // of this start, from 1
	Eligible bool
	Timing   Timing
	Seed     uint64 // of what is left to chance
}

const (
	// helpers are asked to probe whom this host cannot reach.
	helpers = 3
	// maxProbes bounds the probes in flight, maxRelays those for others, of
	// which one host has at most maxRelaysEach.
	maxProbes     = 24
	maxRelays     = 128
	maxRelaysEach = 8
	// maxAgain bounds the probes of suspects in a period.
	maxAgain = 4
	// fastPeriod is the time between probes and retries while the network
	// seems to come back, for at most fastFor.
	fastPeriod = 100 * time.Millisecond
	fastFor    = time.Minute
	// never is a deadline that does not come.
	never = time.Duration(1<<63 - 1)
)

// peer is what is known of a host.
type peer struct {
	node       cluster.NodeID
	boot, inc  uint64
	ineligible bool
	state      State
	confirmed  bool
	direct     uint64        // highest boot heard directly
	heard      time.Duration // last direct sign of life
	trip       time.Duration // to it and back, smoothed; 0: not measured
	told       time.Duration // when it was last told that it is doubted
	doubted    bool          // was not alive since its last refutation
	private    bool          // the doubt is not told to others

	suspicion
	news
}

// Core is one host's failure detector. It has one owner.
type Core struct {
	t      Timing
	rng    uint64
	active bool
	now    time.Duration
	next   time.Duration // Deadline
	me     peer

	peers map[cluster.NodeID]*peer
	list  []*peer // all of peers, in no order that matters
	ring  []*peer // to probe, from at on; removed ones stay until their turn
	at    int

	living   int           // hosts that seem to live, this one included; as of this period
	failed   int           // hosts that are Failed or Left
	heardAny time.Duration // last message of anyone
	alone    bool

	probes   []probe
	relays   []relay
	suspects suspicions
	rumours  []*peer
	n        uint64 // of the last probe
	nextAt   time.Duration
	retryAt  time.Duration
	pushAt   time.Duration
	fastTill time.Duration

	score int
	stats Stats
	acts  []Action
}

// Stats count since the start.
type Stats struct {
	Probes      uint64 // begun
	Indirect    uint64 // that needed help
	Unanswered  uint64 // that nobody answered
	Suspicions  uint64 // begun, by own evidence or hearsay
	Accusations uint64 // of those: by own evidence
	Failures    uint64
	Refutations uint64 // that this host had to make
	Late        uint64 // times this host was late
	Refused     uint64 // deltas that no honest host sends
}

// New returns a Core that knows no other host and is not active.
func New(o Options) (*Core, error) {
	switch {
	case o.Boot == 0:
		return nil, fmt.Errorf("%w: boot counter is 0", ErrOptions)
	case o.Timing.Period <= 0 || o.Timing.Timeout <= 0 || o.Timing.Suspicion <= 0 || o.Timing.Retry <= 0 || o.Timing.Alone <= 0:
		return nil, fmt.Errorf("%w: a duration is not above 0", ErrOptions)
	}
	if _, err := cluster.ParseNodeID(string(o.Self)); err != nil {
		return nil, fmt.Errorf("%w: self: %w", ErrOptions, err)
	}
	return &Core{
		t: o.Timing, rng: o.Seed, next: never, peers: make(map[cluster.NodeID]*peer),
		me: peer{node: o.Self, boot: o.Boot, ineligible: !o.Eligible, confirmed: true},
	}, nil
}

// Step applies one event at local time now and returns what to do, in order.
// The result is valid until the next Step. A now below that of an earlier step
// counts as that one.
func (c *Core) Step(ev Event, now time.Duration) []Action {
	c.acts = c.acts[:0]
	now = max(now, c.now)
	c.late(now)
	c.now = now
	switch e := ev.(type) {
	case Tick:
	case Activate:
		c.activate(e.On)
	case Add:
		c.add(e.Node)
	case Remove:
		c.remove(e.Node)
	case Heard:
		if p := c.peers[e.Node]; p != nil {
			c.heard(p, e.Boot, e.Inc, e.Ineligible, e.HasState, e.Round)
		}
	case Leaving:
		c.leaving(e)
	case Receive:
		c.receive(&e)
	case Again:
		if p := c.peers[e.Node]; p != nil && c.active && p.state < Failed && !c.probing(p) {
			c.probe(p, probeAgain)
		}
	case SetEligible:
		c.setEligible(e.Eligible)
	}
	c.due()
	c.next = c.deadline()
	return c.acts
}

// Deadline is when the next Tick must come at the latest.
func (c *Core) Deadline() time.Duration { return c.next }

func (c *Core) deadline() time.Duration {
	at := never
	for i := range c.relays {
		at = min(at, c.relays[i].due)
	}
	if !c.active {
		return at
	}
	for i := range c.probes {
		at = min(at, c.probes[i].due)
	}
	at = min(at, c.nextAt, c.suspects.next())
	if c.failed > 0 {
		at = min(at, c.retryAt)
	}
	if len(c.rumours) > 0 && c.urgent() {
		at = min(at, c.pushAt)
	}
	if !c.alone && len(c.list) > 0 {
		at = min(at, c.heardAny+c.t.Alone)
	}
	return at
}

// State returns what is believed of a host, and whether it is known and
// confirmed.
func (c *Core) State(node cluster.NodeID) (s State, confirmed bool) {
	if p := c.peers[node]; p != nil {
		return p.state, p.confirmed
	}
	return Failed, false
}

// Active reports whether this host judges others.
func (c *Core) Active() bool { return c.active }

// Incarnation is this host's own.
func (c *Core) Incarnation() uint64 { return c.me.inc }

// Score is the local health score: 0 is well, MaxScore unwell.
func (c *Core) Score() int { return c.score }

// Stats returns the counters.
func (c *Core) Stats() Stats { return c.stats }

func (c *Core) do(a Action) { c.acts = append(c.acts, a) }

func (c *Core) activate(on bool) {
	if c.active == on {
		return
	}
	c.active = on
	c.probes, c.suspects = nil, nil
	for _, p := range c.list {
		// Whoever was judged otherwise so far starts with a clean sheet.
		c.set(p, Alive)
		p.private = false
		p.heard = max(p.heard, c.now)
	}
	for _, p := range c.rumours {
		p.news = news{}
	}
	c.rumours = nil
	c.census()
	c.heardAny, c.alone = c.now, false
	c.nextAt = c.now + time.Duration(c.chance()*float64(c.t.Period))
	c.retryAt, c.pushAt, c.fastTill = c.now+c.t.Retry, c.now, 0
}

func (c *Core) add(node cluster.NodeID) {
	if c.peers[node] != nil || node == c.me.node {
		return
	}
	p := &peer{node: node}
	c.peers[node] = p
	c.list = append(c.list, p)
	// Somewhere in what is left of this turn.
	i := c.at + c.below(len(c.ring)-c.at+1)
	c.ring = slices.Insert(c.ring, i, p)
}

func (c *Core) remove(node cluster.NodeID) {
	p := c.peers[node]
	if p == nil {
		return
	}
	c.set(p, Alive)
	delete(c.peers, node)
	c.list = slices.DeleteFunc(c.list, func(o *peer) bool { return o == p })
	c.rumours = slices.DeleteFunc(c.rumours, func(o *peer) bool { return o == p })
	c.probes = slices.DeleteFunc(c.probes, func(o probe) bool { return o.target == p })
	c.relays = slices.DeleteFunc(c.relays, func(o relay) bool { return o.target == node || o.from == node })
}

// heard takes a direct sign of life. What a host says of itself counts against
// all hearsay.
func (c *Core) heard(p *peer, boot, inc uint64, ineligible, hasState, round bool) {
	if boot < p.direct || (p.state == Left && boot == p.boot) {
		return // on its way while the host ended
	}
	c.hearAny()
	p.heard, p.direct = c.now, boot
	newer := p.boot != 0 && (boot > p.boot && p.doubted || boot == p.boot && hasState && inc > p.inc)
	if boot != p.boot {
		p.boot, p.inc = boot, 0
	}
	if hasState {
		if p.inc = max(p.inc, inc); inc == p.inc {
			p.ineligible = ineligible
		}
	}
	p.confirmed = p.confirmed || round
	if !p.confirmed {
		return
	}
	if p.state != Alive && !newer {
		c.tell(p) // it is to refute for all others
	}
	c.alive(p, newer)
}

// hearAny notes that this host is not alone.
func (c *Core) hearAny() {
	c.heardAny = c.now
	if !c.alone {
		return
	}
	c.alone = false
	c.hurry()
	for _, p := range c.list {
		if p.state == Failed && p.private {
			p.private = false
			c.alive(p, false)
		}
	}
}

func (c *Core) leaving(e Leaving) {
	p := c.peers[e.Node]
	if p == nil || e.Boot < p.direct {
		return
	}
	c.hearAny()
	p.boot, p.direct = e.Boot, e.Boot
	if p.state == Left {
		return
	}
	p.heard = c.now
	c.end(p, Left, c.now)
}

// alive ends whatever doubt there was of p.
func (c *Core) alive(p *peer, newer bool) {
	was := p.state
	c.set(p, Alive)
	p.private = false
	if was != Alive {
		p.doubted = true
	}
	if was == Failed || was == Left {
		c.do(Changed{Node: p.node, State: Alive})
		c.hurry()
	}
	switch {
	case newer && p.doubted:
		p.doubted = false
		c.rumour(p, refutation)
	case newer:
		c.rumour(p, update)
	case p.class == accusation || p.class == death:
		c.quiet(p)
	}
}

// end makes p Failed or Left.
func (c *Core) end(p *peer, s State, since time.Duration) {
	if p.state == s || !p.confirmed {
		return
	}
	c.set(p, s)
	p.since, p.doubted = since, true
	if s == Failed {
		c.stats.Failures++
	}
	c.do(Changed{Node: p.node, State: s, Since: since})
	if !c.alone {
		p.private = false
		c.rumour(p, death)
	}
}

// set changes the state of p and ends its suspicion.
func (c *Core) set(p *peer, s State) {
	if p.state >= Failed {
		c.failed--
	}
	if s >= Failed {
		c.failed++
	}
	p.state, p.suspicion = s, suspicion{}
}

// hurry makes this host look at all others soon: the network seems to be back.
func (c *Core) hurry() {
	if !c.active || c.now < c.fastTill {
		return
	}
	c.fastTill = c.now + fastFor
	c.retryAt = min(c.retryAt, c.now+fastPeriod)
}

func (c *Core) setEligible(ok bool) {
	if c.me.ineligible == !ok {
		return
	}
	c.me.ineligible = !ok
	c.me.inc++
	c.rumour(&c.me, update)
}

// census counts the hosts that seem to live.
func (c *Core) census() {
	c.living = 1
	for _, p := range c.list {
		if p.confirmed && p.state < Failed {
			c.living++
		}
	}
}

// chance returns a number in [0,1).
func (c *Core) chance() float64 { return float64(c.random()>>11) / (1 << 53) }

// below returns a number in [0,n).
func (c *Core) below(n int) int { return int(c.random() % uint64(max(n, 1))) }

// random is splitmix64.
func (c *Core) random() uint64 {
	c.rng += 0x9e3779b97f4a7c15
	z := c.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
