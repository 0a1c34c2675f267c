package state

import (
	"math"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// sketched is a result of n samples, all between 2^((bucket-1)/32) and
// 2^(bucket/32).
func sketched(bucket int64, n int) job.ChunkResult {
	x := math.Exp2((float64(bucket) - 0.5) / 32)
	return job.ChunkResult{Iterations: uint64(n), Metrics: map[string]job.Metric{"x": {
		N: uint64(n), Mean: x, Min: x, Max: x, Sketch: &job.Sketch{Above: []int64{bucket, int64(n)}},
	}}}
}

// Results that differ end the job's sketches, in either order; the same result
// twice does not.
func TestResultsThatDifferBlurSketches(t *testing.T) {
	one, two := sketched(3, 10), sketched(70, 10)
	for _, r := range []job.ChunkResult{one, two} {
		if err := r.Validate(10); err != nil {
			t.Fatal(err)
		}
	}
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
