package waits

import (
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

func waiting(id job.ID, since time.Duration, reasons ...eligible.Reason) plan.Waiting {
	w := plan.Waiting{Job: id, Since: since, Why: eligible.Explanation{Workers: 3}}
	for _, r := range reasons {
		w.Why.Reasons = append(w.Why.Reasons, eligible.Obstacle{Reason: r, Workers: []cluster.NodeID{"n1"}})
	}
	return w
}

func always(job.ID) bool { return true }

// What holds for half a minute is told once, and again what is something else for as long.
func TestWhenItIsTold(t *testing.T) {
	var l Log
	const start = time.Hour
	at := start
	look := func(after time.Duration, list ...plan.Waiting) string {
		t.Helper()
		at += after
		out := ""
		for _, e := range l.Look(list, always, at) {
			out += fmt.Sprintf("%s %d/%d %v;", e.Job, e.Eligible, e.Workers, e.Reasons)
		}
		return out
	}
	zone := waiting("j", start, eligible.LacksZone)
	both := waiting("j", start, eligible.LacksZone, eligible.Gone)
	swapped := waiting("j", start, eligible.Gone, eligible.LacksZone)
	held := waiting("j", start, eligible.LacksZone)
	held.Why.Job.Reason = eligible.Held
	for i, step := range []struct {
		after time.Duration
		list  []plan.Waiting
		want  string
	}{
		{29 * time.Second, []plan.Waiting{zone}, ""},
		{time.Second, []plan.Waiting{zone}, "j 0/3 [{zone 1}];"},
		{time.Hour, []plan.Waiting{zone}, ""},
		{time.Second, []plan.Waiting{both}, ""},
		{29 * time.Second, []plan.Waiting{swapped}, ""},
		{time.Second, []plan.Waiting{zone}, ""}, // as it was told
		{time.Second, []plan.Waiting{both}, ""},
		{30 * time.Second, []plan.Waiting{both}, "j 0/3 [{zone 1} {gone 1}];"},
		{time.Hour, []plan.Waiting{swapped}, ""},
		{time.Second, []plan.Waiting{held}, ""},
		{20 * time.Second, nil, ""}, // it runs for a while
		{20 * time.Second, []plan.Waiting{held}, ""},
		{30 * time.Second, []plan.Waiting{held}, "j 0/3 [{held 0}];"},
	} {
		if got := look(step.after, step.list...); got != step.want {
			t.Errorf("%d: told %q, want %q", i, got, step.want)
		}
	}
}

// What changes all the time is told eight times of a job, what many wait for some at a
// time, and of what has ended nothing is kept.
func TestBoundsOfWhatIsTold(t *testing.T) {
	var l Log
	n := 0
	for i := range 1000 {
		r := []eligible.Reason{eligible.Gone, eligible.LacksZone}[i/40%2]
		n += len(l.Look([]plan.Waiting{waiting("j", time.Hour, r)}, always, time.Hour+time.Duration(i)*time.Second))
	}
	if n != most {
		t.Errorf("told %d times", n)
	}
	var many []plan.Waiting
	for i := range 3*atOnce + 1 {
		many = append(many, waiting(job.ID(fmt.Sprint(i)), time.Hour, eligible.Busy))
	}
	seen := map[job.ID]bool{}
	for i := range 4 {
		out := l.Look(many, always, 2*time.Hour+time.Duration(i))
		if len(out) > atOnce {
			t.Errorf("%d at once", len(out))
		}
		for _, e := range out {
			if seen[e.Job] {
				t.Errorf("%s was told twice", e.Job)
			}
			seen[e.Job] = true
		}
	}
	if len(seen) != len(many) {
		t.Errorf("%d of %d jobs were told", len(seen), len(many))
	}
	l.Look(nil, func(id job.ID) bool { return id == "3" }, 3*time.Hour)
	if len(l.jobs) != 1 {
		t.Errorf("%d jobs are kept", len(l.jobs))
	}
}
