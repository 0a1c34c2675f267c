package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/load"
)

func times(rng *rand.Rand, n int) []time.Duration {
	out := make([]time.Duration, n)
	scale := math.Exp(rng.Float64()*10) * 1e3
	for i := range out {
		out[i] = time.Duration(rng.ExpFloat64() * scale)
	}
	return out
}

// Every bucket ends where that of the sketch does: one sample, read back by either.
func TestBucketsAreThoseOfASketch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	try := func(d time.Duration) {
		var h Hist
		h.Record(d)
		m := h.Metric()
		if err := m.Validate(1); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		x := min(max(d, least), most).Seconds()
		g := math.Exp2(float64(m.Sketch.Above[0]) / 32)
		if x > g*(1+1e-14) || x <= g*math.Exp2(-1.0/32)*(1-1e-14) {
			t.Fatalf("%s lies in the bucket that ends at %g s", d, g)
		}
	}
	for i := range 64 {
		try(time.Duration(1) << i >> 1)
	}
	for range 20_000 {
		try(time.Duration(math.Exp(rng.Float64()*math.Log(5e12))) * time.Nanosecond)
	}
	for i := -19; i <= 12; i++ { // ends of octaves, exactly
		d := time.Duration(math.Ldexp(1e9, i))
		try(d)
		try(d + 1)
	}
}

func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		var h Hist
		list := times(rng, 1+rng.IntN(3000))
		for _, d := range list {
			h.Record(d)
		}
		slices.Sort(list)
		for _, q := range []float64{0, 0.5, 0.95, 0.99, 1} {
			at := 0 // so many are shorter at least
			for float64(at+1) < q*float64(len(list))-1e-6 {
				at++
			}
			want := max(list[at], least).Seconds()
			if got := h.Quantile(q); math.Abs(got-want) > Accuracy()*want*1.001 || got > h.Max() || got < h.Min() {
				t.Fatalf("p%g of %d is %g, want %g", q*100, len(list), got, want)
			}
		}
	}
	var few Hist
	for i := range 100 {
		few.Record(time.Duration(i+1) * time.Second)
	}
	for _, c := range []struct{ q, want float64 }{{0.07, 7}, {0.5, 50}, {0.95, 95}, {0.99, 99}, {0.991, 100}, {0.999, 100}} {
		if got := few.Quantile(c.q); math.Abs(got-c.want) > Accuracy()*c.want*1.001 {
			t.Errorf("p%g of 1..100 is %g", c.q*100, got)
		}
	}
	if !math.IsNaN((&Hist{}).Quantile(0.5)) {
		t.Error("a quantile of nothing")
	}
}

