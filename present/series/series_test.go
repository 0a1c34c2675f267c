package series

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

const id = job.ID("j1")

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(t *testing.T, second float64, kind event.Kind, body any) event.Event {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return event.Event{HLC: cluster.NewHLC(begin.Add(time.Duration(second*float64(time.Second))), 0), Kind: kind, Body: text}
}

func result(n uint64, mean float64) job.ChunkResult {
	return job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{"pi": {N: n, Mean: mean, M2: float64(n), Min: mean - 2, Max: mean + 2}}}
}

// TestSeries follows a job by hand.
func TestSeries(t *testing.T) {
	o := Options{Job: id, Spec: job.Spec{Iterations: 35, Chunk: 10}, From: begin, To: begin.Add(10 * time.Second), Points: 5}
	events := []event.Event{
		at(t, 1, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: 0, Attempt: 1, Worker: "n1", Result: result(10, 3)}),
		at(t, 1.5, event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: 1, Attempt: 1, Worker: "n2", Reason: "exit 3"}),
		at(t, 3, event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: 1, Attempt: 2, Worker: "n2", Reason: "worker is lost"}),
		at(t, 4, event.KindChunksAccepted, event.ChunksAccepted{Job: id, Accepts: []event.Accept{
			{Chunk: 0, Attempt: 2, Worker: "n2", Result: result(10, 9)}, // not the first one
			{Chunk: 3, Attempt: 1, Worker: "n2", Result: result(5, 4)},
			{Chunk: 4, Attempt: 1, Worker: "n2", Result: result(5, 4)}, // no such chunk
			{Chunk: 2, Attempt: 1, Worker: "n2", Result: result(5, 4)}, // not so many
		}}),
		at(t, 99, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: 1, Attempt: 3, Worker: "n2", Result: result(10, 5)}), // by a clock that is ahead
		at(t, -9, event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: 2, Attempt: 1, Worker: "n2", Reason: "exit 3"}),
		at(t, 5, event.KindChunkFailed, event.ChunkFailed{Job: "another", Chunk: 2, Attempt: 1, Worker: "n2", Reason: "exit 4"}),
		at(t, 5, event.KindChunkFailed, []int{1}),
	}
	run := func(o Options) *Fold {
		f := New(o)
		for _, e := range events {
			f.Apply(e)
		}
		return f
	}
	f := run(o)
	s := f.Series()
	if len(f.Settled()) > 0 || s.StepSeconds != 2 || s.Total != 35 {
		t.Errorf("%+v", s)
	}
	check := func(what string, got any, want string) {
		t.Helper()
		text, err := json.Marshal(got)
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, want %s", what, text, want)
		}
	}
	check("iterations", s.Iterations, `[10,10,15,15,25]`)
	check("rate", s.RatePerSecond, `[5,0,2.5,0,5]`)
	check("workers", s.Workers, `[{"node":"n2","iterations":[0,0,5,5,15]},{"node":"n1","iterations":[10,10,10,10,10]}]`)
	check("failures", s.Failures, `[{"reason":"exit 3","reclaimed":false,"attempts":[2,2,2,2,2]},{"reason":"worker is lost","reclaimed":true,"attempts":[0,1,1,1,1]}]`)
	check("n", s.Metrics[0].N, `[10,10,15,15,25]`)
	m := result(10, 3).Metrics["pi"].Merge(result(5, 4).Metrics["pi"])
	if got := s.Metrics[0]; *got.Mean[3] != m.Mean || *got.Low[2] != m.Mean-m.CI95() || *got.High[2] != m.Mean+m.CI95() || *got.Mean[0] != 3 {
		t.Errorf("%+v, want a mean of %g", got, m.Mean)
	}

	// A dispute: what settles it counts, and nothing that was accepted of the chunk before.
	events = append(events, at(t, 7, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: 0, Attempt: 3, Worker: "n3", Settles: true, Result: result(10, 7)}))
	f = run(o)
	if len(f.Settled()) != 1 || !f.Settled()[0] {
		t.Fatalf("settled %v", f.Settled())
	}
	o.Settled = f.Settled()
	f = run(o)
	check("iterations after a dispute", f.Series().Iterations, `[0,0,5,15,25]`)
	if len(f.Settled()) > 0 {
		t.Error("a third pass is wanted")
	}
	check("nothing", New(o).Series().Metrics, `null`)
	if s := New(o).Series(); len(s.Iterations) != 5 || s.Failures != nil {
		t.Errorf("of nothing %+v", s)
	}
}

