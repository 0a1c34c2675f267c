package pace

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

func spec(i int) job.Spec {
	return job.Spec{Artefact: cluster.Hash{byte(i), byte(i >> 8)}, Iterations: 1000, Chunk: 10}.WithDefaults()
}

// What was not measured is estimated by others at the same work, and by how fast
// the worker is beside others at other work.
func TestEstimate(t *testing.T) {
	kinds := NewKinds()
	first, _ := kinds.Open(spec(1))
	var a, b Worker
	want := func(what string, w *Worker, k *Kind, d time.Duration) {
		t.Helper()
		if got := w.Estimate(k, 10, 10); got.Round(time.Millisecond) != d {
			t.Errorf("%s: %s, want %s", what, got, d)
		}
	}
	want("nothing known", &a, first, unknownTime)
	a.Measure(first, 10, 2)
	want("measured", &a, first, 2*time.Second)
	want("another worker", &b, first, 2*time.Second)
	b.Measure(first, 10, 4) // half as fast
	second, _ := kinds.Open(spec(2))
	a.Measure(second, 10, 3)
	want("at its speed", &b, second, 6*time.Second)
	if !second.Measured() || b.Latest() != 2.5 || (&Worker{}).Latest() != 0 {
		t.Errorf("rate %g of the slower one", b.Latest())
	}
}

// The time for which a worker is left out doubles until it has a success.
func TestFailuresInARow(t *testing.T) {
	kinds := NewKinds()
	k, _ := kinds.Open(spec(1))
	var w Worker
	now := time.Hour
	for range BadInARow - 1 {
		if d := w.Fail(k, now); d != 0 || w.LeftOut(k, now) {
			t.Fatalf("left out for %s too early", d)
		}
	}
	for _, want := range []time.Duration{firstExclude, 2 * firstExclude, 4 * firstExclude} {
		if d := w.Fail(k, now); d != want || !w.LeftOut(k, now) || w.LeftOut(k, now+d) || len(k.LeftOut()) != 1 {
			t.Fatalf("left out for %s, want %s", d, want)
		}
	}
	w.Succeed(k)
	if w.LeftOut(k, now) || len(k.LeftOut()) != 0 || w.Fail(k, now) != 0 {
		t.Error("a success does not end it")
	}
	w.Fail(k, now)
	w.Fail(k, now)
	if kinds.Drop(&w); len(k.LeftOut()) != 0 {
		t.Error("a worker that is gone is still left out")
	}
}

// Kinds without jobs are forgotten when there are too many, the least used first.
func TestKindsAreBounded(t *testing.T) {
	kinds := NewKinds()
	busy, _ := kinds.Open(spec(0))
	var second *Kind
	for i := 1; i < maxKinds; i++ {
		k, gone := kinds.Open(spec(i))
		if gone != nil {
			t.Fatalf("kind %d forgotten too early", i)
		}
		if kinds.Close(k); i == 1 {
			second = k
		}
	}
	var w Worker
	w.Measure(busy, 10, 1)
	w.Measure(second, 10, 1)
	if _, gone := kinds.Open(spec(maxKinds)); gone != second {
		t.Fatalf("forgot %+v", gone)
	}
	w.Forget(second)
	if len(w.rates) != 1 || len(kinds.known) != maxKinds || kinds.ChunkSize(spec(0), 1, 0) == 0 || kinds.ChunkSize(spec(1), 1, 0) != 0 {
		t.Errorf("%d rates, %d kinds", len(w.rates), len(kinds.known))
	}
}

// A small job gets few chunks, none too short; a large one chunks as long as it
// wants; one that may end early more of them; none comes near its timeout.
func TestChunkSize(t *testing.T) {
	kinds := NewKinds()
	at := func(iterations uint64, change func(*job.Spec)) job.Spec {
		s := spec(1)
		s.Iterations = iterations
		if change != nil {
			change(&s)
		}
		return s
	}
	early := func(s *job.Spec) { s.EarlyStop = job.EarlyStop{Metric: "m", RelError: 0.1} }
	for _, c := range []struct {
		what  string
		spec  job.Spec
		slots int
		rate  float64
		want  uint64
	}{
		{"nothing measured", at(1e6, nil), 8, 0, 0},
		{"a second of work", at(1e6, nil), 2, 1e6, 500_000},
		{"less than a chunk", at(1000, nil), 2, 1e6, 1000},
		{"80 s on 10 slots", at(8e7, nil), 10, 1e6, 2_000_000},
		{"a day", at(1e11, nil), 2, 1e6, 3e7},
		{"it may end early", at(2e8, early), 2, 1e6, 781_250},
		{"a short timeout", at(1e9, func(s *job.Spec) { s.TimeoutSeconds = 8 }), 2, 1e6, 2e6},
		{"slow iterations", at(100, nil), 2, 0.01, 1},
		{"a wish", at(1e9, func(s *job.Spec) { s.ChunkSeconds = 5 }), 2, 1e6, 5e6},
	} {
		if got := kinds.ChunkSize(c.spec, c.slots, c.rate); got != c.want {
			t.Errorf("%s: %d iterations, want %d", c.what, got, c.want)
		}
	}
	k, _ := kinds.Open(spec(1))
	var w Worker
	w.Measure(k, 10, 1)
	if got := kinds.ChunkSize(at(1e6, nil), 1, 1e6); got != 300 {
		t.Errorf("%d iterations by what was tried, want those by what was measured", got)
	}
}
