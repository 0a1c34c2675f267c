package engine

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/cookies"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/stat"
	"github.com/skein-project/skein/load/tally"
)

// user goes through a flow, one iteration after the other.
type user struct {
	e     *Engine
	flow  *load.Flow
	n     uint64
	bank  *tally.Shard
	wake  chan arrival // of open traffic
	leave atomic.Bool  // of closed traffic: this iteration is the last
	iter  uint64
	lanes []*lane // one for each step that runs at a time

	// What steps that run at a time share.
	mu  turns
	rng *rand.Rand
	values
	rows [][]string
	jar  cookies.Jar
	own
	failed []bool // by step
}

// turns is a lock for steps that run at a time. Where they go one after the other, on the
// goroutine of the user, there is nobody to lock out.
type turns struct {
	sync.Mutex
	alone bool
}

// Lock implements sync.Locker.
func (t *turns) Lock() {
	if !t.alone {
		t.Mutex.Lock()
	}
}

// Unlock implements sync.Locker.
func (t *turns) Unlock() {
	if !t.alone {
		t.Mutex.Unlock()
	}
}

// values are what was extracted.
type values struct {
	slots [][]byte
	kept  [][]byte // memory of slots, used again where steps go one after the other
}

// own are the connections of a user, with connections = "user".
type own struct {
	idle      []*conn
	byVersion byVersion
}

// lane is the memory of one request at a time.
type lane struct {
	u       *user
	in      load.Input
	scratch []byte // values of the head, one after the other
	pairs   []pair
	target  []byte
	body    []byte
	request []byte
	answer  answer
	header  func(name string) string
	view    load.Answer
	checks  []bool
	sample  stat.Sample
	begin   time.Time
	ended   time.Time            // when the last byte came
	open    atomic.Pointer[conn] // what is to be closed to end it
}

// pair is a field of a request's head; its value lies in scratch.
type pair struct {
	name       string
	begin, end int
}

func (e *Engine) newUser(flow *load.Flow) *user {
	n := e.users.Add(1) - 1
	u := &user{
		e: e, flow: flow, n: n, bank: e.shards[n%uint64(len(e.shards))], wake: make(chan arrival, 1),
		rng: rand.New(rand.NewPCG(e.o.Seed, n)), values: values{slots: make([][]byte, len(e.o.Plan.Slots))}, failed: make([]bool, len(flow.Steps)),
		mu: turns{alone: !flow.Graph},
	}
	if !flow.Graph {
		u.kept = make([][]byte, len(u.slots))
	}
	if len(e.o.Plan.Sets) > 0 {
		u.rows = make([][]string, len(e.o.Plan.Sets))
	}
	return u
}

// takeLane is a lane that no step uses now.
func (u *user) takeLane() *lane {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.lanes); n > 0 {
		l := u.lanes[n-1]
		u.lanes = u.lanes[:n-1]
		return l
	}
	l := &lane{u: u}
	l.header = l.answer.get // a method is made a value once
	l.in = load.Input{User: u.n, Rand: u.random, Now: time.Now}
	u.e.track(l)
	return l
}

func (u *user) putLane(l *lane) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lanes = append(u.lanes, l)
}

func (u *user) random() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rng.Uint64()
}

// between is a time of a range.
func (u *user) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(u.random()%uint64(high-low+1))
}

// pause waits, until the run is over.
func (u *user) pause(d time.Duration) bool {
	if d <= 0 {
		return !u.e.isOver()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-u.e.over:
		return false
	}
}

// iterate goes through the flow once. Own says that the lateness until now is the
// generator's. It reports false when rows are used up.
func (u *user) iterate(intended time.Time, own bool) bool {
	u.iter++
	clear(u.failed)
	copy(u.slots, u.e.globals)
	for i := len(u.e.globals); i < len(u.slots); i++ {
		u.slots[i] = nil
	}
	if !u.e.deal(u) {
		return false
	}
	if u.e.o.Plan.HTTP.Cookies == "iteration" {
		u.jar.Clear()
	}
	if u.flow.Graph {
		u.graph(intended, own)
	} else {
		l := u.takeLane()
		for i, st := range u.flow.Steps {
			if u.e.isOver() {
				break
			}
			u.step(l, i, intended, own)
			intended, own = time.Time{}, false
			if st.ThinkMax > 0 && !u.pause(u.between(st.ThinkMin, st.ThinkMax)) {
				break
			}
		}
		u.putLane(l)
	}
	u.bank.Iteration()
	return true
}

// graph has steps begin as soon as those that they come after have ended.
func (u *user) graph(intended time.Time, own bool) {
	steps := u.flow.Steps
	waits := make([]int, len(steps))
	var mu sync.Mutex
	var all sync.WaitGroup
	var begin func(i int, first bool)
	begin = func(i int, first bool) {
		defer all.Done()
		st := steps[i]
		skip := false
		mu.Lock()
		for _, j := range st.After {
			skip = skip || u.failed[j]
		}
		mu.Unlock()
		ok := false
		switch {
		case u.e.isOver():
		case skip:
			u.skip(st)
		default:
			l := u.takeLane()
			at, mine := time.Time{}, false
			if first {
				at, mine = intended, own
			}
			ok = u.perform(l, st, at, mine)
			u.putLane(l)
			if st.ThinkMax > 0 {
				u.pause(u.between(st.ThinkMin, st.ThinkMax))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		u.failed[i] = !ok
		for k, other := range steps {
			for _, j := range other.After {
				if j != i {
					continue
				}
				if waits[k]--; waits[k] == 0 {
					all.Add(1)
					go begin(k, false)
				}
			}
		}
	}
	for k, st := range steps {
		waits[k] = len(st.After)
	}
	for k, st := range steps {
		if len(st.After) == 0 {
			all.Add(1)
			go begin(k, true)
		}
	}
	all.Wait()
}

func (u *user) step(l *lane, i int, intended time.Time, own bool) {
	u.failed[i] = !u.perform(l, u.flow.Steps[i], intended, own)
}

func (u *user) skip(st *load.Step) {
	u.bank.Record(&stat.Sample{Series: st.Series, Class: load.Skipped})
}

// close ends its connections.
func (u *user) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.idle {
		c.Close()
	}
	u.idle = nil
	u.byVersion.close()
}

// takeConn is an idle connection to an origin that is still good; nil: none.
func (u *user) takeConn(o *reach.Origin, now time.Time) *conn {
	for {
		c := u.anyIdle(o)
		if c == nil {
			return nil
		}
		if !c.gone() && c.Alive(now) {
			return c
		}
		c.Close()
	}
}

func (u *user) anyIdle(o *reach.Origin) *conn {
	if u.e.shared {
		return u.e.pool.take(o)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, c := range slices.Backward(u.idle) {
		if c.o == o {
			u.idle = append(u.idle[:i], u.idle[i+1:]...)
			return c
		}
	}
	return nil
}

// maxIdle bounds the connections that a user keeps.
const maxIdle = 64

func (u *user) putConn(c *conn) {
	switch {
	case u.e.each || u.e.isOver():
		c.Close()
	case u.e.shared:
		u.e.pool.put(c)
	default:
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.idle) >= maxIdle {
			c.Close()
			return
		}
		u.idle = append(u.idle, c)
	}
}
