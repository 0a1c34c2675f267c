package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// A job that no worker may run is refused, with what keeps each of them from it.
func TestNoWorker(t *testing.T) {
	const text = "0 of 6 workers eligible: n1, n2, n3, n4 and 1 more: not in zone mars; n6: dead"
	why := eligible.Explanation{Workers: 6, Never: true, Reasons: []eligible.Obstacle{
		{Reason: eligible.LacksZone, Text: "not in zone mars", Workers: []cluster.NodeID{"n1", "n2", "n3", "n4", "n5"}},
		{Reason: eligible.Gone, Text: "dead", Workers: []cluster.NodeID{"n6"}},
	}}
	p := ProblemOf(fmt.Errorf("submit: %w", &scheduler.NoWorkerError{Why: why}))
	if p.Code != api.CodeInvalidJob || !strings.Contains(p.Detail, text) || !strings.Contains(p.Hint, "node.zone") || !strings.Contains(p.Hint, "--wait-for-worker") {
		t.Errorf("%+v", p)
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
