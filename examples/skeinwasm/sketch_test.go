package skeinwasm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// What a guest writes is what a worker takes, however many metrics there are and
// however wide they spread.
func TestSketchesAreTaken(t *testing.T) {
	for _, count := range []int{1, 40, 1000} {
		compute := func(c Chunk, _ []byte) (map[string]Metric, error) {
			out := map[string]Metric{}
			for k := range count {
				s := NewStream(c.Seed, uint64(k))
				m := Metric{Sketch: NewSketch()}
				for i := range c.Iterations {
					switch u := s.Uniform(i); k % 3 {
					case 0:
						m.Add(math.Exp(600*u - 300))
					case 1:
						m.Add(-math.Ldexp(1, int(100*u)))
					default:
						m.Add(math.Floor(3*u) - 1)
					}
				}
				out[fmt.Sprint("m", k)] = m
			}
			return out, nil
		}
		env := map[string]string{"SKEIN_ITERATIONS": "2000", "SKEIN_SEED_OFFSET": "0", "SKEIN_CHUNK_ID": "0"}
		var out bytes.Buffer
		if err := run(func(k string) string { return env[k] }, bytes.NewReader(nil), &out, compute); err != nil {
			t.Fatal(err)
		}
		var r job.ChunkResult
		d := json.NewDecoder(&out)
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(2000); err != nil {
			t.Fatalf("%d metrics: %v", count, err)
		}
		m := r.Metrics["m0"]
		if m.Sketch.Count() != 2000 || m.Sketch.Buckets() < 15 {
			t.Errorf("%d metrics: %d samples in %d buckets", count, m.Sketch.Count(), m.Sketch.Buckets())
		}
		// The median of exp(600u-300) is 1.
		if v := m.Sketch.Quantile(0.5); count == 1 && !(math.Abs(math.Log(v)) < 40) {
			t.Errorf("median %g", v)
		}
	}
}
