package jobs

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

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

func TestTreeAgainstTwoPasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, chunks := range []int{1, 2, 3, 7, 64, 257} {
		tr := newTree(chunks)
		var samples []float64
		for _, i := range rng.Perm(chunks) {
			part := make([]float64, 1+rng.IntN(50))
			for k := range part {
				part[k] = 1e6 + rng.NormFloat64()
			}
			samples = append(samples, part...)
			tr.set(i, summarise(part))
		}
		got, want := tr.root(), summarise(samples)
		if got.N != want.N || got.Min != want.Min || got.Max != want.Max ||
			math.Abs(got.Mean-want.Mean) > 1e-9*want.Mean || math.Abs(got.M2-want.M2) > 1e-6*want.M2 {
			t.Errorf("%d chunks: merged %+v, directly %+v", chunks, got, want)
		}
		if chunks > 1 && math.Abs(got.CI95()-1.96*got.Std()/math.Sqrt(float64(got.N))) > 1e-4*got.CI95() {
			t.Errorf("%d chunks: interval %g of std %g, n %d", chunks, got.CI95(), got.Std(), got.N)
		}
	}
}

func summarise(v []float64) job.Metric {
	m := job.Metric{N: uint64(len(v)), Min: slices.Min(v), Max: slices.Max(v)}
	for _, x := range v {
		m.Mean += x / float64(len(v))
	}
	for _, x := range v {
		m.M2 += (x - m.Mean) * (x - m.Mean)
	}
	return m
}

// Extreme but valid results must not drive an aggregate out of the numbers.
func TestTreeStaysFinite(t *testing.T) {
	tr := newTree(64)
	for i := range 64 {
		v := job.MaxMetricValue * float64(1-2*(i%2))
		tr.set(i, job.Metric{N: job.MaxIterations / 64, Mean: v, Min: v, Max: v})
	}
	if a := tr.root(); math.IsNaN(a.Mean) || math.IsInf(a.M2, 0) || math.IsInf(a.CI95(), 0) {
		t.Errorf("%+v", a)
	}
}
