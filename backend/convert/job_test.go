package convert

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/jobs"
)

// A rule for an early stop whose metric no result has is told with the first result.
func TestNeverEarly(t *testing.T) {
	named := func(names ...string) (out []jobs.Named) {
		for _, n := range names {
			out = append(out, jobs.Named{Name: n, Metric: job.Metric{N: 1}})
		}
		return out
	}
	for _, c := range []struct {
		metric   string
		accepted int
		have     []jobs.Named
		want     string
	}{
		{"", 3, named("pi"), ""},
		{"pie", 0, nil, ""},
		{"pi", 1, named("pi"), ""},
		{"pie", 1, named("e", "pi"), `it does not stop early: no result has metric "pie", they have e, pi`},
		{"pie", 1, nil, `it does not stop early: no result has metric "pie", they have none`},
		{"x", 1, named("a", "b", "c", "d", "e", "f", "g"), `it does not stop early: no result has metric "x", they have a, b, c, d, e, and 2 more`},
	} {
		j := state.Job{Spec: job.Spec{Policy: job.Policy{EarlyStop: job.EarlyStop{Metric: c.metric}}}, Aggregates: c.have}
		j.Counts.Accepted = c.accepted
		out := api.Job{Aggregates: map[string]api.Summary{}}
		if JobDetails(&out, j, nil, &coord.View{}); out.Warning != c.want {
			t.Errorf("%+v: %q, want %q", c, out.Warning, c.want)
		}
	}
}

// What was given up does not count to what is left, and a job of which nothing else
// is left has no end in sight.
func TestETA(t *testing.T) {
	j := state.Job{State: job.Running, Spec: job.Spec{Iterations: 1000, Chunk: 100, Policy: job.Policy{OnPartial: job.PartialWait}}, Iterations: 500}
	j.Counts.Accepted, j.Counts.Failed, j.Counts.Assigned = 5, 2, 3
	if out := Job(j, 10, time.Now()); out.ETASeconds == nil || *out.ETASeconds != 30 || out.Waits != "" {
		t.Errorf("three chunks to go: %v, %q", out.ETASeconds, out.Waits)
	}
	j.Counts.Failed, j.Counts.Assigned = 1, 0
	if out := Job(j, 10, time.Now()); out.ETASeconds != nil || out.Waits != "for an operator, 1 chunk was given up: retry it, or stop it" {
		t.Errorf("nothing to go: %v, %q", out.ETASeconds, out.Waits)
	}
}

// The parts of hosts are added up by the zones that these are in; without zones there is
// nothing to tell.
func TestJobZones(t *testing.T) {
	v := &coord.View{}
	for i, zone := range []string{"ams", "ams", "fra", ""} {
		m := coord.MemberView{}
		m.Node, m.Zone = cluster.NodeID(fmt.Sprintf("n%d", i+1)), zone
		v.Members = append(v.Members, m)
	}
	stranger := cluster.OutsideID([]byte{1})
	parts := []api.JobWorker{{Node: "n1", Assigned: 1, Accepted: 2}, {Node: "n2", Accepted: 3}, {Node: "n3", Assigned: 4, Failed: 2}, {Node: "n4", Accepted: 5, Failed: 1}, {Node: "gone", Accepted: 6}, {Node: stranger, Accepted: 7}}
	shares := []job.WorkShare{{Worker: "n1", Chunks: 2, Iterations: 20}, {Worker: "n2", Chunks: 3, Iterations: 30}, {Worker: "n4", Chunks: 5, Iterations: 50}, {Worker: "gone", Chunks: 6, Iterations: 60}, {Worker: stranger, Chunks: 7, Iterations: 70}}
	want := []api.JobZone{
		{Zone: "", Accepted: 11, Iterations: 110, Failed: 1}, {Zone: "ams", Assigned: 1, Accepted: 5, Iterations: 50}, {Zone: "fra", Assigned: 4, Failed: 2}, {Zone: "outside", Accepted: 7, Iterations: 70},
	}
	if got := jobZones(parts, shares, v); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := jobZones(parts[3:5], shares[2:4], v); got != nil {
		t.Errorf("without zones: %+v", got)
	}
}
