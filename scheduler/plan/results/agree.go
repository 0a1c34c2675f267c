package results

import (
	"math"
	"reflect"

	"github.com/skein-project/skein/cluster/job"
)

// Agree reports that two results of one chunk are the same: bit by bit, or
// within the relative tolerance. Files are the same or not.
func Agree(a, b job.ChunkResult, tolerance float64) bool {
	if a.Iterations != b.Iterations || len(a.Metrics) != len(b.Metrics) || !a.Outputs.Equal(b.Outputs) {
		return false
	}
	if tolerance == 0 {
		return reflect.DeepEqual(a, b)
	}
	near := func(x, y, scale float64) bool { return math.Abs(x-y) <= tolerance*scale }
	for name, m := range a.Metrics {
		o, ok := b.Metrics[name]
		if !ok || m.N != o.N {
			return false
		}
		scale := max(math.Abs(m.Min), math.Abs(m.Max), math.Abs(o.Min), math.Abs(o.Max))
		if !near(m.Mean, o.Mean, scale) || !near(m.Min, o.Min, scale) || !near(m.Max, o.Max, scale) || !near(m.M2, o.M2, max(m.M2, o.M2)) {
			return false
		}
	}
	return true
}
