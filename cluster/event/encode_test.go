package event

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestEncodeBodyAsMarshal compares the bodies that are written by hand with
// what json.Marshal makes of them.
func TestEncodeBodyAsMarshal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "n1", "j2kq6", `a"b`, `a\b`, "<&>", "ä", "a\nb", "\x7f", "\xff", "~ !"}
	floats := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e-7, 1e-10, 1.5e-300, 1e20, 1e21, 1.25e21, 3.5e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(-1)}
	text := func() string { return texts[rng.IntN(min(3+rng.IntN(20), len(texts)))] }
	float := func() float64 {
		if rng.IntN(3) == 0 {
			return floats[rng.IntN(len(floats)-2+rng.IntN(20)/19*2)]
		}
		return math.Ldexp(rng.NormFloat64(), rng.IntN(200)-100)
	}
	result := func() (r job.ChunkResult) {
		r.Iterations = rng.Uint64() >> rng.IntN(64)
		if rng.IntN(8) > 0 {
			r.Metrics = map[string]job.Metric{}
		}
		for n := rng.IntN(4); n > 0 && r.Metrics != nil; n-- {
			m := job.Metric{N: rng.Uint64() >> rng.IntN(64), Mean: float(), M2: float(), Min: float(), Max: float()}
			if rng.IntN(4) == 0 {
				m.Sketch = &job.Sketch{}
			}
			r.Metrics[text()] = m
		}
		return r
	}
	same, failed := 0, 0
	for range 20000 {
		bodies := []any{
			HostStarted{Version: text(), Boot: rng.Uint64()},
			ChunkAccepted{Job: job.ID(text()), Chunk: rng.IntN(1e9), Attempt: rng.IntN(9) - 1, Worker: cluster.NodeID(text()), Result: result(), Seconds: float(), Settles: rng.IntN(2) == 0},
		}
		some, given := ChunksAccepted{Job: job.ID(text())}, ChunksAssigned{Job: job.ID(text())}
		for range rng.IntN(3) {
			some.Accepts = append(some.Accepts, Accept{Chunk: rng.IntN(1e9), Attempt: rng.IntN(9) - 1, Worker: cluster.NodeID(text()), Seconds: float(), Settles: rng.IntN(2) == 0, Result: result()})
			given.Assignments = append(given.Assignments, job.Attempt{Chunk: rng.IntN(1e9), Number: rng.IntN(9) - 1, Worker: cluster.NodeID(text())})
		}
		for _, body := range append(bodies, some, given) {
			want, wantErr := json.Marshal(body)
			got, err := AppendBody([]byte("before"), body)
			got, kept := bytes.CutPrefix(got, []byte("before"))
			if !kept || !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("%#v:\n%s (%v), want\n%s (%v)", body, got, err, want, wantErr)
			}
			if same++; err != nil {
				failed++
			}
		}
	}
	if failed == 0 || failed > same/4 {
		t.Errorf("%d of %d bodies had no form", failed, same)
	}
}

func BenchmarkAppendBody(b *testing.B) {
	body := ChunksAccepted{Job: "j2kq6"}
	for i := range 16 {
		body.Accepts = append(body.Accepts, Accept{Chunk: i, Attempt: 1, Worker: "host-001", Seconds: 0.25, Result: job.ChunkResult{
			Iterations: 1000, Metrics: map[string]job.Metric{"pi": {N: 1000, Mean: 3.1412, M2: 2697.3, Min: 0, Max: 4}},
		}})
	}
	ours := func(body any) ([]byte, error) { return AppendBody(nil, body) }
	for name, encode := range map[string]func(any) ([]byte, error){"ours": ours, "marshal": json.Marshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
