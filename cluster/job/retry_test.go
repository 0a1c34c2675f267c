package job

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// A job that begins at a later iteration computes what another one has there.
func TestFirstIteration(t *testing.T) {
	whole := Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 95, Chunk: 10}.WithDefaults()
	part := whole
	part.FirstIteration, part.Iterations, part.RetryOf = 70, 25, NewID("o", "k")
	if err := part.Validate(); err != nil || part.Chunks() != 3 {
		t.Fatal(part.Chunks(), err)
	}
	for i := range part.Chunks() {
		offset, n := part.ChunkRange(i)
		if o, m := whole.ChunkRange(7 + i); o != offset || m != n {
			t.Errorf("chunk %d: %d iterations from %d, want %d from %d", i, n, offset, m, o)
		}
	}
	part.FirstIteration = MaxIterations - 24
	if err := part.Validate(); err == nil || !strings.Contains(err.Error(), "first_iteration is") {
		t.Error(err)
	}
	part.FirstIteration, part.RetryOf = 0, "job"
	if err := part.Validate(); err == nil || !strings.Contains(err.Error(), "retry_of") {
		t.Error(err)
	}
}
