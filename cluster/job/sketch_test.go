package job

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sketchOf counts samples one by one: the naive twin of a guest's sketch.
func sketchOf(samples []float64) *Sketch {
	s := &Sketch{}
	below, above := map[int64]int64{}, map[int64]int64{}
	for _, x := range samples {
		switch i, zero := sketchIndex(math.Abs(x)); {
		case zero:
			s.Zero++
		case x < 0:
			below[i]++
		default:
			above[i]++
		}
	}
	side := func(m map[int64]int64) (out []int64) {
		for i := int64(-maxSketchIndex); i <= maxSketchIndex; i++ {
			if m[i] > 0 {
				out = append(out, i, m[i])
			}
		}
		return out
	}
	s.Below, s.Above = side(below), side(above)
	return s
}

func metricOf(samples []float64) Metric {
	m := Metric{}
	for _, x := range samples {
		m = m.Merge(Metric{N: 1, Mean: x, Min: x, Max: x})
	}
	m.Sketch = sketchOf(samples)
	return m
}

// samplesOf draws from one of several distributions, some of which need many
// buckets.
func samplesOf(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	kind := rng.IntN(5)
	for i := range out {
		switch kind {
		case 0:
			out[i] = rng.NormFloat64()
		case 1:
			out[i] = rng.ExpFloat64() * 1e6
		case 2:
			out[i] = float64(rng.IntN(3))
		case 3:
			out[i] = math.Exp(600*rng.Float64()-300) * float64(1-2*rng.IntN(2))
		default:
			out[i] = math.Ldexp(1, rng.IntN(800)-400)
		}
	}
	return out
}

func TestSketchIndexIsTheLogarithm(t *testing.T) {
	for i := int64(1 - maxSketchIndex + 64); i < maxSketchIndex-64; i += 7 {
		g := power(i)
		if want := math.Exp2(float64(i) / sketchSteps); math.Abs(g-want) > 1e-13*want {
			t.Fatalf("2^(%d/32) is %g, want %g", i, g, want)
		}
		if at, zero := sketchIndex(g); at != i || zero {
			t.Fatalf("the end of bucket %d lies in %d", i, at)
		}
		if at, _ := sketchIndex(math.Nextafter(g, math.Inf(1))); at != i+1 {
			t.Fatalf("what follows bucket %d lies in %d", i, at)
		}
	}
	for _, x := range []float64{0, 1e-141, 5e-324} {
		if _, zero := sketchIndex(x); !zero {
			t.Errorf("%g is not next to zero", x)
		}
	}
}

func TestQuantilesAreRightToTheAccuracy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		samples := samplesOf(rng, 1+rng.IntN(3000))
		s := sketchOf(samples).Coarsen(MaxMergedBuckets >> rng.IntN(6))
		slices.Sort(samples)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			want, have := samples[int(q*float64(len(samples)-1))], s.Quantile(q)
			if math.Abs(have-want) > s.Accuracy()*math.Abs(want)*(1+1e-9) {
				t.Fatalf("quantile %g of %d samples at level %d is %g, want %g to %g", q, len(samples), s.Level, have, want, s.Accuracy())
			}
		}
	}
	if s := sketchOf(nil); !math.IsNaN(s.Quantile(0.5)) || !math.IsNaN(sketchOf([]float64{1}).Quantile(math.NaN())) {
		t.Error("a quantile of nothing")
	}
}

// Merged in any order and any grouping, a sketch is the same.
func TestSketchesMergeInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 40 {
		parts := make([]*Sketch, 2+rng.IntN(20))
		n := uint64(0)
		for i := range parts {
			parts[i] = sketchOf(samplesOf(rng, rng.IntN(400))).Coarsen(16 << rng.IntN(7))
			n += parts[i].Count()
		}
		limit := 64 << rng.IntN(6)
		line := parts[0].Coarsen(limit)
		for _, p := range parts[1:] {
			line = line.Merge(p, limit)
		}
		for len(parts) > 1 {
			i, j := rng.IntN(len(parts)), rng.IntN(len(parts))
			if i == j {
				continue
			}
			parts[i] = parts[i].Merge(parts[j], limit)
			parts = slices.Delete(parts, j, j+1)
		}
		if !line.Equal(parts[0].Coarsen(limit)) {
			t.Fatalf("round %d: %+v, in another order %+v", round, line, parts[0])
		}
		if line.Count() != n || line.Buckets() > limit {
			t.Fatalf("round %d: %d of %d samples in %d buckets", round, line.Count(), n, line.Buckets())
		}
	}
}

