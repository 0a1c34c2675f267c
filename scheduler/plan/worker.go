package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Bounds on what a worker says of its run times, in seconds.
const (
	minSeconds = 1e-6
	maxSeconds = 1e6
	// smooth is the weight of the latest measure in the rate.
	smooth = 0.2
)

type worker struct {
	node      cluster.NodeID
	health    cluster.Health // "" : nothing known, counts as alive
	connected bool
	since     time.Duration // when its stream was lost, or it was first heard of
	slots     int
	executors []string // see cluster.JobSpec.Needs
	draining  bool     // it finishes what it has and takes nothing new
	tries     []*try
	backlog   uint64  // iterations of tries
	rate      float64 // iterations per second of one slot, smoothed; 0: unknown
}

func (p *Plan) worker(n cluster.NodeID, now time.Duration) *worker {
	i, ok := slices.BinarySearchFunc(p.workers, n, func(w *worker, n cluster.NodeID) int {
		return strings.Compare(string(w.node), string(n))
	})
	if !ok {
		p.workers = slices.Insert(p.workers, i, &worker{node: n, since: now})
	}
	return p.workers[i]
}

// healthy reports that the worker may get new work.
func (w *worker) healthy() bool {
	switch w.health {
	case cluster.Suspect, cluster.Dead, cluster.Left:
		return false
	}
	return w.connected
}

// doubtful reports that what the worker has should run elsewhere too.
func (w *worker) doubtful(cfg Config, now time.Duration) bool {
	if w.connected {
		return !w.healthy()
	}
	return w.health == cluster.Suspect || now-w.since >= cfg.Grace
}

// fit reports that the worker may get chunks of j.
func (w *worker) fit(j *job) bool {
	return w.healthy() && w.slots > 0 && slices.Contains(w.executors, j.spec.Needs()) && !w.draining
}

// window is how many attempts the worker may hold.
func (w *worker) window() int {
	if w.slots == 0 {
		return 0
	}
	return max(2, 2*w.slots)
}

func (w *worker) setRate(iterations uint64, seconds float64) {
	r := float64(iterations) / seconds
	if w.rate == 0 {
		w.rate = r
		return
	}
	w.rate += smooth * (r - w.rate)
}

func (p *Plan) setHealth(e HealthChanged, now time.Duration) {
	w := p.worker(e.Worker, now)
	w.health = e.Health
	reason := "worker is dead"
	switch e.Health {
	case cluster.Dead:
	case cluster.Left:
		reason = "worker left"
	default:
		return
	}
	for _, t := range slices.Clone(w.tries) {
		if !t.gone {
			p.reclaim(t, reason, now)
		}
	}
}

// connect compares what the worker has with what the plan thinks it has.
func (p *Plan) connect(e WorkerConnected, now time.Duration) {
	w := p.worker(e.Worker, now)
	w.connected, w.slots, w.executors, w.draining = true, e.Slots, slices.Clone(e.Executors), e.Draining
	has := make(map[Ref]bool, len(e.Assigned))
	for _, r := range e.Assigned {
		has[r] = true
	}
	for _, t := range w.tries {
		if t.lost = !has[t.ref()]; t.lost {
			// Its result may follow on this stream; else it never got there, or
			// was lost in a restart.
			t.deadline = min(t.deadline, now+p.cfg.Recover)
			p.expiry = min(p.expiry, t.deadline)
		}
		delete(has, t.ref())
	}
	for _, r := range e.Assigned {
		if has[r] {
			delete(has, r)
			p.meet(w, r, now)
		}
	}
}

// meet decides about an attempt that a worker has and the plan does not know:
// an assignment that was lost with the holder that made it.
func (p *Plan) meet(w *worker, r Ref, now time.Duration) {
	j := p.byID[r.Job]
	if j == nil || r.Chunk < 0 || r.Chunk >= len(j.chunks) || r.Attempt < 1 {
		p.cancel(w, r)
		return
	}
	c := &j.chunks[r.Chunk]
	if c.state > assigned || r.Attempt > int(c.attempts)+cluster.MaxAttempts || len(w.tries) >= w.window() ||
		slices.ContainsFunc(c.tries, func(t *try) bool { return t.worker == w }) || w.health == cluster.Dead || w.health == cluster.Left {
		p.cancel(w, r)
		return
	}
	p.open(j, r.Chunk, r.Attempt, w, now)
	p.emit(Adopt{Worker: w.node, Job: j.id, Chunks: []Try{{Chunk: r.Chunk, Attempt: r.Attempt}}})
}
