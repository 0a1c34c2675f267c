package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
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

// A job that no worker may run is refused, or says of each worker why it waits: in
// words and in parts, with what to do.
func TestWaiting(t *testing.T) {
	const text = "0 of 6 workers eligible: n1, n2, n3, n4 and 1 more: not in zone mars; n6: dead"
	p := ProblemOf(fmt.Errorf("submit: %w", &scheduler.NoWorkerError{Why: mars()}))
	if p.Code != api.CodeInvalidJob || !strings.Contains(p.Detail, text) || !strings.Contains(p.Hint, "node.zone") || !strings.Contains(p.Hint, "--wait-for-worker") {
		t.Errorf("%+v", p)
	}
	since := time.Unix(1e9, 0)
	all := []scheduler.Waiting{{Job: "j1", Since: since, Why: mars()}, {Job: "j2", Since: since, Why: mars()}}
	if list := listWaiting(all, ""); len(list.Jobs) != 2 {
		t.Errorf("%+v", list)
	}
	list := listWaiting(all, "j2")
	j := api.Job{ID: "j2", State: job.Pending, Chunks: api.ChunkCounts{Total: 3, Pending: 3}}
	addWaiting(&j, list)
	w := j.Waiting
	if j.Waits != text || w == nil || !w.Since.Equal(since) || w.Workers != 6 || len(w.Reasons) != 2 || w.Reasons[0].Workers != 5 || len(w.Reasons[0].Examples) != 4 || w.Reasons[1].Reason != "gone" {
		t.Fatalf("%+v %+v", j, w)
	}
	for name, change := range map[string]func(*api.Job){
		"one runs": func(j *api.Job) { j.Chunks.Assigned = 1 }, "over": func(j *api.Job) { j.State = job.Completed },
		"nothing to do": func(j *api.Job) { j.Chunks.Pending = 0 }, "another": func(j *api.Job) { j.ID = "j3" },
	} {
		x := api.Job{ID: "j2", State: job.Pending, Chunks: api.ChunkCounts{Total: 3, Pending: 3}}
		change(&x)
		if addWaiting(&x, list); x.Waits != "" || x.Waiting != nil {
			t.Errorf("%s: waits %q", name, x.Waits)
		}
	}
	if list := listWaiting(make([]scheduler.Waiting, forward.MaxWaiting+2), ""); len(list.Jobs) != forward.MaxWaiting || list.Omitted != 2 {
		t.Errorf("%d jobs, %d left out", len(list.Jobs), list.Omitted)
	}
}

// A job is found by its id, by how only its id begins, or by a name that only it has.
func TestFindJob(t *testing.T) {
	var list []state.Job
	gone := string(job.NewID("uid:1", "k"))
	for _, j := range [][2]string{{"jaaa", "pi"}, {"jaab", "pi"}, {"jabc", "e"}, {"jabd", "jaaa"}, {"jb", ""}, {"jbc", "jaa"}, {"jc", gone}} {
		list = append(list, state.Job{ID: job.ID(j[0]), Spec: job.Spec{Name: j[1]}})
	}
	for text, want := range map[string]string{
		"jaaa": "jaaa", "e": "jabc", "jb": "jb", "jabc": "jabc", "jbc": "jbc",
		"pi":   "conflict: 2 jobs are called or begin with \"pi\": jaab, jaaa",
		"jab":  "conflict: 2 jobs are called or begin with \"jab\": jabd, jabc",
		"jaa":  "conflict: 3 jobs are called or begin with \"jaa\": jbc, jaab, jaaa",
		gone:   "not_found: no job is called or begins with \"" + gone + "\"",
		"none": "not_found: no job is called or begins with \"none\"",
	} {
		id, err := convert.FindJob(list, text)
		got := string(id)
		if p, ok := errors.AsType[*api.Problem](err); ok {
			got = string(p.Code) + ": " + p.Detail
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
