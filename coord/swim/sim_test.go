package swim

import (
	"container/heap"
	"fmt"
	"os"
	"slices"
	"testing"
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
	for i, nd := range s.nodes {
		if !nd.up {
			continue
		}
		for j, o := range s.nodes {
			if i == j {
				continue
			}
			if st, ok := nd.core.State(nodeName(j)); ok && (st < Failed) != o.up {
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

func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// detection crashes one host and returns when the first and the last of the
// others took it out.
func detection(t *testing.T, n int, seed uint64) (first, mid, last time.Duration) {
	t.Helper()
	s := newSimulation(n, seed)
	s.run(5 * time.Second)
	victim := int(s.random() % uint64(n))
	start := s.now
	var at []time.Duration
	s.failed = func(now time.Duration, judge, node int) {
		if node != victim {
			t.Errorf("seed %d: %d fails %d, which lives", seed, judge, node)
		}
		at = append(at, now-start)
	}
	s.crash(victim)
	if _, ok := s.until(time.Minute, func() bool { return len(at) >= n-1 }); !ok {
		t.Fatalf("seed %d: only %d of %d noticed", seed, len(at), n-1)
	}
	return at[0], at[len(at)/2], at[len(at)-1]
}

func TestDetection(t *testing.T) {
	runs, sizes := 6, []int{100}
	if prove() {
		runs, sizes = 40, []int{100, 500}
	}
	for _, n := range sizes {
		var first, mid, last []time.Duration
		for i := range runs {
			a, b, c := detection(t, n, uint64(i+1))
			first, mid, last = append(first, a), append(mid, b), append(last, c)
		}
		t.Logf("%d hosts, %d crashes: medians: first %s, half %s, all %s; slowest all %s",
			n, runs, median(first), median(mid), median(last), slices.Max(last))
		// memberlist's LAN profile takes 10.6 s with 100 hosts.
		if limit := 8 * time.Second; median(last) > limit {
			t.Errorf("%d hosts: all know after %s, want %s", n, median(last), limit)
		}
	}
}

// TestIdleTraffic: what a host sends does not grow with the cluster.
func TestIdleTraffic(t *testing.T) {
	for _, n := range []int{100, 500} {
		s := newSimulation(n, 1)
		s.run(10 * time.Second)
		for _, nd := range s.nodes {
			nd.sent, nd.got = 0, 0
		}
		const d = 60
		s.run(d * time.Second)
		var sum, most, mostGot uint64
		for _, nd := range s.nodes {
			sum += nd.sent
			most, mostGot = max(most, nd.sent), max(mostGot, nd.got)
		}
		mean := float64(sum) / float64(n) / d
		t.Logf("%d hosts: %.0f B/s sent per host, most %d, received at most %d", n, mean, most/d, mostGot/d)
		if mean > 750 || most/d > 900 {
			t.Errorf("%d hosts: %.0f B/s, most %d", n, mean, most/d)
		}
	}
}

// TestLoss: nobody who lives is taken out at 10 % loss; at 30 % hardly anyone,
// and not for long.
func TestLoss(t *testing.T) {
	minutes := 1
	sizes := []int{100}
	if prove() {
		minutes, sizes = 10, []int{100, 500}
	}
	for _, n := range sizes {
		for _, loss := range []float64{.1, .3} {
			s := newSimulation(n, 7)
			s.run(5 * time.Second)
			s.loss = loss
			wrong := 0
			s.failed = func(time.Duration, int, int) { wrong++ }
			before := s.bytes
			d := time.Duration(minutes) * time.Minute
			s.run(d)
			var st Stats
			score := 0
			for _, nd := range s.nodes {
				v := nd.core.Stats()
				st.Suspicions += v.Suspicions
				st.Accusations += v.Accusations
				st.Refutations += v.Refutations
				score = max(score, nd.core.Score())
			}
			t.Logf("%d hosts, %.0f %% loss, %s: %d wrong verdicts, %d accusations, %d suspicions, %d refutations, worst score %d, %.0f B/s per host",
				n, loss*100, d, wrong, st.Accusations, st.Suspicions, st.Refutations, score, float64(s.bytes-before)/d.Seconds()/float64(n))
			if loss == .1 && wrong > 0 {
				t.Errorf("%d wrong verdicts at 10 %% loss", wrong)
			}
			if wrong > n*n*minutes/100 {
				t.Errorf("%d wrong verdicts", wrong)
			}
			s.loss = 0
			if took, ok := s.until(time.Minute, s.agree); !ok {
				t.Errorf("no agreement %s after the loss", took)
			}
		}
	}
}

// TestMassFailure: 30 % of the hosts end at once.
func TestMassFailure(t *testing.T) {
	sizes := []int{100}
	if prove() {
		sizes = append(sizes, 500)
	}
	for _, n := range sizes {
		s := newSimulation(n, 3)
		s.run(5 * time.Second)
		for i := range n * 3 / 10 {
			s.crash(i * 3)
		}
		wrong := 0
		s.failed = func(_ time.Duration, _, node int) {
			if s.nodes[node].up {
				wrong++
			}
		}
		took, ok := s.until(3*time.Minute, s.agree)
		t.Logf("%d hosts: agreement after %s, %d wrong verdicts", n, took, wrong)
		if !ok || took > time.Minute || wrong > 0 {
			t.Errorf("%d hosts: agreement %t after %s, %d wrong verdicts", n, ok, took, wrong)
		}
	}
}

// TestPartition: halves that were apart for 10 minutes are whole soon after.
func TestPartition(t *testing.T) {
	sizes := []int{100}
	apart := 2 * time.Minute
	if prove() {
		sizes, apart = []int{100, 500}, 10*time.Minute
	}
	for _, n := range sizes {
		s := newSimulation(n, 5)
		s.run(5 * time.Second)
		s.cut = func(a, b int) bool { return a < n/2 != (b < n/2) }
		split := func() bool {
			for i, nd := range s.nodes {
				for j := range s.nodes {
					if st, _ := nd.core.State(nodeName(j)); i != j && (st >= Failed) != s.cut(i, j) {
						return false
					}
				}
			}
			return true
		}
		noticed, ok := s.until(2*time.Minute, split)
		if !ok {
			t.Errorf("%d hosts: the halves do not agree after %s", n, noticed)
		}
		s.run(apart)
		if !split() {
			t.Errorf("%d hosts: wrong verdicts in a half", n)
		}
		s.cut = nil
		healed, ok := s.until(2*time.Minute, s.agree)
		t.Logf("%d hosts: apart after %s, whole after %s", n, noticed, healed)
		if !ok || healed > time.Minute {
			t.Errorf("%d hosts: whole again %t after %s", n, ok, healed)
		}
	}
}
