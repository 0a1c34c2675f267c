package engine

import (
	"sync"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/clock"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/stat"
)

const (
	// queueTime is how old the oldest arrival may be that waits for a user; while it
	// is, what arrives is dropped.
	queueTime = 10 * time.Second
	maxQueue  = 1 << 20
	// rampTick is how often the number of closed users is looked at.
	rampTick = 50 * time.Millisecond
)

// traffic has users go through a flow.
type traffic struct {
	e     *Engine
	t     *load.Traffic
	flow  *load.Flow
	curve pace.Curve
	most  int // users of open traffic

	mu    sync.Mutex
	idle  []*user // the one that was busy last is next
	count int     // users there are
	busy  int
	queue []arrival
	done  bool // nothing more arrives
	spent bool // its rows are used up
	ended chan struct{}
}

// arrival is an iteration that is due.
type arrival struct {
	due time.Time
	own bool // a user was free: lateness is the generator's
}

func newTraffic(e *Engine, t *load.Traffic) *traffic {
	stages := t.Users
	if t.Open {
		stages = t.Rate
	}
	most := max(1, int(e.o.Deal.Count(uint64(t.MaxUsers)))) //nolint:gosec // a few thousand
	return &traffic{e: e, t: t, most: most, flow: e.o.Plan.Flows[t.Flow], curve: pace.New(t.Start, stages), ended: make(chan struct{})}
}

// run is the goroutine of a traffic.
func (t *traffic) run() {
	defer t.e.wait.Done()
	if t.t.Open {
		t.arrivals()
	} else {
		t.ramp()
	}
	t.finish()
}

// finish tells users that wait that nothing more comes.
func (t *traffic) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	close(t.ended)
	for _, u := range t.idle {
		close(u.wake)
	}
	t.idle = nil
}

// arrivals has iterations begin when they are due.
func (t *traffic) arrivals() {
	timer, err := clock.New(t.e.o.PlainTime)
	if err != nil {
		t.e.end(err.Error())
		return
	}
	defer timer.End()
	if !t.e.onEnd(timer.End) {
		return
	}
	next := due{t: t, next: t.sequence(0, t.e.o.Deal)}
	for {
		at, ok := next.wait(timer.Until)
		if !ok || t.e.isEnding() {
			return
		}
		t.arrive(at)
	}
}

// arrive gives an iteration to a user, or has it wait for one.
func (t *traffic) arrive(due time.Time) {
	if t.e.hold.Closed() || due.Sub(t.e.began) < t.e.joined { // it may be somebody else's, or long ago
		return
	}
	t.mu.Lock()
	if t.spent { // the end of its rows is the end of the traffic
		t.mu.Unlock()
		return
	}
	if n := len(t.idle); n > 0 {
		u := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.busy++
		t.mu.Unlock()
		u.wake <- arrival{due, true} // it has room: the user waits
		return
	}
	if t.count < t.most && t.e.admit() {
		t.count++
		t.busy++
		t.mu.Unlock()
		u := t.e.newUser(t.flow)
		t.e.wait.Add(1)
		go t.serve(u, arrival{due, true})
		return
	}
	full := len(t.queue) >= maxQueue || len(t.queue) > 0 && due.Sub(t.queue[0].due) > queueTime
	if !full {
		t.queue = append(t.queue, arrival{due: due})
	}
	t.mu.Unlock()
	if full {
		t.e.drop(t.flow, 1)
	}
}

// serve is the goroutine of a user of open traffic.
func (t *traffic) serve(u *user, a arrival) {
	defer t.e.wait.Done()
	defer t.e.leave()
	defer u.close()
	for ok := true; ok; a, ok = t.next(u) {
		if !u.iterate(a.due, a.own) {
			t.exhausted()
			return
		}
		t.think(u)
	}
}

// think has a user wait after an iteration, unless nothing follows.
func (t *traffic) think(u *user) {
	if t.t.ThinkMax == 0 {
		return
	}
	wait := time.NewTimer(u.between(t.t.ThinkMin, t.t.ThinkMax))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-t.ended:
	case <-t.e.over:
	}
}

// next is what a user does after an iteration.
func (t *traffic) next(u *user) (arrival, bool) {
	t.mu.Lock()
	if len(t.queue) > 0 && !t.e.isOver() {
		a := t.queue[0]
		t.queue = t.queue[1:]
		t.mu.Unlock()
		return a, true
	}
	t.busy--
	if t.done {
		t.mu.Unlock()
		return arrival{}, false
	}
	t.idle = append(t.idle, u)
	t.mu.Unlock()
	select {
	case a, ok := <-u.wake:
		return a, ok
	case <-t.e.over:
		return arrival{}, false
	}
}

// exhausted ends a traffic whose rows are used up.
func (t *traffic) exhausted() {
	t.mu.Lock()
	t.busy--
	t.queue = nil
	t.spent = true
	t.mu.Unlock()
	t.e.remark("traffic " + t.t.Name + ": its rows were used up")
}

// ramp has as many users as are wanted.
func (t *traffic) ramp() {
	var users []*user
	defer func() {
		for _, u := range users {
			u.leave.Store(true)
		}
	}()
	tick := time.NewTicker(rampTick)
	defer tick.Stop()
	for {
		now := time.Since(t.e.began)
		if now >= t.curve.End() || t.e.isEnding() {
			return
		}
		want := int(t.e.dealAt(now).Count(uint64(t.curve.Level(now) + 0.5))) //nolint:gosec // a few thousand
		for len(users) < want && t.e.admit() {
			u := t.e.newUser(t.flow)
			users = append(users, u)
			t.e.wait.Add(1)
			go t.loop(u)
		}
		for len(users) > want {
			users[len(users)-1].leave.Store(true)
			users = users[:len(users)-1]
		}
		select {
		case <-tick.C:
		case <-t.e.ending:
			return
		}
	}
}

// loop is the goroutine of a user of closed traffic.
func (t *traffic) loop(u *user) {
	defer t.e.wait.Done()
	defer t.e.leave()
	defer u.close()
	t.add(1)
	defer t.add(-1)
	intended := time.Time{}
	if t.t.Pace > 0 {
		intended = time.Now()
	}
	own := true
	for !u.leave.Load() && !t.e.isEnding() {
		if t.e.hold.Wait(t.e.ending) {
			if t.t.Pace > 0 {
				intended = time.Now()
			}
			continue
		}
		if !u.iterate(intended, own && t.t.Pace > 0) {
			t.e.remark("traffic " + t.t.Name + ": its rows were used up")
			return
		}
		t.think(u)
		if t.t.Pace == 0 {
			continue
		}
		intended = intended.Add(t.t.Pace)
		rest := time.Until(intended)
		own = rest > 0 // else the iteration before took too long
		if rest > 0 && !t.rest(rest) {
			return
		}
	}
}

// rest waits until an iteration is due, unless nothing follows.
func (t *traffic) rest(d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-t.ended:
		return false
	}
}

func (t *traffic) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy += n
}

// gauge tells how many users are busy and how many arrivals wait.
func (t *traffic) gauge() stat.Gauges {
	t.mu.Lock()
	defer t.mu.Unlock()
	return stat.Gauges{Users: t.busy, Queue: len(t.queue)}
}

// leftover drops what still waits.
func (t *traffic) leftover() {
	t.mu.Lock()
	n := len(t.queue)
	t.queue = nil
	t.mu.Unlock()
	t.e.drop(t.flow, n)
}
