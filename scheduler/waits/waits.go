package waits

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

const (
	// after is for how long reasons hold, or are others than those that were told, before
	// that is told.
	after = 30 * time.Second
	// most is how often that is told of one job.
	most = 8
	// atOnce bounds what is told of all jobs at one look; the others come at the next.
	atOnce = 64
)

// Log is what was told of the jobs that wait. The zero value is one of which nothing was.
type Log struct{ jobs map[job.ID]*told }

// told is what was told of one job.
type told struct {
	reasons string        // the last; "": none
	since   time.Duration // when they began to be others; 0: they are the same, or it does not wait
	times   int
}

// Look takes in which jobs wait now, and which have not ended, and returns what the log
// is to hear. How many workers stand under a reason may change without a word.
func (l *Log) Look(list []plan.Waiting, open func(job.ID) bool, now time.Duration) (out []event.JobWaits) {
	if l.jobs == nil {
		l.jobs = make(map[job.ID]*told)
	}
	maps.DeleteFunc(l.jobs, func(id job.ID, _ *told) bool { return !open(id) })
	waits := make(map[job.ID]bool, len(list))
	for _, w := range list {
		waits[w.Job] = true
		t := l.jobs[w.Job]
		if t == nil {
			t = &told{since: w.Since}
			l.jobs[w.Job] = t
		}
		switch reasons := key(w.Why); {
		case reasons == t.reasons:
			t.since = 0
		case t.since == 0:
			t.since = max(now, 1)
		case now-t.since >= after && t.times < most && len(out) < atOnce:
			t.reasons, t.since = reasons, 0
			t.times++
			out = append(out, body(w))
		}
	}
	for id, t := range l.jobs {
		if !waits[id] {
			t.since = 0
		}
	}
	return out
}

// key is the same for the same reasons.
func key(why eligible.Explanation) string {
	if why.Job.Reason != "" {
		return string(why.Job.Reason)
	}
	names := make([]string, len(why.Reasons))
	for i, o := range why.Reasons {
		names[i] = string(o.Reason)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func body(w plan.Waiting) event.JobWaits {
	out := event.JobWaits{Job: w.Job, Workers: w.Why.Workers, Eligible: w.Why.Eligible}
	if r := w.Why.Job.Reason; r != "" {
		out.Reasons = []event.WaitReason{{Reason: string(r)}}
		return out
	}
	for _, o := range w.Why.Reasons {
		out.Reasons = append(out.Reasons, event.WaitReason{Reason: string(o.Reason), Workers: len(o.Workers)})
	}
	return out
}
