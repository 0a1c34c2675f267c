package backend

import (
	"sync"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// rateTracker measures how fast jobs progress, from one query to the next.
type rateTracker struct {
	mu   sync.Mutex
	jobs map[job.ID]*samples
}

// samples is a short history of one job, oldest first.
type samples struct {
	at   []time.Time
	done []uint64
}

const (
	rateWindow  = 10 * time.Second
	maxRateJobs = 1024
)

// rate returns iterations per second: over the last rateWindow while the job runs
// and is queried, otherwise over its whole life. 0 means unknown.
func (r *rateTracker) rate(j state.Job, now time.Time) float64 {
	if j.Started == 0 || j.Iterations == 0 {
		return 0
	}
	whole := j.Progress.Time().Sub(j.Started.Time()).Seconds()
	life := 0.0
	if whole > 0 {
		life = float64(j.Iterations) / whole
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.State.Final() {
		delete(r.jobs, j.ID)
		return life
	}
	if r.jobs == nil || len(r.jobs) > maxRateJobs {
		r.jobs = map[job.ID]*samples{}
	}
	s := r.jobs[j.ID]
	if s == nil {
		s = &samples{}
		r.jobs[j.ID] = s
	}
	for len(s.at) > 1 && now.Sub(s.at[0]) > rateWindow {
		s.at, s.done = s.at[1:], s.done[1:]
	}
	if n := len(s.at); n == 0 || now.Sub(s.at[n-1]) > rateWindow/50 {
		s.at, s.done = append(s.at, now), append(s.done, j.Iterations)
	}
	span := now.Sub(s.at[0])
	if span < rateWindow/4 || j.Iterations < s.done[0] {
		return life
	}
	return float64(j.Iterations-s.done[0]) / span.Seconds()
}
