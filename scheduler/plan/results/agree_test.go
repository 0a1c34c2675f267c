package results

import (
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

func TestTolerance(t *testing.T) {
	m := func(mean float64) job.ChunkResult {
		return job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, Min: 0, Max: 10}}}
	}
	if !Agree(m(5), m(5), 0) || Agree(m(5), m(5.0000001), 0) || !Agree(m(5), m(5.0000001), 1e-6) || Agree(m(5), m(5.1), 1e-6) {
		t.Error("results agree bit by bit, or within the tolerance")
	}
}
