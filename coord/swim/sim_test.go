package swim

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// simulation is a cluster of cores on a network of chance. It is a
// discrete-event simulation: nothing waits.
type simulation struct {
	nodes []*simNode
	byID  map[cluster.NodeID]int
	rng   uint64
	now   time.Duration
	queue simQueue
	seq   uint64

	loss   float64
	delay  time.Duration // one way, at least; up to twice that
	cut    func(a, b int) bool
	failed func(at time.Duration, judge, node int) // every verdict Failed
	alive  func(at time.Duration, judge, node int)

	datagrams, bytes uint64
}

type simNode struct {
	core  *Core
	boot  uint64
	up    bool
	stall time.Duration // handles nothing before
	tick  time.Duration // of the tick that is queued
	sent  uint64
	got   uint64
}

type simEvent struct {
	at   time.Duration
	seq  uint64
	node int
	boot uint64
	from int // -1: tick
	msg  Message
	fb   uint64
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || (q[i].at == q[j].at && q[i].seq < q[j].seq)
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

func nodeName(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("host-%03d", i)) }

// newSimulation starts n hosts that all have answered each other once.
func newSimulation(n int, seed uint64) *simulation {
	s := &simulation{byID: map[cluster.NodeID]int{}, rng: seed, delay: time.Millisecond}
	for i := range n {
		s.nodes = append(s.nodes, &simNode{})
		s.byID[nodeName(i)] = i
	}
	for i := range n {
		s.start(i, true)
	}
	return s
}

// start starts host i, again perhaps; confirmed says that it and all who run
// have answered each other.
func (s *simulation) start(i int, confirmed bool) {
	nd := s.nodes[i]
	nd.boot++
	nd.up, nd.tick = true, never
	var err error
	nd.core, err = New(Options{Self: nodeName(i), Boot: nd.boot, Eligible: true, Timing: DefaultTiming(), Seed: s.random()})
	if err != nil {
		panic(err)
	}
	for j, o := range s.nodes {
		if j == i {
			continue
		}
		nd.core.Step(Add{Node: nodeName(j)}, s.now)
		if confirmed && o.up {
			nd.core.Step(Heard{Node: nodeName(j), Boot: o.boot, HasState: true, Inc: o.core.Incarnation(), Round: true}, s.now)
			s.step(j, Heard{Node: nodeName(i), Boot: nd.boot, HasState: true, Round: true})
		} else if confirmed {
			nd.core.Step(Heard{Node: nodeName(j), Boot: max(o.boot, 1), Round: true}, s.now)
		}
	}
	s.step(i, Activate{On: true})
}

// met lets two hosts that run have answered each other's heartbeats.
func (s *simulation) met(i, j int) {
	a, b := s.nodes[i], s.nodes[j]
	if !a.up || !b.up {
		return
	}
	s.step(i, Heard{Node: nodeName(j), Boot: b.boot, HasState: true, Inc: b.core.Incarnation(), Round: true})
	s.step(j, Heard{Node: nodeName(i), Boot: a.boot, HasState: true, Inc: a.core.Incarnation(), Round: true})
}

func (s *simulation) random() uint64 {
	c := Core{rng: s.rng}
	v := c.random()
	s.rng = c.rng
	return v
}

func (s *simulation) chance() float64 { return float64(s.random()>>11) / (1 << 53) }

func (s *simulation) push(e simEvent) {
	s.seq++
	e.seq = s.seq
	heap.Push(&s.queue, e)
}

// step feeds host i and carries out what it answers.
func (s *simulation) step(i int, ev Event) {
	nd := s.nodes[i]
	if nd.core == nil || !nd.up {
		return
	}
	for _, a := range nd.core.Step(ev, s.now) {
		switch a := a.(type) {
		case Send:
			s.send(i, s.byID[a.To], a.Msg)
		case Changed:
			if f := s.failed; f != nil && a.State == Failed {
				f(s.now, i, s.byID[a.Node])
			}
			if f := s.alive; f != nil && a.State == Alive {
				f(s.now, i, s.byID[a.Node])
			}
		}
	}
	if at := nd.core.Deadline(); at < nd.tick && at < never {
		nd.tick = at
		s.push(simEvent{at: at, node: i, boot: nd.boot, from: -1})
	}
}

// size is what a message costs on the wire, as Seal makes it, with 28 bytes of
// headers; a test of coord holds it against the real thing.
func size(m Message) uint64 {
	n := 234 + 28
	switch {
	case m.Kind == Ack && m.Target == "":
		n += 123
	case m.Kind == Ack, m.Kind == Nack:
		n += 19 + len(m.Target)
	case m.Kind == PingReq:
		n += 15 + len(m.Target)
	}
	if len(m.Deltas) > 0 {
		n += 12
	}
	for _, d := range m.Deltas {
		switch n += 47 + len(d.Node); d.State {
		case Suspect:
			n += 38 + len(d.By)
		case Failed, Left:
			n += 15
		}
	}
	return uint64(n)
}

func (s *simulation) send(from, to int, m Message) {
	b := size(m)
	s.datagrams++
	s.bytes += b
	s.nodes[from].sent += b
	if s.chance() < s.loss || (s.cut != nil && s.cut(from, to)) || !s.nodes[to].up {
		return
	}
	m.Deltas = slices.Clone(m.Deltas)
	at := s.now + s.delay + time.Duration(s.chance()*float64(s.delay))
	s.push(simEvent{at: at, node: to, boot: s.nodes[to].boot, from: from, fb: s.nodes[from].boot, msg: m})
}

// run lets time pass.
func (s *simulation) run(d time.Duration) {
	end := s.now + d
	for len(s.queue) > 0 && s.queue[0].at <= end {
		e := heap.Pop(&s.queue).(simEvent)
		nd := s.nodes[e.node]
		if !nd.up || nd.boot != e.boot {
			continue
		}
		if e.at < nd.stall {
			e.at = nd.stall
			s.push(e) // what came meanwhile waits in order
			continue
		}
		s.now = e.at
		if e.from < 0 {
			nd.tick = never
			s.step(e.node, Tick{})
			continue
		}
		nd.got += size(e.msg)
		s.step(e.node, Receive{From: nodeName(e.from), Boot: e.fb, Msg: e.msg})
	}
	s.now = end
}

func (s *simulation) crash(i int) { s.nodes[i].up = false }

// agree reports whether every running host believes exactly the running hosts
// alive.
func (s *simulation) agree() bool {
	for _, nd := range s.nodes {
		if !nd.up {
			continue
		}
		for _, p := range nd.core.list {
			if p.confirmed && (p.state < Failed) != s.nodes[s.byID[p.node]].up {
				return false
			}
		}
	}
	return true
}

func (s *simulation) until(limit time.Duration, f func() bool) (time.Duration, bool) {
	start := s.now
	for !f() {
		if s.now-start > limit {
			return s.now - start, false
		}
		s.run(250 * time.Millisecond)
	}
	return s.now - start, true
}
