package rates

import (
	"sync"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan"
)

// Running is what the workers say of the attempts of one job that run: only the
// holder knows it.
type Running struct {
	Attempts int
	Done     uint64  // iterations
	Rate     float64 // of all of them; 0: not known
}

// Of gathers what runs by job.
func Of(workers []plan.WorkerView) map[job.ID]Running {
	out := make(map[job.ID]Running)
	measured := make(map[job.ID]int)
	for _, w := range workers {
		for _, r := range w.Running {
			sum := out[r.Job]
			sum.Attempts += r.Attempts
			sum.Done += r.Done
			sum.Rate += r.Rate
			out[r.Job] = sum
			measured[r.Job] += r.Measured
		}
	}
	for id, sum := range out {
		if n := measured[id]; n > 0 { // those that just began do as the others
			sum.Rate *= float64(sum.Attempts) / float64(n)
			out[id] = sum
		}
	}
	return out
}

// Tracker measures jobs. The zero value is ready to use.
type Tracker struct {
	mu   sync.Mutex
	jobs map[job.ID]*samples
}

// samples are the latest changes of one job, oldest first.
type samples struct {
	at   []time.Time
	done []uint64
}

const (
	window  = 10 * time.Second
	maxJobs = 1024
	// few is how many chunks tell a rate, fewer do not: with chunks of a minute one or
	// none falls into a window.
	few = 8
	// patience is how many times the usual time between two results may pass until
	// a job whose chunks say nothing counts as standing still.
	patience = 4
)

// Rate is the iterations per second of a job of which that runs: by its latest results,
// if they are many, else by what runs, else by its whole life. One of which nothing came
// for much longer than usual has none. 0 means unknown.
func (t *Tracker) Rate(j state.Job, run Running, now time.Time) float64 {
	if j.Started == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.State.Final() {
		delete(t.jobs, j.ID)
		return lifelong(j)
	}
	recent := t.recent(j, now)
	idle := now.Sub(j.Progress.Time())
	still := j.Iterations == 0 || idle > window && (j.Counts.Assigned == 0 || idle > usualGap(j)*patience)
	switch {
	case recent > 0 && !still:
		return recent
	case run.Rate > 0:
		return run.Rate
	case still:
		return 0
	}
	return lifelong(j)
}

// recent is the rate by the results of the last window, or so much longer that they
// are enough; 0: they are not.
func (t *Tracker) recent(j state.Job, now time.Time) float64 {
	if t.jobs == nil || len(t.jobs) > maxJobs {
		t.jobs = map[job.ID]*samples{}
	}
	s := t.jobs[j.ID]
	if s == nil || j.Iterations < s.done[0] {
		s = &samples{}
		t.jobs[j.ID] = s
	}
	if n := len(s.at); n == 0 || j.Iterations != s.done[n-1] && now.Sub(s.at[n-1]) > window/50 {
		s.at, s.done = append(s.at, now), append(s.done, j.Iterations)
	}
	last := len(s.at) - 1
	from := last
	for from > 0 && (now.Sub(s.at[from-1]) <= window || s.done[last]-s.done[from] < few*j.Spec.Chunk) {
		from--
	}
	s.at, s.done, last = s.at[from:], s.done[from:], last-from
	span := s.at[last].Sub(s.at[0])
	if span < window/4 || s.done[last]-s.done[0] < few*j.Spec.Chunk {
		return 0
	}
	return float64(s.done[last]-s.done[0]) / span.Seconds()
}

// lifelong is the rate from the first assignment to the last result; 0: not known.
func lifelong(j state.Job) float64 {
	whole := j.Progress.Time().Sub(j.Started.Time()).Seconds()
	if j.Iterations == 0 || whole <= 0 {
		return 0
	}
	return float64(j.Iterations) / whole
}

// usualGap is the time after which another result of a job with results was due so
// far: results of chunks that began together come together.
func usualGap(j state.Job) time.Duration {
	each := j.Progress.Time().Sub(j.Started.Time()) / time.Duration(max(1, j.Counts.Accepted))
	return each * time.Duration(max(1, j.Counts.Assigned))
}