func TestSketchRefusesWhatCannotBe(t *testing.T) {
	good := func() Metric { return metricOf([]float64{-2, 0, 1, 1, 3}) }
	if err := good().Validate(5); err != nil {
		t.Fatal(err)
	}
	wide := make([]int64, 2*(MaxSketchBuckets+1))
	for i := range MaxSketchBuckets + 1 {
		wide[2*i], wide[2*i+1] = int64(i), 1
	}
	for want, change := range map[string]func(s *Sketch){
		"level is -1":                  func(s *Sketch) { s.Level = -1 },
		"level is 11":                  func(s *Sketch) { s.Level = 11 },
		"1 samples less than n":        func(s *Sketch) { s.Zero = 0 },
		"more samples than n":          func(s *Sketch) { s.Zero = 1 << 63 },
		"the last count is missing":    func(s *Sketch) { s.Above = append(s.Above, 40) },
		"want them rising":             func(s *Sketch) { s.Above = []int64{51, 1, 0, 2} },
		"counts 0, want at least 1":    func(s *Sketch) { s.Above = []int64{0, 0, 51, 3} },
		"counts -5":                    func(s *Sketch) { s.Above = []int64{0, -5, 51, 8} },
		"index 20000":                  func(s *Sketch) { s.Above[2] = 20000 },
		"index -9223372036854775808":   func(s *Sketch) { s.Above[0] = math.MinInt64 },
		"outside min and max":          func(s *Sketch) { s.Above[2] = 60 },
		"1026 buckets, at most 1024":   func(s *Sketch) { s.Above = wide },
		"index 500, want -465 to 466":  func(s *Sketch) { s.Level, s.Above, s.Below = 5, []int64{500, 3}, []int64{1, 1} },
		"more samples than n, which i": func(s *Sketch) { s.Zero = 6 },
	} {
		m := good()
		change(m.Sketch)
		if err := m.Validate(5); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestResultsBoundTheirSketches(t *testing.T) {
	wide := &Sketch{}
	for i := range int64(MaxSketchBuckets) {
		wide.Above = append(wide.Above, i-512, 1)
	}
	r := ChunkResult{Iterations: 1024, Metrics: map[string]Metric{}}
	for i := range MaxResultBuckets / MaxSketchBuckets {
		r.Metrics[string(rune('a'+i))] = Metric{N: 1024, Mean: 100, M2: 1, Min: 1e-5, Max: 1e5, Sketch: wide}
	}
	if err := r.Validate(1024); err != nil {
		t.Fatal(err)
	}
	r.Metrics["one more"] = r.Metrics["a"]
	if err := r.Validate(1024); err == nil || !strings.Contains(err.Error(), "17408 buckets together, at most 16384") {
		t.Error(err)
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > MaxResultBytes {
		t.Errorf("the widest result has %d bytes, a guest may write %d; %v", len(b), MaxResultBytes, err)
	}
}

func TestHashTellsResultsApart(t *testing.T) {
	r := func(samples ...float64) ChunkResult {
		return ChunkResult{Iterations: 3, Metrics: map[string]Metric{"a": metricOf(samples), "b": {N: 1}}}
	}
	one, same := r(1, 2, 3), r(1, 2, 3)
	if one.Hash() != same.Hash() {
		t.Error("one result, two hashes")
	}
	other := r(1, 2, 3)
	m := other.Metrics["a"]
	m.Sketch = nil
	other.Metrics["a"] = m
	if r(1, 2, 3).Hash() == r(1, 2, 4).Hash() || r(1, 2, 3).Hash() == other.Hash() {
		t.Error("two results, one hash")
	}
	if m.Equal(r(1, 2, 3).Metrics["a"]) || !r(1, 2, 3).Metrics["a"].Equal(r(1, 2, 3).Metrics["a"]) {
		t.Error("Equal does not look at the sketch")
	}
}

func TestStrays(t *testing.T) {
	whole := Metric{N: 1e6, Mean: 10, M2: 1e6}
	part := Metric{N: 10000, Mean: 10.059}
	if part.Strays(whole) {
		t.Error("5.9 standard errors are an alarm")
	}
	part.Mean = 9.93
	if !part.Strays(whole) {
		t.Error("7 standard errors are none")
	}
	if (Metric{N: 1, Mean: 5}).Strays(Metric{N: 1, Mean: 5}) || (Metric{}).Strays(whole) {
		t.Error("the whole strays from itself")
	}
}

func TestRelativeError(t *testing.T) {
	if e := (Metric{N: 10000, Mean: -2, M2: 9999 * 4}).RelativeError(); math.Abs(e-0.01959963984540054) > 1e-12 {
		t.Error(e)
	}
	for _, m := range []Metric{{}, {N: 1, Mean: 1}, {N: 5}, {N: 5, M2: 1}} {
		if !math.IsInf(m.RelativeError(), 1) {
			t.Errorf("%+v: %g", m, m.RelativeError())
		}
	}
}

func FuzzSketch(f *testing.F) {
	f.Add([]byte(`{"n":5,"mean":0.6,"m2":13.2,"min":-2,"max":3,"sketch":{"zero":1,"below":[32,1],"above":[0,2,51,1]}}`))
	f.Add([]byte(`{"n":1,"mean":0,"m2":0,"min":0,"max":0,"sketch":{"level":10,"zero":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Metric
		if json.Unmarshal(b, &m) != nil || m.Validate(MaxIterations) != nil {
			return
		}
		if m.Sketch == nil {
			return
		}
		slack := 1e-9 * max(math.Abs(m.Min), math.Abs(m.Max))
		room := 4 * m.Sketch.Accuracy() / (1 - m.Sketch.Accuracy()) * max(math.Abs(m.Min), math.Abs(m.Max))
		for _, q := range []float64{0, 0.5, 1} {
			if v := m.Sketch.Quantile(q); !(v >= m.Min-room-slack && v <= m.Max+room+slack) && room < 1 {
				t.Fatalf("quantile %g is %g of %s", q, v, b)
			}
		}
		twice := m.Merge(m)
		if twice.Sketch.Count() != 2*m.N || twice.Sketch.Validate(Metric{N: twice.N, Min: m.Min, Max: m.Max}, MaxMergedBuckets) != nil {
			t.Fatalf("merged with itself: %+v", twice.Sketch)
		}
	})
}
