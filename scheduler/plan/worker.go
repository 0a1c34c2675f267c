package plan

import (
	"cmp"
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

const maxRTT = 10 * time.Second

// worker is what is known of one worker.
type worker struct {
	node cluster.NodeID
	host eligible.Worker // its index in the roster, too
	vital.Contact
	capacity
	queue
	vitals
	listed
	trust.Standing
	pace   pace.Worker
	orders step.Orders
	spent  bucket.Bucket // completions
	until  time.Duration // it gets nothing new before
	timer  timer         // wakes it at until, or when it becomes doubtful
	stray  map[job.Attempt]bool
}

// capacity is how much a worker takes.
type capacity struct {
	slots    int
	credits  int           // attempts that it takes in all, 0: it did not say
	rtt      time.Duration // to it and back, the log included; 0: not measured
	draining bool          // it finishes what it has and takes nothing new
	unready  bool          // it says that it cannot take anything now
	strain   uint64        // 1: its host has more to do than usual, and others come first
}

// ready reports that the worker takes something new.
func (c *capacity) ready() bool { return c.slots > 0 && !c.draining && !c.unready }

// window is how many attempts the worker may hold: what its slots run, and, if a
// chunk is known to take it unit, as much as they could finish in two round
// trips. An rtt that was not measured is taken to be usual.
func (c *capacity) window(unit time.Duration, known bool, usual time.Duration) int {
	if c.slots == 0 {
		return 0
	}
	n := 2 * c.slots
	if known {
		rate := float64(c.slots) / unit.Seconds()
		ahead := 2 * rate * cmp.Or(c.rtt, usual).Seconds()
		n = c.slots + int(min(max(1, math.Ceil(ahead)), 1<<20))
	}
	if c.credits > 0 {
		return min(max(2, n), c.credits)
	}
	return max(2, min(n, 2*c.slots))
}

// queue is the attempts that a worker has.
type queue struct {
	tries   []*try
	backlog uint64        // iterations of tries
	load    time.Duration // estimated time of tries in one slot
	unit    time.Duration // estimated time of its latest chunk
}

func (q *queue) add(t *try) {
	t.inWorker = len(q.tries)
	q.tries = append(q.tries, t)
	q.backlog += t.iterations
	q.load += t.load
	q.unit = t.load
}

func (q *queue) remove(t *try) {
	last := q.tries[len(q.tries)-1]
	q.tries[t.inWorker], last.inWorker = last, t.inWorker
	q.tries[len(q.tries)-1] = nil
	q.tries = q.tries[:len(q.tries)-1]
	q.backlog -= t.iterations
	q.load -= t.load
}

// serves reports that the worker takes part.
func (w *worker) serves() bool {
	return w.Healthy() && w.ready() && w.signal != vital.Stuck && !w.Distrusted()
}

// grace is how long it may be without a stream.
func (w *worker) grace(cfg *Config) time.Duration {
	if w.Stranger {
		return max(cfg.Grace, trust.Grace)
	}
	return cfg.Grace
}

// uncertain reports that what the worker has should run elsewhere too.
func (w *worker) uncertain(cfg *Config, now time.Duration) bool {
	if w.Connected {
		return !w.Healthy() || w.signal == vital.Stuck
	}
	return w.Health == cluster.Suspect || now-w.Since >= w.grace(cfg)
}

// holds is how many attempts the worker may have.
func (w *worker) holds(cfg *Config) int { return w.window(w.unit, w.pace.Latest() > 0, cfg.RTT) }

// hasRoom reports that the worker should get more. A window much wider than
// the slots is filled a quarter at a time, so that one batch carries many.
func (w *worker) hasRoom(cfg *Config, now time.Duration) bool {
	if now < w.until || w.Full(len(w.tries)) {
		return false
	}
	n, window := len(w.tries), w.holds(cfg)
	if w.open || n <= w.slots {
		return n < window
	}
	return window-n >= max(1, (window-w.slots)/4)
}

// drain is the time until the worker would be done with all it has and one
// chunk more.
func (w *worker) drain() uint64 {
	return uint64(max(0, w.load+w.unit)) / uint64(max(1, w.slots)) * (2 + w.strain) / 2
}

// standing is how the worker does, for its classes.
func (w *worker) standing() eligible.Standing {
	return eligible.Standing{Serves: w.serves(), Open: w.open, Drain: w.drain()}
}

// answers takes in that something came from the worker.
func (w *worker) answers(now time.Duration) { w.output, w.evictions = now, 0 }

func byName(a, b *worker) int { return cmp.Compare(a.node, b.node) }
