package plan

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/results"
)

// openJob is a job that has not ended.
type openJob struct {
	id    job.ID
	spec  job.Spec
	owner string
	class *eligible.Class
	kind  *pace.Kind
	place fair.Place[*openJob] // in the line of its owner
	state jobState
	term  jobTerm
	board
	tries    []*try
	failures failures
	metrics  *results.Pool
	times    results.Times
	waits    bool // for an operator: all that is open is given up
	starved  starvation
}

// become is the only place where a job changes its state.
func (j *openJob) become(to jobState) {
	if !jobMoves[j.state][to] {
		panic(fmt.Sprintf("plan: job %s cannot go from %s to %s", j.id, j.state, to))
	}
	j.state = to
}

// start takes in that something of the job was handed out, or has a result.
func (j *openJob) start() {
	if j.state == queued {
		j.become(running)
	}
}

// limit is the longest time for one attempt that need not queue.
func (j *openJob) limit(cfg *Config) time.Duration {
	return max(cfg.MinDeadline, 5*j.times.Quantile(0.99), j.spec.Timeout()+cfg.Overrun)
}

// add takes an open attempt in.
func (j *openJob) add(t *try) {
	t.inJob = len(j.tries)
	j.tries = append(j.tries, t)
}

// remove takes an attempt that ended out.
func (j *openJob) remove(t *try) {
	last := j.tries[len(j.tries)-1]
	j.tries[t.inJob], last.inJob = last, t.inJob
	j.tries = j.tries[:len(j.tries)-1]
}

// spent reports that a chunk has no further try: its attempts failed as often as
// the job allows, and none is open.
func (j *openJob) spent(c *chunk) bool { return len(c.tries) == 0 && int(c.failed) >= j.spec.Attempts }

// hopeless reports that the job has shown that it cannot succeed.
func (j *openJob) hopeless() bool {
	if j.count[accepted] > 0 || j.failures.attempts < 2*j.spec.Attempts || j.failures.chunks < 2 {
		return false
	}
	return len(j.failures.on) > 1 || j.class.Fit() < 2
}

// enough says why the job may stop early, or "".
func (j *openJob) enough() string {
	stop := j.spec.EarlyStop
	if j.count[accepted] == len(j.chunks) || !j.metrics.Known(stop) {
		return ""
	}
	return fmt.Sprintf("stopped early: the relative error of metric %q is below %g after %s", stop.Metric, stop.RelError, j.share(accepted))
}

// starves says whether it has to be reported now that the job waits while no
// worker is eligible.
func (j *openJob) starves(limit, now time.Duration) bool {
	if j.count[assigned] == 0 && (j.count[pending] > 0 || j.waits) {
		j.starved.idle = cmp.Or(j.starved.idle, max(now, 1))
	} else {
		j.starved.idle = 0
	}
	if j.count[assigned] > 0 || j.count[pending] == 0 || j.class.Fit() > 0 {
		j.starved.since, j.starved.reported = 0, false
		return false
	}
	return j.starved.due(limit, now)
}

// idle is since when nothing of the job runs though something is to be done; 0: it
// is not so.
func (j *openJob) idle() time.Duration {
	if j.count[assigned] > 0 {
		return 0
	}
	return j.starved.idle
}

// jobTerm is how long a job may take.
type jobTerm struct {
	added time.Duration // when it was submitted
	idle  time.Duration // when it got on last
	timer timer         // of its end
}

// next is the next time at which the job could be over; not ok: nothing bounds
// it. It is not stuck while nothing of it runs.
func (t *jobTerm) next(spec job.Spec, runs bool) (at time.Duration, ok bool) {
	at = math.MaxInt64
	if d := spec.Deadline(); d > 0 {
		at = t.added + d
	}
	if d := spec.Stuck(); d > 0 && runs {
		at = min(at, t.idle+d)
	}
	return at, at != math.MaxInt64
}

// over says why the job is over now; without a reason it is not.
func (t *jobTerm) over(spec job.Spec, runs bool, now time.Duration) (cause job.StopCause, reason string) {
	switch d, stuck := spec.Deadline(), spec.Stuck(); {
	case d > 0 && now >= t.added+d:
		return job.StopDeadline, fmt.Sprintf("its deadline of %s has come", d)
	case stuck > 0 && runs && now >= t.idle+stuck:
		return job.StopStuck, fmt.Sprintf("none of its chunks got on for %s", stuck)
	}
	return "", ""
}

// failures is what went wrong with a job since it began, or was released.
type failures struct {
	attempts int
	chunks   int // that failed at least once
	on       map[cluster.NodeID]bool
	reason   string // of the latest
}

// add counts a failed attempt; first says that the chunk had not failed before.
func (f *failures) add(n cluster.NodeID, first bool) {
	if first {
		f.chunks++
	}
	f.attempts++
	f.on[n] = true
}

// reset forgets what went wrong, but not the latest reason.
func (f *failures) reset() {
	f.attempts, f.chunks = 0, 0
	clear(f.on)
}

// starvation is how long a job has waited, and how long while no worker is eligible.
type starvation struct {
	idle     time.Duration // nothing runs since though something is to be done; 0: it is not so
	since    time.Duration // 0: it does not
	reported bool
}

// due takes in that the job still waits, and says whether that has to be reported
// now.
func (s *starvation) due(limit, now time.Duration) bool {
	if s.since == 0 {
		s.since = max(now, 1)
	}
	if s.reported || now-s.since < limit {
		return false
	}
	s.reported = true
	return true
}

func newFailures() failures { return failures{on: make(map[cluster.NodeID]bool)} }
