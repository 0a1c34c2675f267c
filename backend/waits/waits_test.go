package waits

import (
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// mars is why jobs wait whose zone no host is in.
func mars() eligible.Explanation {
	return eligible.Explanation{Workers: 6, Never: true, Reasons: []eligible.Obstacle{
		{Reason: eligible.LacksZone, Text: "not in zone mars", Workers: []cluster.NodeID{"n1", "n2", "n3", "n4", "n5"}},
		{Reason: eligible.Gone, Text: "dead", Workers: []cluster.NodeID{"n6"}},
	}}
}

// A job that waits says why, in words and in parts, with what to do.
func TestWaiting(t *testing.T) {
	const text = "0 of 6 workers eligible: n1, n2, n3, n4 and 1 more: not in zone mars; n6: dead"
	since := time.Unix(1e9, 0)
	held := eligible.Explanation{Job: eligible.Obstacle{Reason: eligible.Operator, Text: "for an operator"}, Workers: 6, Eligible: 6}
	all := []scheduler.Waiting{{Job: "j1", Since: since, Why: held}, {Job: "j2", Since: since, Why: mars()}}
	if list := list(all, ""); len(list.Jobs) != 2 {
		t.Errorf("%+v", list)
	}
	some := list(all, "j2")
	j := api.Job{ID: "j2", State: job.Pending, Chunks: api.ChunkCounts{Total: 3, Pending: 3}}
	w := New(Options{Scheduler: fixed(all)})
	w.Here(&j)
	why := j.Waiting
	if j.Waits != text || why == nil || !why.Since.Equal(since) || why.Workers != 6 || len(why.Reasons) != 2 || why.Reasons[0].Workers != 5 || len(why.Reasons[0].Examples) != 4 || why.Reasons[1].Reason != "gone" || why.Hint == "" {
		t.Fatalf("%+v %+v", j, why)
	}
	for name, change := range map[string]func(*api.Job){
		"one runs": func(j *api.Job) { j.Chunks.Assigned = 1 }, "over": func(j *api.Job) { j.State = job.Completed },
		"nothing to do": func(j *api.Job) { j.Chunks.Pending = 0 }, "another": func(j *api.Job) { j.ID = "j3" },
	} {
		x := api.Job{ID: "j2", State: job.Pending, Chunks: api.ChunkCounts{Total: 3, Pending: 3}}
		change(&x)
		if w.Here(&x); x.Waits != "" || x.Waiting != nil {
			t.Errorf("%s: waits %q", name, x.Waits)
		}
	}
	if len(some.Jobs) != 1 || some.Jobs[0].Waits != text {
		t.Errorf("%+v", some)
	}
	j = api.Job{ID: "j1", State: job.Running, Waits: "for an operator, says the log", Chunks: api.ChunkCounts{Total: 3, Failed: 3}}
	if w.Here(&j); j.Waiting == nil || len(j.Waiting.Reasons) != 1 || j.Waiting.Reasons[0].Reason != "operator" || j.Waiting.Reasons[0].Workers != 0 || j.Waiting.Reasons[0].Examples == nil {
		t.Errorf("%+v", j.Waiting)
	}
	if list := list(make([]scheduler.Waiting, forward.MaxWaiting+2), ""); len(list.Jobs) != forward.MaxWaiting || list.Omitted != 2 {
		t.Errorf("%d jobs, %d left out", len(list.Jobs), list.Omitted)
	}
}

type fixed []scheduler.Waiting

func (f fixed) Waiting() []scheduler.Waiting { return f }

// What an operator should know: at once where no worker may run a job, else after five
// minutes, and never of a job that waits for its turn.
func TestTroubled(t *testing.T) {
	now := time.Unix(1e9, 0)
	reason := func(r eligible.Reason, workers int) []api.WaitReason {
		return []api.WaitReason{{Reason: string(r), Workers: workers}}
	}
	for name, c := range map[string]struct {
		w              api.Waiting
		at, afterwards bool
	}{
		"no zone":  {api.Waiting{Workers: 3, Reasons: reason(eligible.LacksZone, 3)}, true, true},
		"operator": {api.Waiting{Workers: 3, Reasons: reason(eligible.Operator, 0)}, false, true},
		"excluded": {api.Waiting{Workers: 3, Eligible: 1, Reasons: reason(eligible.Excluded, 2)}, false, true},
		"busy":     {api.Waiting{Workers: 3, Eligible: 3, Reasons: reason(eligible.Busy, 3)}, false, false},
		"nothing":  {api.Waiting{Workers: 3, Eligible: 3}, false, false},
	} {
		c.w.Since = now
		if troubled(c.w, now.Add(longWait-time.Second)) != c.at || troubled(c.w, now.Add(longWait)) != c.afterwards {
			t.Errorf("%s: is told %t and then %t", name, !c.at, !c.afterwards)
		}
	}
}
