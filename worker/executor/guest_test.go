package executor

import (
	"bytes"
	"testing"

	"github.com/skein-project/skein/worker/runner"
)

// A guest written in Go that tries files, directories, descriptors and
// sockets gets none, and sees what the contract promises and nothing else.
func TestGuestSeesOnlyItsChunk(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest")
	}
	h := newWASMHost(t, nil)
	task := h.put(t, buildGuest(t, "./testdata/guest"))
	config, err := h.store.Put(bytes.NewReader([]byte(`{"a":1}`)), 100)
	if err != nil {
		t.Fatal(err)
	}
	task.Spec.Config = config
	t.Setenv("SKEIN_SECRET", "of the host")

	see := func(slot int) map[string]float64 {
		t.Helper()
		r, err := h.Execute(t.Context(), slot, task)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for name, m := range r.Metrics {
			values[name] = m.Mean
		}
		return values
	}
	first := see(0)
	for name, want := range map[string]float64{
		"iterations": 10, "offset": 30, "chunk": 3, "seed": 42, "config": 7, "unix": runner.GuestEpoch, "slept": 1,
	} {
		if first[name] != want {
			t.Errorf("guest saw %s %v, want %v", name, first[name], want)
		}
	}
	again := see(1)
	for name, v := range first {
		if again[name] != v {
			t.Errorf("second run of the same chunk saw %s %v, the first %v", name, again[name], v)
		}
	}
	task.Attempt.Chunk = 4
	if other := see(0); other["random"] == first["random"] {
		t.Error("another chunk drew the same random bytes")
	}
	task.Attempt.Chunk, task.Spec.Seed = 3, 43
	if other := see(0); other["random"] == first["random"] {
		t.Error("another seed drew the same random bytes")
	}
}
