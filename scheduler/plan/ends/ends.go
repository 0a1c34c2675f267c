package ends

import (
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Term is how long a job may take.
type Term struct {
	Added time.Duration // when it was submitted
	Idle  time.Duration // when it got on last
}

// Next is the next time at which the job could be over; not ok: nothing bounds
// it. It is not stuck while nothing of it runs.
func (t *Term) Next(spec job.Spec, runs bool) (at time.Duration, ok bool) {
	at = math.MaxInt64
	if d := spec.Deadline(); d > 0 {
		at = t.Added + d
	}
	if d := spec.Stuck(); d > 0 && runs {
		at = min(at, t.Idle+d)
	}
	return at, at != math.MaxInt64
}

// Over says why the job is over now; without a reason it is not.
func (t *Term) Over(spec job.Spec, runs bool, now time.Duration) (cause job.StopCause, reason string) {
	switch d, stuck := spec.Deadline(), spec.Stuck(); {
	case d > 0 && now >= t.Added+d:
		return job.StopDeadline, fmt.Sprintf("its deadline of %s has come", d)
	case stuck > 0 && runs && now >= t.Idle+stuck:
		return job.StopStuck, fmt.Sprintf("none of its chunks got on for %s", stuck)
	}
	return "", ""
}

// Failures is what went wrong with a job since it began, or was released.
type Failures struct {
	Attempts int
	Chunks   int // that failed at least once
	On       map[cluster.NodeID]bool
	Reason   string // of the latest
}

// Add counts a failed attempt; first says that the chunk had not failed before.
func (f *Failures) Add(n cluster.NodeID, first bool) {
	if first {
		f.Chunks++
	}
	f.Attempts++
	f.On[n] = true
}

// Reset forgets what went wrong, but not the latest reason.
func (f *Failures) Reset() {
	f.Attempts, f.Chunks = 0, 0
	clear(f.On)
}

// NewFailures returns none.
func NewFailures() Failures { return Failures{On: make(map[cluster.NodeID]bool)} }

// Starvation is how long a job has waited, and how long while no worker is eligible.
type Starvation struct {
	Idle     time.Duration // nothing runs since though something is to be done; 0: it is not so
	Since    time.Duration // 0: it does not
	Reported bool
}

// Due takes in that the job still waits, and says whether that has to be reported
// now.
func (s *Starvation) Due(limit, now time.Duration) bool {
	if s.Since == 0 {
		s.Since = max(now, 1)
	}
	if s.Reported || now-s.Since < limit {
		return false
	}
	s.Reported = true
	return true
}