// TestEndIsTheResult: whatever the order and the spans, the end of each line is what
// counts in the end.
func TestEndIsTheResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 1 + rng.IntN(400)
		o := Options{Job: id, Spec: job.Spec{Iterations: uint64(n * 10), Chunk: 10}, From: begin, To: begin.Add(time.Duration(rng.IntN(1000)) * time.Second), Points: 1 + rng.IntN(api.MaxPoints)}
		f := New(o)
		var all job.Metric
		second := 0.0
		for _, i := range rng.Perm(n) {
			r := result(10, float64(rng.IntN(9)))
			all = all.Merge(r.Metrics["pi"])
			second += rng.Float64() * 5
			f.Apply(at(t, second, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: i, Attempt: 1, Worker: cluster.NodeID(fmt.Sprintf("n%d", rng.IntN(40))), Result: r}))
			for range rng.IntN(3) {
				f.Apply(at(t, second, event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: i, Attempt: 1, Worker: "n1", Reason: fmt.Sprint("exit ", rng.IntN(2000))}))
			}
		}
		s := f.Series()
		last := o.Points - 1
		sum := uint64(0)
		for _, w := range s.Workers {
			sum += w.Iterations[last]
		}
		if s.Iterations[last] != o.Spec.Iterations || sum != o.Spec.Iterations || len(s.Workers) > MaxWorkers+1 || len(s.Failures) > MaxReasons+1 {
			t.Fatalf("%d points: %d iterations, %d of workers, want %d; %d workers, %d reasons", o.Points, s.Iterations[last], sum, o.Spec.Iterations, len(s.Workers), len(s.Failures))
		}
		if got := *s.Metrics[0].Mean[last]; math.Abs(got-all.Mean) > 1e-9 || s.Metrics[0].N[last] != all.N {
			t.Fatalf("mean %g of %d, want %g of %d", got, s.Metrics[0].N[last], all.Mean, all.N)
		}
		for _, list := range [][]uint64{s.Iterations, s.Metrics[0].N, s.Workers[0].Iterations} {
			if len(list) != o.Points {
				t.Fatalf("%d values of %d points", len(list), o.Points)
			}
		}
	}
}

// TestManyNames: metrics, workers and reasons beyond what there is room for are told
// together, or counted.
func TestManyNames(t *testing.T) {
	const n = 2 * maxCounted
	o := Options{Job: id, Spec: job.Spec{Iterations: n, Chunk: 1}, From: begin, To: begin, Points: 3}
	f := New(o)
	for i := range n {
		r := job.ChunkResult{Iterations: 1, Metrics: map[string]job.Metric{fmt.Sprintf("m%04d", i): {N: 1, Mean: 1, Min: 1, Max: 1}}}
		f.Apply(at(t, 0, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: i, Attempt: 1, Worker: cluster.NodeID(fmt.Sprintf("n%d", i)), Result: r}))
		f.Apply(at(t, 0, event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: i, Attempt: 1, Worker: "n1", Reason: fmt.Sprint(i)}))
	}
	s := f.Series()
	if len(s.Metrics) != MaxMetrics || s.MetricsOmitted != maxCounted-MaxMetrics || s.Metrics[0].Name != "m0000" || len(s.Workers) != MaxWorkers+1 || len(s.Failures) != MaxReasons+1 {
		t.Errorf("%d metrics, %d omitted, %d workers, %d reasons", len(s.Metrics), s.MetricsOmitted, len(s.Workers), len(s.Failures))
	}
	rest := s.Workers[MaxWorkers]
	if rest.Node != "" || rest.Iterations[2] != n-MaxWorkers || s.Failures[MaxReasons].Attempts[2] != n-MaxReasons {
		t.Errorf("others did %+v", rest)
	}
}
