package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// Bounds on what a worker says of its run times, in seconds.
const (
	minSeconds = 1e-6
	maxSeconds = 1e6
	// smooth is the weight of the latest measure in a rate.
	smooth = 0.2
	maxRTT = 10 * time.Second
)

type worker struct {
	node      cluster.NodeID
	index     int32
	owner     string // whose worker it is; empty: nobody's in particular
	zone      string
	stranger  bool           // not run by a member of the cluster
	health    cluster.Health // "" : nothing known, counts as alive
	connected bool
	since     time.Duration // when its stream was lost, or it was first heard of
	revived   time.Duration // when it was last heard again after it counted as dead
	slots     int
	credits   int      // attempts that it takes in all, 0: it did not say
	executors []string // see job.Spec.Needs
	draining  bool     // it finishes what it has and takes nothing new
	unready   bool     // it says that it cannot take anything now
	open      bool     // it may get something now
	spare     bool     // and it has a free slot
	toldIn    uint64   // the step in which it was last assigned something
	told      []int    // which actions of that step these are
	doubtful  bool     // stands in Plan.doubtful
	tries     []*try
	backlog   uint64        // iterations of tries
	load      time.Duration // estimated time of tries in one slot
	unit      time.Duration // estimated time of its latest chunk
	speed     float64       // as compared with others at the same work; 0: not known
	rtt       time.Duration // to it and back, the log included; 0: not measured
	kinds     []pace
	spent     bucket.Bucket // completions
	until     time.Duration
	timer     timer // wakes it at until, or when it becomes doubtful
	output    time.Duration
	signal    Signal
	evictions int
	trust     trust
	stray     map[job.Attempt]bool // attempts that it told of and nobody asked for
}

func (p *Plan) worker(n cluster.NodeID, now time.Duration) *worker {
	if w := p.byNode[n]; w != nil {
		return w
	}
	w := &worker{node: n, since: now, revived: now, output: now}
	w.timer.worker = w
	if free := len(p.vacant); free > 0 {
		w.index, p.vacant = p.vacant[free-1], p.vacant[:free-1]
		p.workers[w.index] = w
	} else {
		w.index = int32(len(p.workers))
		p.workers = append(p.workers, w)
	}
	p.byNode[n] = w
	return w
}

// forget drops a worker that is gone for good.
func (p *Plan) forget(w *worker, now time.Duration) {
	if w.health != cluster.Left || w.connected || len(w.tries) > 0 {
		return
	}
	p.review(w, now) // it leaves every class
	p.timers.Remove(&w.timer)
	for _, k := range p.kinds {
		k.excluded = slices.DeleteFunc(k.excluded, func(o *worker) bool { return o == w })
	}
	delete(p.byNode, w.node)
	p.workers[w.index] = nil
	p.vacant = append(p.vacant, w.index)
}

// healthy reports that the worker may get new work: it is alive and its stream
// is open.
func (w *worker) healthy() bool {
	switch w.health {
	case cluster.Suspect, cluster.Dead, cluster.Left:
		return false
	}
	return w.connected
}

// serves reports that the worker takes part.
func (w *worker) serves() bool {
	return w.healthy() && w.slots > 0 && !w.draining && !w.unready && w.signal != Stuck
}

// uncertain reports that what the worker has should run elsewhere too.
func (w *worker) uncertain(cfg Config, now time.Duration) bool {
	if w.connected {
		return !w.healthy() || w.signal == Stuck
	}
	return w.health == cluster.Suspect || now-w.since >= cfg.Grace
}

// doubt keeps Plan.doubtful and the timer that lets a worker become doubtful.
func (p *Plan) doubt(w *worker, now time.Duration) {
	if is := w.uncertain(p.cfg, now); is != w.doubtful {
		w.doubtful = is
		if is {
			p.doubtful = append(p.doubtful, w)
		} else {
			p.doubtful = slices.DeleteFunc(p.doubtful, func(o *worker) bool { return o == w })
		}
	}
	switch {
	case !w.connected && !w.doubtful:
		p.set(&w.timer, w.since+p.cfg.Grace)
	case now < w.until:
		p.set(&w.timer, w.until)
	}
}

// wake handles a worker's timer.
func (p *Plan) wake(w *worker, now time.Duration) {
	if w.signal == Stuck && now >= w.until {
		w.signal, w.output = Idle, now // another chance
	}
	p.review(w, now)
}