// Windows add up to the result, to the count, in any order and whether they travelled
// as sketches or not; what is taken back leaves no trace.
func TestWindowsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const series, checks = 3, 4
	var all []Sample
	whole := NewBank(series, checks)
	var windows []*Bank
	for range 50 {
		w := NewBank(series, checks)
		for range rng.IntN(200) {
			s := Sample{Series: rng.IntN(series), Class: load.Class(rng.IntN(int(load.Classes))), FirstCheck: rng.IntN(2), In: rng.Uint64N(999)}
			for p := range s.Times {
				s.Times[p], s.Have[p] = time.Duration(rng.ExpFloat64()*1e7), rng.IntN(3) > 0
			}
			s.Checks = []bool{rng.IntN(2) == 0, rng.IntN(5) == 0}
			s.OwnLate = rng.IntN(2) == 0
			all = append(all, s)
			w.Record(&s)
			whole.Record(&s)
		}
		windows = append(windows, w)
	}
	rng.Shuffle(len(windows), func(i, j int) { windows[i], windows[j] = windows[j], windows[i] })
	sum := NewBank(series, checks)
	var sparse Hist
	merged := job.Metric{}
	for _, w := range windows {
		sum.Add(w)
		m := w.All().Times[Latency].Metric()
		sparse.AddMetric(m)
		merged = merged.Merge(m)
	}
	same := func(a, b *Hist) {
		t.Helper()
		x, y := a.Metric(), b.Metric()
		if x.N != y.N || !x.Sketch.Equal(y.Sketch) || math.Abs(x.Mean-y.Mean) > 1e-9*x.Mean || x.Min != y.Min || x.Max != y.Max {
			t.Fatalf("%+v, want %+v", x, y)
		}
	}
	for i := range whole.Series {
		for p := range whole.Series[i].Times {
			same(&sum.Series[i].Times[p], &whole.Series[i].Times[p])
		}
		if sum.Series[i].Classes != whole.Series[i].Classes || sum.Series[i].In != whole.Series[i].In {
			t.Fatal("classes or bytes do not add up")
		}
	}
	same(&sum.OwnLate, &whole.OwnLate)
	same(&sparse, &whole.All().Times[Latency])
	if merged.N != sparse.N || !merged.Sketch.Equal(sparse.Metric().Sketch) {
		t.Fatal("sketches merge to something else")
	}
	var held Tally
	for _, c := range sum.Checks {
		held.Add(c)
	}
	if !slices.Equal(sum.Checks, whole.Checks) || held.Passed+held.Failed != uint64(2*len(all)) {
		t.Fatal("checks do not add up")
	}
	for _, w := range windows[1:] {
		sparse.SubMetric(w.All().Times[Latency].Metric())
	}
	if x, y := sparse.Metric(), windows[0].All().Times[Latency].Metric(); x.N != y.N || !x.Sketch.Equal(y.Sketch) {
		t.Fatalf("taken back: %+v, want %+v", x, y)
	}
	sum.Reset()
	if sum.All().Count() != 0 || sum.All().Times[Latency].N != 0 {
		t.Fatal("what was emptied is not empty")
	}
}

// A run of days has as many points as one of minutes.
func TestTimelineIsBounded(t *testing.T) {
	var line Timeline
	w := NewBank(1, 0)
	w.Record(&Sample{Times: [Phases]time.Duration{time.Millisecond}, Have: [Phases]bool{true}})
	n := 0
	for at := Step; at <= 3*time.Hour; at += Step {
		line.Add(at, w, Gauges{Users: 3})
		n++
	}
	line.End()
	total := uint64(0)
	for _, p := range line.Points {
		total += p.Requests
		if p.Latency.N != p.Requests || p.Users != 3 {
			t.Fatalf("%+v", p)
		}
	}
	if len(line.Points) >= maxPoints || total != uint64(n) || line.Points[len(line.Points)-1].At != 3*time.Hour {
		t.Errorf("%d points with %d of %d requests", len(line.Points), total, n)
	}
}

// What a run ends with is no point of its own where it is short: it would look as if the
// rate had fallen.
func TestShortTailIsNoPoint(t *testing.T) {
	for _, c := range []struct{ windows, points int }{{0, 1}, {3, 1}, {10, 1}, {11, 1}, {14, 1}, {15, 2}, {20, 2}} {
		var line Timeline
		w := NewBank(1, 0)
		w.Record(&Sample{Times: [Phases]time.Duration{time.Millisecond}, Have: [Phases]bool{true}})
		for i := range c.windows {
			line.Add(time.Duration(i+1)*Step, w, Gauges{})
		}
		line.Tail(w)
		line.End()
		var all Point
		for _, p := range line.Points {
			all = all.join(p)
		}
		if len(line.Points) != c.points || all.Requests != uint64(c.windows)+1 || all.Latency.N != all.Requests || all.At != time.Duration(max(c.windows, 1))*Step || all.Span != all.At {
			t.Errorf("%d windows: %d points, %+v", c.windows, len(line.Points), all)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	w := NewBank(1, 0)
	s := Sample{}
	for i := range 6 {
		s.Have[i] = true
	}
	d := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		d = (d + 7919) & (1<<24 - 1)
		for i := range s.Times {
			s.Times[i] = d
		}
		w.Record(&s)
	}
}
