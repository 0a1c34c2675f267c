package plan

import (
	"cmp"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/order"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// Limits of the plan.
const (
	// MaxBackoff bounds the pause before a failed chunk is tried again.
	MaxBackoff = 5 * time.Second
	// MaxCells bounds chunks times metrics of a job: what its aggregates
	// hold in memory.
	MaxCells = 1 << 21

	firstBackoff = 100 * time.Millisecond
	maxAttempt   = 1 << 20 // attempt numbers above are no honest worker's
	scanLimit    = 16      // chunks of a job looked at for one assignment
	maxHosts     = 4       // hosts on which a chunk may fail before it is parked
	minExtension = time.Second
	minTimed     = 3               // run times to know before attempts count as late
	minCopyAge   = 2 * time.Second // of an attempt that is copied near the end
	floodFactor  = 4
)

// Config holds the plan's times and limits. Zero fields take the default.
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
	// Stuck is how long work that gets on may stand still; default 120 s.
	Stuck time.Duration
	// RTT is the round trip to a worker that was not measured, the log
	// included; default 5 ms.
	RTT time.Duration
	// Ageing is how much longer a job waits per step of priority; default 1 s.
	Ageing time.Duration
	// Owner bounds what one owner may submit.
	Owner OwnerLimits
	// MaxJobs bounds the open jobs; 0: no limit.
	MaxJobs int
	// Completions bounds how many results per second one worker is given work
	// for; zero: no limit.
	Completions bucket.Rate
}

func (c Config) withDefaults() Config {
	c.Grace = cmp.Or(c.Grace, time.Second)
	c.Recover = cmp.Or(c.Recover, 2*time.Second)
	c.MinDeadline = cmp.Or(c.MinDeadline, time.Minute)
	c.Overrun = cmp.Or(c.Overrun, 30*time.Second)
	c.Starve = cmp.Or(c.Starve, 30*time.Second)
	c.Stuck = cmp.Or(c.Stuck, 2*time.Minute)
	c.RTT = cmp.Or(c.RTT, 5*time.Millisecond)
	c.Ageing = cmp.Or(c.Ageing, time.Second)
	return c
}

// Plan is the state of all open jobs and of the workers in one term.
type Plan struct {
	cfg   Config
	now   time.Duration
	quiet bool
	held  bool // nothing new is given out
	out   []step.Action
	armed uint64 // counts what needs an order
	steps uint64

	jobs   []*openJob // in the order in which they came
	byID   map[job.ID]*openJob
	timers order.Heap[*timer]
	copies int // open attempts near the end of jobs

	accounts map[string]*account
	ring     []*account // with jobs that wait
	turn     int        // whose turn it is
	quantum  time.Duration
	dearest  time.Duration // chunk of this round
	passed   []*openJob    // scratch

	workers  []*worker // by index, nil: vacant
	vacant   []int32
	byNode   map[cluster.NodeID]*worker
	roomy    int // workers that may get something now
	spare    int // those of them with a free slot
	doubtful []*worker
	classes  []*class
	kinds    map[kindKey]*kind
	groups   map[string]map[string]bool
	healthAt time.Duration
	evictAt  time.Duration
}

// New returns a plan without jobs and workers.
func New(cfg Config) *Plan {
	return &Plan{
		cfg: cfg.withDefaults(), byID: make(map[job.ID]*openJob), byNode: make(map[cluster.NodeID]*worker),
		accounts: make(map[string]*account), kinds: make(map[kindKey]*kind), groups: make(map[string]map[string]bool),
	}
}

// Step applies one event at a time that never falls and returns what to do, in
// a slice that is good until the next Step.
func (p *Plan) Step(e step.Event, now time.Duration) []step.Action {
	if p.quiet {
		return nil
	}
	clear(p.out)
	p.out, p.now = p.out[:0], now
	p.steps++
	p.expire(now)
	switch e := e.(type) {
	case step.JobAdded:
		p.addJob(e, now)
	case step.JobStopped:
		p.stopJob(e)
	case step.JobReleased:
		p.release(e, now)
	case step.WorkerConnected:
		p.connect(e, now)
	case step.WorkerDisconnected:
		p.disconnect(e, now)
	case step.WorkerStatus:
		p.status(e, now)
	case step.WorkerHolds:
		p.holds(e, now)
	case step.Draining:
		p.drains(e, now)
	case step.RoundTrip:
		w := p.worker(e.Worker, now)
		w.rtt = min(max(e.Time, 0), maxRTT)
		p.place(w, now)
	case step.HostKnown:
		p.describe(e, now)
	case step.GroupChanged:
		p.setGroup(e)
	case step.HealthChanged:
		p.setHealth(e, now)
	case step.Result:
		p.result(e, now)
	case step.Tick:
		p.checkHealth(now)
		p.starve(now)
	case step.Hold:
		p.held = e.On
	case step.Quiesce:
		p.quiet = true
		return p.out
	}
	if !p.held {
		p.fill(now)
		p.copyDoubtful(now)
		if _, ok := e.(step.Tick); ok {
			p.copyLast(now)
		}
	}
	return p.out
}

func (p *Plan) emit(a step.Action) { p.out = append(p.out, a) }

// cancel stops one attempt; cancels of one job at one worker are gathered when
// they follow each other.
func (p *Plan) cancel(w *worker, r job.Attempt, reason string) {
	try := job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: w.node}
	if n := len(p.out); n > 0 {
		if last, ok := p.out[n-1].(step.Cancel); ok && last.Worker == w.node && last.Job == r.Job && len(last.Chunks) > 0 && last.Reason == reason {
			last.Chunks = append(last.Chunks, try)
			p.out[n-1] = last
			return
		}
	}
	p.emit(step.Cancel{Worker: w.node, Job: r.Job, Chunks: []job.Attempt{try}, Reason: reason})
}

// Stats counts what is open.
type Stats struct {
	JobsPending, JobsRunning      int
	ChunksPending, ChunksAssigned int
	JobsStarved                   int // of all, those that no worker may run
}

// Stats counts what is open.
func (p *Plan) Stats() Stats {
	var s Stats
	for _, j := range p.jobs {
		if j.state == queued {
			s.JobsPending++
		} else {
			s.JobsRunning++
		}
		if j.starving > 0 {
			s.JobsStarved++
		}
		s.ChunksAssigned += j.count[assigned]
		s.ChunksPending += j.count[pending]
	}
	return s
}
