package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/runs"
)

// TestRetryGoesOn: of a step that failed in part a retry of the run computes what was given
// up, with the same job, in another term as well; a day later that has ended, and all of it
// is computed, as it is with --from.
func TestRetryGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		from  string
		jobs  int // of the step
		state job.State
	}{
		"at once":   {0, "", 1, job.Completed},
		"by day":    {20 * time.Hour, "", 1, job.Completed},
		"late":      {25 * time.Hour, "", 2, job.Partial},
		"from half": {0, "half", 2, job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlowRig(t)
				defer f.close()
				stop := f.run(1)
				defer func() { _ = stop() }()
				clean := flowStep("clean")
				clean.Role = flow.RoleTeardown
				id := f.submitFlow(flow.Def{Steps: []flow.Step{flowStep("half"), flowStep("next", "half"), clean}})
				f.until(time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
				if got, want := said(f.flowRun(id)), "failed clean[0]#1:completed0.5 half[0]#1:partial"; got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
				first := f.flowRun(id).Tries[1].Job
				_ = stop()
				time.Sleep(c.after)
				stop = f.run(2)
				if c.after > 24*time.Hour {
					time.Sleep(time.Minute) // it is looked for every ten seconds
				}
				if _, err := f.ask(runs.Request{Retry: &event.WorkflowRetried{Run: id, From: c.from}}); err != nil {
					t.Fatal(err)
				}
				f.until(time.Minute, "end of the second round", func() bool { r := f.flowRun(id); return !r.Open() })
				want := "completed clean[0]#1:completed0.5 half[0]#1:partial half[0]#2:completed0.5 next[0]#1:completed0.5"
				if c.from != "" {
					want = strings.Replace(want, " half", " clean[0]#2:completed0.5 half", 1) // it follows all
				}
				if got := said(f.flowRun(id)); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				jobs := 0
				f.log.View(func(st *state.State) {
					for _, j := range st.Jobs() {
						if j.Spec.Name == "half" {
							jobs++
						}
					}
					if j, _ := st.Job(first); j.State != c.state {
						t.Errorf("the first job is %s, want %s", j.State, c.state)
					}
				})
				f.log.accepts(t) // nothing counts twice
				if jobs != c.jobs {
					t.Errorf("%d jobs, want %d", jobs, c.jobs)
				}
			})
		})
	}
}
