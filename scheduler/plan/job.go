package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/ends"
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
	attempts
	failures ends.Failures
	metrics  *results.Pool
	times    results.Times
	waits    bool // for an operator: all that is open is given up
	starved  ends.Starvation
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

// jobTerm is how long a job may take, and the timer of its end.
type jobTerm struct {
	ends.Term
	timer timer
}

// attempts are those of a job that are open.
type attempts struct {
	tries   []*try
	strange int // at strangers
}

// add takes an open attempt in.
func (a *attempts) add(t *try) {
	t.inJob = len(a.tries)
	a.tries = append(a.tries, t)
	if t.strange {
		a.strange++
	}
}

// remove takes an attempt that ended out.
func (a *attempts) remove(t *try) {
	last := a.tries[len(a.tries)-1]
	a.tries[t.inJob], last.inJob = last, t.inJob
	a.tries = a.tries[:len(a.tries)-1]
	if t.strange {
		a.strange--
	}
}

// runs reports that members have some. Strangers, who need not get on, make a job neither
// run nor stuck.
func (a *attempts) runs() bool { return len(a.tries) > a.strange }

// spent reports that a chunk has no further try: its attempts failed as often as
// the job allows, and none is open.
func (j *openJob) spent(c *chunk) bool { return len(c.tries) == 0 && int(c.failed) >= j.spec.Attempts }

// hopeless reports that the job has shown that it cannot succeed.
func (j *openJob) hopeless() bool {
	if j.count[accepted] > 0 || j.failures.Attempts < 2*j.spec.Attempts || j.failures.Chunks < 2 {
		return false
	}
	fit := j.class.Fit(eligible.Own)
	if fit == 0 {
		fit = j.class.Fit(eligible.All)
	}
	return len(j.failures.On) > 1 || fit < 2
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
		j.starved.Idle = cmp.Or(j.starved.Idle, max(now, 1))
	} else {
		j.starved.Idle = 0
	}
	if j.count[assigned] > 0 || j.count[pending] == 0 || j.class.Fit(eligible.All) > 0 {
		j.starved.Since, j.starved.Reported = 0, false
		return false
	}
	return j.starved.Due(limit, now)
}

// idle is since when nothing of the job runs though something is to be done; 0: it
// is not so.
func (j *openJob) idle() time.Duration {
	if j.count[assigned] > 0 {
		return 0
	}
	return j.starved.Idle
}
