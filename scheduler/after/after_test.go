package after

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

func id(n int) job.ID { return job.NewID("uid:1", fmt.Sprint(n)) }

// TestJudge: each way to wait for a job, against each way in which that can be.
func TestJudge(t *testing.T) {
	states := []job.State{job.Pending, job.Queued, job.Running, job.Cancelling, job.Completed, job.Failed, job.Partial, job.Cancelled, job.TimedOut, job.Skipped, ""}
	want := map[string]string{ // w: waits, r: ready, n: never
		"":        "wwwwrnnnnnn",
		":failed": "wwwwnrrnrnn",
		":done":   "wwwwrrrrrrr",
	}
	for how, all := range want {
		for i, s := range states {
			v := Judge([]string{string(id(1)) + how}, func(job.ID) (job.State, bool) { return s, s != "" })
			got := "w"
			if v.Ready {
				got = "r"
			} else if v.Never != "" {
				got = "n"
			}
			if got != all[i:i+1] || (got == "w") != (v.Waits != "") {
				t.Errorf("%q of %q: %+v, want %c", how, s, v, all[i])
			}
		}
	}
	v := Judge([]string{string(id(1)), string(id(2)), string(id(3)) + ":done"}, func(d job.ID) (job.State, bool) {
		return map[job.ID]job.State{id(1): job.Completed, id(2): job.Running, id(3): job.Queued}[d], true
	})
	if v.Ready || v.Never != "" || v.Waits != fmt.Sprintf("waits for job %s, which is running, and 1 more", id(2)) {
		t.Errorf("%+v", v)
	}
}

func TestJobs(t *testing.T) {
	var js Jobs
	if js.Full("uid:1") || js.Len() != 0 || js.Late(time.Hour) != nil {
		t.Error("the zero value holds something")
	}
	add := func(n int, owner string, deadline float64, after ...string) {
		js.Add(step.JobAdded{Job: id(n), Owner: owner, Age: time.Second, Spec: job.Spec{Policy: job.Policy{After: after, DeadlineSeconds: deadline}}}, 10*time.Second)
	}
	add(2, "uid:1", 0, string(id(1)))
	add(3, "uid:1", 60, string(id(1))+":done", string(id(2)))
	add(3, "uid:1", 60, string(id(1))+":done", string(id(2))) // once more changes nothing
	add(4, "uid:2", 5, string(id(2)))
	if got := js.Behind(id(1)); !slices.Equal(got, []job.ID{id(2), id(3)}) || len(js.Behind(id(2))) != 2 || js.Len() != 3 {
		t.Errorf("behind: %v", got)
	}
	if late := js.Late(13 * time.Second); len(late) != 0 {
		t.Errorf("late too early: %v", late)
	}
	if late := js.Late(14 * time.Second); !slices.Equal(late, []job.ID{id(4)}) {
		t.Errorf("late: %v", late)
	}
	if h, ok := js.Take(id(4)); !ok || h.Since != 9*time.Second || len(js.Behind(id(2))) != 1 {
		t.Errorf("%+v", h)
	}
	if late := js.Late(69 * time.Second); !slices.Equal(late, []job.ID{id(3)}) {
		t.Errorf("late: %v", late)
	}
	if _, ok := js.Take(id(4)); ok {
		t.Error("taken twice")
	}
	for i := range MaxOwnerHeld {
		add(100+i, "uid:9", 0, string(id(1)))
	}
	if !js.Full("uid:9") || js.Full("uid:1") {
		t.Error("the limit of an owner")
	}
	for _, h := range js.All() {
		js.Take(h.Job)
	}
	if js.Len() != 0 || js.Full("uid:9") || len(js.Behind(id(1))) != 0 {
		t.Error("something is left")
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "x", string(id(1)) + ":", string(id(1)) + ":ok", ":done", strings.Repeat("x", 1000)} {
		if _, err := job.ParseAfter(bad); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
	for _, good := range []string{string(id(1)), string(id(1)) + ":done", string(id(1)) + ":failed"} {
		if a, err := job.ParseAfter(good); err != nil || a.String() != good {
			t.Errorf("%q: %+v %v", good, a, err)
		}
	}
}
