package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/trials"
)

// Scheduler schedules while its host holds the lease. Its methods may be
// called from any goroutine.
type Scheduler struct {
	o   Options
	log zerolog.Logger
	m   *metrics

	trials  *trials.Line
	workers atomic.Pointer[[]plan.WorkerView] // nil: no term runs
	waiting atomic.Pointer[[]Waiting]

	mu      sync.Mutex
	member  map[cluster.NodeID]bool           // this host included
	health  map[cluster.NodeID]cluster.Health // of members and of hosts that may become some
	zone    map[cluster.NodeID]string
	changed chan struct{} // capacity 1, full: a change is pending already
	term    *term         // nil: no term runs

	// orders numbers Assign and Cancel frames, see stream.Assign. It belongs to
	// the loop of the running term, and rises when a term runs again too.
	orders uint64
	// unsure: an append of an earlier run failed, and what it held may be in the
	// log all the same, later than it can be seen. It belongs to the loop too.
	unsure bool
}

// New checks o. It starts nothing.
func New(o Options) (*Scheduler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("scheduler: register metrics: %w", err)
	}
	return &Scheduler{
		o: o, m: m, log: o.Logger.With().Str("component", "scheduler").Logger(),
		member:  map[cluster.NodeID]bool{o.Self: true},
		health:  make(map[cluster.NodeID]cluster.Health),
		changed: make(chan struct{}, 1),
		trials:  trials.New(),
	}, nil
}

// SetWorkers tells which hosts are members; this host always is. Hosts count
// as alive until SetHealth says otherwise; what a host that is no longer a member
// runs is taken back.
func (s *Scheduler) SetWorkers(nodes []cluster.NodeID) {
	s.mu.Lock()
	s.member = map[cluster.NodeID]bool{s.o.Self: true}
	for _, n := range nodes {
		s.member[n] = true
	}
	maps.DeleteFunc(s.health, func(n cluster.NodeID, _ cluster.Health) bool { return !s.member[n] })
	s.mu.Unlock()
	s.wake()
}

// SetHealth tells what is believed of a host. This host is alive to itself.
func (s *Scheduler) SetHealth(n cluster.NodeID, h cluster.Health) {
	if n == s.o.Self {
		return
	}
	s.mu.Lock()
	s.health[n] = h
	s.mu.Unlock()
	s.wake()
}

// SetZones tells in which zones the hosts are; those that are not named are in
// none.
func (s *Scheduler) SetZones(zones map[cluster.NodeID]string) {
	s.mu.Lock()
	s.zone = maps.Clone(zones)
	s.mu.Unlock()
	s.wake()
}

// zones are those of the members.
func (s *Scheduler) zones() map[cluster.NodeID]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[cluster.NodeID]string, len(s.member))
	for n := range s.member {
		out[n] = s.zone[n]
	}
	return out
}

func (s *Scheduler) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Scheduler) members() map[cluster.NodeID]cluster.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[cluster.NodeID]cluster.Health, len(s.member))
	for n := range s.member {
		out[n] = cluster.Alive
		if h, ok := s.health[n]; ok {
			out[n] = h
		}
	}
	return out
}

// Workers describes the workers as the running term sees them, by name, at
// most one tick old; nil while no term runs. The caller must not change it.
func (s *Scheduler) Workers() []plan.WorkerView {
	if v := s.workers.Load(); v != nil {
		return *v
	}
	return nil
}

// Waiting is a job of which nothing runs though something is to be done.
type Waiting struct {
	Job   job.ID
	Since time.Time
	Why   eligible.Explanation
}

// Waiting lists the jobs that wait, those that wait longest first, as of a moment ago:
// at once those that no worker may run, others after some seconds. It is nil while no
// term runs. The caller must not change it.
func (s *Scheduler) Waiting() []Waiting {
	if w := s.waiting.Load(); w != nil {
		return *w
	}
	return nil
}

// Wait says how much must be true before Submit answers.
type Wait string

// Values of Wait.
const (
	WaitLocal  Wait = "local"  // durable on this host
	WaitStable Wait = "stable" // survives the loss of this host
)

// Submission is the answer to Submit.
type Submission struct {
	Job     job.ID
	Spec    job.Spec // as it was logged
	Created bool     // false: it was submitted before
	// Voters is how many voters are known to hold the job; 1 after WaitLocal.
	Voters int
}

// Run schedules under term id until ctx ends, the lease is lost or the log
// refuses to take an event, and returns why. It may be called again, for the
// same term too: it starts from the log and from what the workers say.
func (s *Scheduler) Run(ctx context.Context, id cluster.Term) error {
	ctx, cancel := context.WithCancel(ctx)
	t := s.newTerm(id)
	s.mu.Lock()
	if s.term != nil {
		s.mu.Unlock()
		cancel()
		return fmt.Errorf("schedule term %d: a term runs already", id)
	}
	s.term = t
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { t.settling.Run(ctx) })
	wg.Go(func() { t.jobs.flows.Run(ctx) })

	err := t.loop(ctx)
	s.mu.Lock()
	s.term = nil
	s.mu.Unlock()
	cancel()
	t.refuse(err)
	t.links.wait()
	wg.Wait()
	t.m.jobs.Reset()
	t.m.open.Reset()
	t.m.unsettled.Set(0)
	t.m.service.End()
	s.workers.Store(nil)
	s.waiting.Store(nil)
	if errors.Is(err, ErrLeaseLost) {
		t.m.fenced.Inc()
	}
	return fmt.Errorf("schedule term %d: %w", id, err)
}
