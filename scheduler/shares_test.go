package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestNamed: the end of a job names every host and the outside workers that did most;
// nothing of what the others did is lost.
func TestNamed(t *testing.T) {
	for name, c := range map[string]struct{ hosts, outside, want int }{
		"few":            {3, 50, 53},
		"as many as may": {3, maxShares - 3, maxShares},
		"one more":       {3, maxShares - 2, maxShares},
		"very many":      {100, 20000, maxShares},
		"hosts alone":    {maxShares + 7, 0, maxShares + 7},
		"and some more":  {maxShares + 7, 5, maxShares + 8},
	} {
		var shares []job.WorkShare
		for i := range c.hosts {
			shares = append(shares, job.WorkShare{Worker: cluster.NodeID(fmt.Sprintf("n%d", i)), Chunks: 1, Iterations: 1})
		}
		for i := range c.outside {
			shares = append(shares, job.WorkShare{Worker: cluster.OutsideID(fmt.Append(nil, i)), Chunks: 1 + i%7, Iterations: 10 * uint64(1+i%7)})
		}
		slices.SortFunc(shares, func(a, b job.WorkShare) int { return cmpNode(a.Worker, b.Worker) })
		sum := func(list []job.WorkShare) (chunks int, iterations uint64) {
			for _, sh := range list {
				chunks, iterations = chunks+sh.Chunks, iterations+sh.Iterations
			}
			return chunks, iterations
		}
		got := named(shares)
		chunks, iterations := sum(got)
		if wantChunks, wantIterations := sum(shares); chunks != wantChunks || iterations != wantIterations || len(got) != c.want {
			t.Errorf("%s: %d shares, %d chunks, %d iterations, want %d, %d, %d", name, len(got), chunks, iterations, c.want, wantChunks, wantIterations)
		}
		if !slices.IsSortedFunc(got, func(a, b job.WorkShare) int { return cmpNode(a.Worker, b.Worker) }) {
			t.Errorf("%s: not by name", name)
		}
		total := c.hosts + 7*c.outside + 1
		r := job.Result{Accepted: chunks, Iterations: iterations, Workers: got}
		if err := r.Validate(job.Spec{Iterations: uint64(10 * total), Chunk: 10}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		least := 7
		for _, sh := range got {
			if cluster.IsOutside(sh.Worker) {
				least = min(least, sh.Chunks)
			}
		}
		if c.outside > 7000 && least < 7 {
			t.Errorf("%s: one with %d chunks is named", name, least)
		}
	}
}

func cmpNode(a, b cluster.NodeID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
