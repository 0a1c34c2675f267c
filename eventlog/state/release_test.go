package state

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestRelease: what was given up is open again, its failures are forgiven, and its
// next attempts have numbers of their own; another failure of those gives it up
// again.
func TestRelease(t *testing.T) {
	a := newChain("a")
	a.submit(1, 1, "j", testSpec("k", 30, 10))
	a.assign(2, 1, "j", job.Attempt{Chunk: 0, Number: 1, Worker: "w1"}, job.Attempt{Chunk: 1, Number: 1, Worker: "w1"})
	fail := func(hlc cluster.HLC, chunk, attempt int, parked bool) {
		a.add(hlc, 1, event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: chunk, Attempt: attempt, Worker: "w1", Final: true, Parked: parked})
	}
	fail(3, 0, 1, false)
	fail(4, 1, 2, true)
	a.accept(5, 1, "j", 2, 1, result(10, 1))
	s := New()
	apply := func() {
		for _, e := range a.events {
			if s.Apply(e) {
				t.Fatal("a rebuild")
			}
		}
	}
	apply()
	if j, _ := s.Job("j"); j.Counts != (ChunkCounts{Accepted: 1, Failed: 2, Parked: 1}) || len(s.Open("j")) != 0 {
		t.Fatalf("given up: %+v, open %+v", j.Counts, s.Open("j"))
	}
	if u := s.Unfinished("j"); len(u) != 2 || !u[0].GivenUp || !u[1].GivenUp || u[1].Attempts != 2 {
		t.Fatalf("unfinished: %+v", u)
	}
	a.add(6, 1, event.KindChunksReleased, event.ChunksReleased{Job: "j", Attempt: 2, Chunks: []job.Span{{First: 0, Last: 2}}})
	apply()
	open := s.Open("j")
	if j, _ := s.Job("j"); j.Counts != (ChunkCounts{Accepted: 1, Pending: 2}) && j.Counts != (ChunkCounts{Accepted: 1, Pending: 1, Assigned: 1}) {
		t.Fatalf("released: %+v", j.Counts)
	}
	if len(open) != 2 || open[0].Attempts != 2 || open[0].Failed != 0 || len(open[0].FailedOn) != 0 || open[1].Attempts != 2 || open[1].Failed != 0 {
		t.Fatalf("open: %+v", open)
	}
	fail(7, 0, 3, false)
	apply()
	if j, _ := s.Job("j"); j.Counts.Failed != 1 || len(s.Open("j")) != 1 {
		t.Fatalf("given up again: %+v", j.Counts)
	}
	encoded(t, s)
}

// TestUnfinishedHasDisputes: the next holder learns of results that differ, and
// of one that settles them.
func TestUnfinishedHasDisputes(t *testing.T) {
	a := newChain("a")
	a.submit(1, 1, "j", testSpec("k", 20, 10))
	a.accept(2, 1, "j", 0, 1, result(10, 1))
	a.accept(3, 1, "j", 0, 2, result(10, 2))
	s := New()
	for _, e := range a.events {
		s.Apply(e)
	}
	u := s.Unfinished("j")
	if len(u) != 2 || !u[0].Disputed || u[0].GivenUp || u[0].Attempts != 1 || len(u[0].FailedOn) != 1 || u[1].Disputed || len(s.Open("j")) != 1 {
		t.Fatalf("unfinished: %+v, open %+v", u, s.Open("j"))
	}
	if j, _ := s.Job("j"); len(j.Anomalies) != 1 || !strings.Contains(j.Anomalies[0].Reason, "different results") {
		t.Fatalf("anomalies: %+v", j.Anomalies)
	}
	a.add(4, 1, event.KindChunksAccepted, event.ChunksAccepted{Job: "j", Accepts: []event.Accept{{Chunk: 0, Attempt: 3, Worker: "w3", Result: result(10, 2), Settles: true}}})
	s.Apply(a.events[3])
	if j, _ := s.Job("j"); len(s.Unfinished("j")) != 1 || j.Disputed != 0 || len(j.Anomalies) != 0 || j.Aggregates[0].Mean != 2 {
		t.Fatalf("settled: %+v", j)
	}
}

// TestAnomaliesAreNamed: a result far from all others is named, with its host, and
// the end of the job keeps that.
func TestAnomaliesAreNamed(t *testing.T) {
	a := newChain("a")
	a.submit(1, 1, "j", testSpec("k", 200, 10))
	for i := range 20 {
		m := job.Metric{N: 10, Mean: 1, M2: 1, Min: 0, Max: 2}
		if i == 7 {
			m = job.Metric{N: 10, Mean: 100, M2: 1, Min: 99, Max: 101}
		}
		a.accept(cluster.HLC(2+i), 1, "j", i, 1, job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": m}})
	}
	s := New()
	for _, e := range a.events {
		s.Apply(e)
	}
	r, ok := s.Result("j")
	if !ok || len(r.Anomalies) != 0 && r.Anomalies[0].Chunk != 7 {
		t.Fatalf("anomalies: %+v", r.Anomalies)
	}
	if len(r.Anomalies) != 1 || !strings.Contains(r.Anomalies[0].Reason, `the mean of metric "x" is 100`) {
		t.Fatalf("anomalies: %+v", r.Anomalies)
	}
	a.add(40, 1, event.KindJobDone, event.JobDone{Job: "j", State: job.Completed, Result: &r})
	s.Apply(a.events[len(a.events)-1])
	if j, _ := s.Job("j"); len(j.Anomalies) != 1 || j.Anomalies[0].Chunk != 7 {
		t.Fatalf("after the end: %+v", j.Anomalies)
	}
	encoded(t, s)
}
