package state

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// sketched is a result with a distribution of its own.
func sketched(rng *rand.Rand, n int) job.ChunkResult {
	above := map[int64]int64{}
	for range n {
		above[int64(60*rng.NormFloat64())]++
	}
	s := &job.Sketch{}
	for i := int64(-1000); i <= 1000; i++ {
		if above[i] > 0 {
			s.Above = append(s.Above, i, above[i])
		}
	}
	low, high := math.Exp2(float64(s.Above[0])/32-0.01), math.Exp2(float64(s.Above[len(s.Above)-2])/32)
	return job.ChunkResult{Iterations: uint64(n), Metrics: map[string]job.Metric{"x": {
		N: uint64(n), Mean: low + (high-low)*rng.Float64(), M2: float64(n) * (high - low) * (high - low) / 8, Min: low, Max: high, Sketch: s,
	}}}
}

// In whatever order results come, what they add up to is the same to the bit,
// sketches included.
func TestMergerForgetsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, chunks := range []int{1, 2, 3, 31, 64, 100} {
		results := make([]job.ChunkResult, chunks)
		samples := uint64(0)
		for i := range results {
			results[i] = sketched(rng, 1+rng.IntN(200))
			samples += results[i].Iterations
			if err := results[i].Validate(results[i].Iterations); err != nil {
				t.Fatal(err)
			}
		}
		var first job.Metric
		for round := range 6 {
			m := make(trees)
			for _, i := range rng.Perm(chunks) {
				m.store(chunks, i, results[i].Metrics)
			}
			switch got := m.metrics(false)["x"]; {
			case round == 0:
				first = got
				if got.N != samples || got.Sketch.Count() != samples {
					t.Fatalf("%d chunks: %d samples, %d in the sketch, want %d", chunks, got.N, got.Sketch.Count(), samples)
				}
			case !got.Equal(first):
				t.Fatalf("%d chunks: %+v in one order, %+v in another", chunks, first, got)
			}
		}
	}
}

// Many metrics share the room that sketches have in the end of a job.
func TestManySketchesFitOneEvent(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := make(trees)
	wide := sketched(rng, 1<<14).Metrics["x"]
	all := make(map[string]job.Metric)
	for i := range 500 {
		all[string(rune('A'+i))] = wide
	}
	m.store(1, 0, all)
	buckets := 0
	for _, x := range m.metrics(false) {
		buckets += x.Sketch.Buckets()
		if x.Sketch.Count() != wide.N {
			t.Fatal("samples were lost")
		}
	}
	if buckets > maxResultBuckets || buckets < maxResultBuckets/4 {
		t.Errorf("%d buckets, want at most %d and not far less", buckets, maxResultBuckets)
	}
}

// Results that differ end the job's sketches, in either order; the same result
// twice does not.
func TestResultsThatDifferBlurSketches(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	one, two := sketched(rng, 10), sketched(rng, 10)
	for _, c := range []struct {
		second job.ChunkResult
		blurs  bool
	}{{one, false}, {two, true}} {
		var hashes []cluster.Hash
		for _, swap := range []bool{false, true} {
			a, b := newChain("a"), newChain("b")
			a.start(1, 1)
			a.submit(2, 1, "j", testSpec("k", 20, 10))
			a.accept(3, 1, "j", 0, 1, one)
			b.accept(4, 1, "j", 0, 2, c.second)
			a.accept(5, 1, "j", 1, 1, one)
			events := slices.Concat(a.events, b.events)
			if swap {
				events = slices.Concat(a.events[:2], b.events, a.events[2:])
			}
			s := New()
			for _, e := range events {
				if s.Apply(e) {
					t.Fatal("rebuild")
				}
			}
			j, _ := s.Job("j")
			if got := j.Aggregates[0].Sketch; (got == nil) != c.blurs {
				t.Errorf("swapped %t, blurs %t: sketch %+v", swap, c.blurs, got)
			}
			hashes = append(hashes, s.Hash())
			again, err := s.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Decode(again)
			if err != nil || back.Hash() != s.Hash() {
				t.Errorf("swapped %t, blurs %t: read again: %v", swap, c.blurs, err)
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("blurs %t: two orders, two states", c.blurs)
		}
	}
}
