package waits

import (
	"context"
	"errors"
	"slices"
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
	const text, short = "0 of 6 workers eligible: n1, n2, n3, n4 and 1 more: not in zone mars; n6: dead", "0 of 6 workers eligible: zone 5, gone 1"
	since := time.Unix(1e9, 0)
	held := eligible.Explanation{Job: eligible.Obstacle{Reason: eligible.Operator, Text: "for an operator"}, Workers: 6, Eligible: 6}
	all := []scheduler.Waiting{{Job: "j1", Since: since, Why: held}, {Job: "j2", Since: since, Why: mars()}}
	if list := list(all, ""); len(list.Jobs) != 2 {
		t.Errorf("%+v", list)
	}
	some := list(all, "j2")
	j := api.Job{ID: "j2", State: job.Pending, Chunks: api.ChunkCounts{Total: 3, Pending: 3}}
	w := New(Options{Scheduler: fixed{list: all}})
	w.Here(&j)
	why := j.Waiting
	if j.Waits != short || why == nil || !why.Since.Equal(since) || why.Workers != 6 || len(why.Reasons) != 2 || why.Reasons[0].Workers != 5 || len(why.Reasons[0].Examples) != 4 || why.Reasons[1].Reason != "gone" || why.Hint == "" {
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

// fixed is a scheduler that says always the same.
type fixed struct {
	list []scheduler.Waiting
	err  error
}

func (f fixed) Waiting() []scheduler.Waiting { return f.list }

func (f fixed) Explain(context.Context, job.ID) (scheduler.Waiting, error) { return f.list[0], f.err }

// The holder says of each worker what keeps it from a job, and what it has of it; of a
// job that is over, or about to be, nothing.
func TestExplain(t *testing.T) {
	j := api.Job{
		ID: "j1", State: job.Running, Holder: "n1", Term: 7, Chunks: api.ChunkCounts{Total: 9, Pending: 2, Assigned: 3, Accepted: 4},
		Workers: []api.JobWorker{{Node: "n2", Assigned: 3, Accepted: 4}, {Node: "gone", Accepted: 1}},
	}
	why := scheduler.Waiting{Job: "j1", Why: eligible.Explanation{Workers: 3, Eligible: 2, Free: []cluster.NodeID{"n3"}, Reasons: []eligible.Obstacle{
		{Reason: eligible.Busy, Text: "has no room", Workers: []cluster.NodeID{"n2"}}, {Reason: eligible.LacksZone, Text: "not in zone mars", Workers: []cluster.NodeID{"n1"}},
	}}}
	ask := func(s fixed) (api.JobExplanation, error) {
		w := New(Options{Scheduler: s, Job: func(context.Context, job.ID) (api.Job, error) { return j, nil }})
		return w.ServeExplain(t.Context(), forward.Asker{}, forward.JobName{Job: "j1"})
	}
	e, err := ask(fixed{list: []scheduler.Waiting{why}})
	want := []api.ExplainedWorker{
		{Node: "n1", Reason: "zone", Text: "not in zone mars"}, {Node: "n2", Eligible: true, Reason: "busy", Text: "has no room", Assigned: 3, Accepted: 4}, {Node: "n3", Eligible: true},
	}
	if err != nil || !slices.Equal(e.Workers, want) || e.Waits != "2 of 3 workers eligible: busy 1, zone 1" || e.Since != nil || e.Hint != "" || e.Eligible != 2 || e.Holder != "n1" || e.Term != 7 {
		t.Errorf("%+v %v", e, err)
	}
	why.Since = time.Unix(1e9, 0)
	if e, err = ask(fixed{list: []scheduler.Waiting{why}}); err != nil || e.Since == nil || !e.Since.Equal(why.Since) || e.Hint == "" {
		t.Errorf("%+v %v", e, err)
	}
	why.Why = eligible.Explanation{Workers: api.MaxWorkers + 2, Free: make([]cluster.NodeID, api.MaxWorkers+2)}
	if e, err = ask(fixed{list: []scheduler.Waiting{why}}); err != nil || len(e.Workers) != api.MaxWorkers || e.Omitted != 2 {
		t.Errorf("%d workers, %d left out, %v", len(e.Workers), e.Omitted, err)
	}
	nothing := scheduler.Waiting{}
	if e, err = ask(fixed{list: []scheduler.Waiting{nothing}, err: scheduler.ErrJobOver}); err != nil || e.State != job.Running || e.Waits != "" || len(e.Workers) > 0 {
		t.Errorf("%+v %v", e, err)
	}
	if _, err = ask(fixed{list: []scheduler.Waiting{nothing}, err: scheduler.ErrNotHolder}); !errors.Is(err, scheduler.ErrNotHolder) {
		t.Errorf("%v", err)
	}
	j.State = job.Completed
	if e, err = ask(fixed{}); err != nil || e.State != job.Completed || e.Workers == nil || e.Reasons == nil {
		t.Errorf("%+v %v", e, err)
	}
}

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
