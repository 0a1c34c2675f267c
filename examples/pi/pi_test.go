package main

import (
	"math"
	"math/bits"
	"testing"

	"github.com/skein-project/skein/examples/skeinwasm"
)

func TestPi(t *testing.T) {
	c := skeinwasm.Chunk{Iterations: 2_000_000, Offset: 1 << 40, Seed: 42}
	m, err := compute(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	pi := m["pi"]
	if e := math.Abs(pi.Mean - math.Pi); e > 4*pi.StdErr() {
		t.Errorf("pi is %v, off by %.1f standard errors", pi.Mean, e/pi.StdErr())
	}
	if sd := math.Sqrt(pi.M2 / float64(pi.N)); math.Abs(sd-math.Sqrt(math.Pi*(4-math.Pi))) > 0.01 {
		t.Errorf("standard deviation %v", sd)
	}
}

// However a job is cut, the same points are counted.
func TestChunksAddUp(t *testing.T) {
	whole := inside(skeinwasm.Chunk{Iterations: 100_000, Offset: 5, Seed: 9})
	var parts uint64
	for at, left := uint64(5), uint64(100_000); left > 0; {
		n := min(left, 7_777)
		parts += inside(skeinwasm.Chunk{Iterations: n, Offset: at, Seed: 9})
		at, left = at+n, left-n
	}
	if parts != whole {
		t.Fatalf("%d inside in parts, %d as a whole", parts, whole)
	}
}

// The branchless comparison is the plain one.
func TestInsideIsThePlainTest(t *testing.T) {
	c := skeinwasm.Chunk{Iterations: 10_000, Seed: 3}
	s := skeinwasm.NewStream(c.Seed, 0)
	var n uint64
	for i := range c.Iterations {
		x, y := s.At(i)>>33|1, s.At(i)&(1<<31-1)|1
		sum, carry := bits.Add64(x*x, y*y, 0)
		if carry == 0 && sum < 1<<62 {
			n++
		}
	}
	if got := inside(c); got != n {
		t.Fatalf("%d, want %d", got, n)
	}
}

func TestSummaryOfExtremes(t *testing.T) {
	for _, c := range []struct {
		hits           uint64
		mean, min, max float64
	}{{0, 0, 0, 0}, {10, 4, 4, 4}, {5, 2, 0, 4}} {
		if m := summary(c.hits, 10); m.Mean != c.mean || m.Min != c.min || m.Max != c.max || m.M2 < 0 {
			t.Errorf("%d hits: %+v", c.hits, m)
		}
	}
}

func BenchmarkInside(b *testing.B) {
	for b.Loop() {
		inside(skeinwasm.Chunk{Iterations: 1_000_000})
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "iterations/s")
}