// window is how many attempts the worker may hold: what its slots run, and as
// much as they could finish in two round trips.
func (w *worker) window(cfg Config) int {
	if w.slots == 0 {
		return 0
	}
	n := 2 * w.slots
	if len(w.kinds) > 0 && w.kinds[0].rate > 0 {
		rate := float64(w.slots) / w.unit.Seconds()
		ahead := 2 * rate * cmp.Or(w.rtt, cfg.RTT).Seconds()
		n = w.slots + int(min(max(1, math.Ceil(ahead)), 1<<20))
	}
	if w.credits > 0 {
		return min(max(2, n), w.credits)
	}
	return max(2, min(n, 2*w.slots))
}

// hasRoom reports that the worker should get more. A window much wider than
// the slots is filled a quarter at a time, so that one batch carries many.
func (p *Plan) hasRoom(w *worker, now time.Duration) bool {
	if now < w.until {
		return false
	}
	n, window := len(w.tries), w.window(p.cfg)
	if w.open || n <= w.slots {
		return n < window
	}
	return window-n >= max(1, (window-w.slots)/4)
}

// drain is the time until the worker would be done with all it has and one
// chunk more.
func (w *worker) drain() uint64 {
	return uint64(max(0, w.load+w.unit)) / uint64(max(1, w.slots))
}

func (p *Plan) setHealth(e step.HealthChanged, now time.Duration) {
	w := p.worker(e.Worker, now)
	if w.health == cluster.Dead && e.Health != cluster.Dead {
		w.revived = now
	}
	w.health = e.Health
	reason := "worker is dead"
	switch e.Health {
	case cluster.Dead:
	case cluster.Left:
		reason = "worker left"
	default:
		p.review(w, now)
		return
	}
	p.reclaimAll(w, reason, now)
	p.review(w, now)
	p.forget(w, now)
}

// reclaimAll takes back everything that w has.
func (p *Plan) reclaimAll(w *worker, reason string, now time.Duration) {
	for _, t := range slices.Clone(w.tries) {
		if !t.gone {
			p.reclaim(t, reason, now)
		}
	}
}

func (p *Plan) disconnect(e step.WorkerDisconnected, now time.Duration) {
	w := p.worker(e.Worker, now)
	if w.connected {
		w.connected, w.since = false, now
	}
	p.review(w, now)
	p.forget(w, now)
}

// connect compares what the worker has with what the plan thinks it has.
func (p *Plan) connect(e step.WorkerConnected, now time.Duration) {
	w := p.worker(e.Worker, now)
	w.connected, w.slots, w.credits, w.executors = true, e.Slots, e.Credits, slices.Clone(e.Executors)
	w.draining, w.unready, w.owner, w.stranger = e.Draining, false, e.Owner, e.Stranger
	if w.output = now; w.signal == Stuck && now >= w.until {
		w.signal = Idle
	}
	has := make(map[job.Attempt]bool, len(e.Assigned))
	for _, r := range e.Assigned {
		has[r.At(w.node)] = true
	}
	for _, t := range w.tries {
		if t.lost = !has[t.ref()]; t.lost {
			// Its result may follow on this stream; else it never got there, or
			// was lost in a restart.
			p.shorten(t, now+p.cfg.Recover)
		}
		delete(has, t.ref())
	}
	for _, r := range e.Assigned {
		if r = r.At(w.node); has[r] {
			delete(has, r)
			p.meet(w, r, now)
		}
	}
	p.review(w, now)
}

// meet decides about an attempt that a worker has and the plan does not know:
// an assignment that was lost with the holder that made it.
func (p *Plan) meet(w *worker, r job.Attempt, now time.Duration) {
	j := p.byID[r.Job]
	if j == nil || r.Chunk < 0 || r.Chunk >= len(j.chunks) || r.Number < 1 {
		p.cancel(w, r, "the attempt is unknown")
		return
	}
	c := &j.chunks[r.Chunk]
	if c.state > assigned || r.Number > int(c.attempts)+job.MaxAttempts || len(w.tries) >= w.window(p.cfg) || !p.allows(j.class, w) ||
		c.at(w) != nil || w.health == cluster.Dead || w.health == cluster.Left {
		p.cancel(w, r, "the attempt is not needed")
		return
	}
	p.open(j, r.Chunk, r.Number, w, now)
	p.emit(step.Adopt{Worker: w.node, Job: j.id, Chunks: []job.Attempt{{Chunk: r.Chunk, Number: r.Number, Worker: w.node}}})
}
