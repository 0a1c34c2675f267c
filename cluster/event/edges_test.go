package event

import (
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// TestStateTables shows that ends absorb, and that every other state leads to one.
func TestStateTables(t *testing.T) {
	out := map[job.State]int{}
	for _, e := range JobEdges() {
		out[e.From]++
		if e.From.Final() || !e.By.Authority() || e.From == "" && e.By != KindJobSubmitted {
			t.Errorf("edge %+v", e)
		}
	}
	for _, e := range JobEdges() {
		if !e.To.Final() && out[e.To] == 0 {
			t.Errorf("%s is a dead end", e.To)
		}
	}
	for _, e := range ChunkEdges() {
		if e.From == job.ChunkAccept && e.To != job.ChunkAccept || !e.By.Authority() {
			t.Errorf("edge %+v", e)
		}
	}
}
