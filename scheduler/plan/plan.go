package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Limits of the plan.
const (
	// MaxLost is how many attempts at one chunk may be lost with their
	// workers before it is given up.
	MaxLost = 16
	// MaxBackoff bounds the pause before a failed chunk is tried again.
	MaxBackoff = 5 * time.Second
	// MaxCells bounds chunks times metrics of a job: what its aggregates
	// hold in memory.
	MaxCells = 1 << 21

	firstBackoff = 100 * time.Millisecond
	maxAttempt   = 1 << 20 // attempt numbers above are no honest worker's
	scanLimit    = 16      // chunks of a job looked at for one assignment
)

// Config holds the plan's times. Zero fields take the default.
type Config struct {
	// Grace is how long a worker may be without a stream before its attempts
	// are copied elsewhere; default 1 s.
	Grace time.Duration
	// Recover is how long a worker that came back has to send the results of
	// attempts that it runs no more; default 2 s.
	Recover time.Duration
	// MinDeadline is the shortest time for an attempt; default 60 s.
	MinDeadline time.Duration
	// Overrun is added to the job's own limit; default 30 s.
	Overrun time.Duration
	// Starve is how long a job may wait without a fit worker before it is
	// told; default 30 s.
	Starve time.Duration
}

func (c Config) withDefaults() Config {
	return Config{
		Grace:       cmp.Or(c.Grace, time.Second),
		Recover:     cmp.Or(c.Recover, 2*time.Second),
		MinDeadline: cmp.Or(c.MinDeadline, time.Minute),
		Overrun:     cmp.Or(c.Overrun, 30*time.Second),
		Starve:      cmp.Or(c.Starve, 30*time.Second),
	}
}

// Plan is the state of all open jobs and of the workers in one term.
type Plan struct {
	cfg     Config
	jobs    []*job // in turn order
	turn    int    // whose turn it is
	byID    map[cluster.JobID]*job
	workers []*worker // by name
	expiry  time.Duration
	quiet   bool
	held    bool // nothing new is given out
	out     []Action
}

// New returns a plan without jobs and workers.
func New(cfg Config) *Plan {
	return &Plan{cfg: cfg.withDefaults(), byID: make(map[cluster.JobID]*job)}
}

// Step applies one event at a time that never falls and returns what to do.
func (p *Plan) Step(e Event, now time.Duration) []Action {
	if p.quiet {
		return nil
	}
	p.out = nil
	p.expire(now)
	switch e := e.(type) {
	case JobAdded:
		p.addJob(e, now)
	case JobStopped:
		p.stopJob(e)
	case WorkerConnected:
		p.connect(e, now)
	case WorkerDisconnected:
		if w := p.worker(e.Worker, now); w.connected {
			w.connected, w.since = false, now
		}
	case HealthChanged:
		p.setHealth(e, now)
	case Draining:
		p.worker(e.Worker, now).draining = e.On
	case Result:
		p.result(e, now)
	case Tick:
		p.starve(now)
	case Hold:
		p.held = e.On
	case Quiesce:
		p.quiet = true
		return p.out
	}
	if !p.held {
		p.fill(now)
		p.copySuspects(now)
	}
	return p.out
}

func (p *Plan) emit(a Action) { p.out = append(p.out, a) }

// expire takes back or fails what is overdue.
func (p *Plan) expire(now time.Duration) {
	if now < p.expiry {
		return
	}
	for _, w := range p.workers {
		for _, t := range slices.Clone(w.tries) {
			if now < t.deadline || t.gone {
				continue
			}
			if w.connected {
				p.cancel(w, t.ref())
			}
			switch {
			case t.lost:
				p.reclaim(t, "worker does not have it any more", now)
			case !w.healthy():
				p.reclaim(t, fmt.Sprintf("no result within %s and no healthy worker", t.limit), now)
			default:
				p.fail(t, fmt.Sprintf("no result within %s", t.limit), now)
			}
		}
	}
	p.expiry = now + time.Hour
	for _, w := range p.workers {
		for _, t := range w.tries {
			p.expiry = min(p.expiry, t.deadline)
		}
	}
}

// cancel stops one attempt; cancels of one job at one worker are gathered when
// they follow each other.
func (p *Plan) cancel(w *worker, r Ref) {
	try := Try{Chunk: r.Chunk, Attempt: r.Attempt}
	if n := len(p.out); n > 0 {
		if last, ok := p.out[n-1].(Cancel); ok && last.Worker == w.node && last.Job == r.Job && len(last.Chunks) > 0 {
			last.Chunks = append(last.Chunks, try)
			p.out[n-1] = last
			return
		}
	}
	p.emit(Cancel{Worker: w.node, Job: r.Job, Chunks: []Try{try}})
}

// Stats counts what is open.
type Stats struct {
	JobsPending, JobsRunning      int
	ChunksPending, ChunksAssigned int
}

// Stats counts what is open.
func (p *Plan) Stats() Stats {
	var s Stats
	for _, j := range p.jobs {
		if j.assigned == 0 && j.accepted == 0 && j.givenUp == 0 {
			s.JobsPending++
		} else {
			s.JobsRunning++
		}
		s.ChunksAssigned += j.assigned
		s.ChunksPending += len(j.chunks) - j.assigned - j.accepted - j.givenUp
	}
	return s
}

// WorkerView is what the plan knows of a worker.
type WorkerView struct {
	Worker    cluster.NodeID
	Connected bool
	Health    cluster.Health
	Slots     int
	Tries     int
	Backlog   uint64  // iterations assigned and not answered
	Rate      float64 // iterations per second; 0: not measured yet
}

// Workers describes the workers by name.
func (p *Plan) Workers() []WorkerView {
	out := make([]WorkerView, len(p.workers))
	for i, w := range p.workers {
		out[i] = WorkerView{
			Worker: w.node, Connected: w.connected, Health: w.health, Slots: w.slots,
			Tries: len(w.tries), Backlog: w.backlog, Rate: w.rate * float64(w.slots),
		}
	}
	return out
}
