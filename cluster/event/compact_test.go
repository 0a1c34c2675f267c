package event

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// compactBodies are pointers to the types that ReadCompact knows.
func compactBodies() []any {
	return []any{&ChunkAccepted{}, &ChunksAccepted{}, &ChunksAssigned{}, &HostStarted{}}
}

// TestReadCompact shows that what this version writes takes the fast way, and
// means the same as the general decoder says.
func TestReadCompact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	float := func() float64 {
		switch r.IntN(4) {
		case 0:
			return float64(r.IntN(3))
		case 1:
			return r.NormFloat64() * math.Pow(10, float64(r.IntN(60)-30))
		}
		return -r.Float64()
	}
	for range 2000 {
		metrics := map[string]job.Metric{}
		for range r.IntN(4) {
			name := string([]byte{byte('a' + r.IntN(26)), byte('0' + r.IntN(10))})
			metrics[name] = job.Metric{N: uint64(r.Int64()), Mean: float(), M2: float(), Min: float(), Max: float()}
		}
		assigned := ChunksAssigned{Job: "j", Assignments: []job.Attempt{}}
		for range r.IntN(4) {
			assigned.Assignments = append(assigned.Assignments, job.Attempt{Chunk: r.IntN(1e6), Number: 1 + r.IntN(9), Worker: "host-001"})
		}
		for _, body := range []any{
			&ChunkAccepted{
				Job: job.NewID("o", "k"), Chunk: r.IntN(1e6), Attempt: 1 + r.IntN(9), Worker: "n1", Seconds: float(),
				Result: job.ChunkResult{Iterations: r.Uint64N(1 << 62), Metrics: metrics},
			},
			&ChunksAccepted{Job: "j", Accepts: []Accept{
				{Chunk: r.IntN(1e6), Attempt: 1, Worker: "n1", Seconds: float(), Result: job.ChunkResult{Iterations: 9, Metrics: metrics}},
				{
					Chunk: 1, Attempt: 1, Worker: "n2", Seconds: float(), Settles: true,
					Result: job.ChunkResult{Metrics: map[string]job.Metric{"m": {N: 1, Max: float()}}},
				},
			}},
			&assigned,
			&HostStarted{Version: "v1.2.3-x y", Boot: r.Uint64N(1 << 62)},
		} {
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			got := reflect.New(reflect.TypeOf(body).Elem()).Interface()
			if !ReadCompact(got, b, NewScratch()) {
				t.Fatalf("not read as compact: %s", b)
			}
			if !reflect.DeepEqual(got, body) {
				t.Fatalf("%s\nread as %+v\nwant    %+v", b, got, body)
			}
		}
	}
}

// FuzzReadCompact holds the fast decoder against the general one: what it takes must
// mean the same.
func FuzzReadCompact(f *testing.F) {
	for _, s := range []string{
		`{"job":"j","chunk":7,"attempt":1,"worker":"n1","result":{"iterations":10,"metrics":{"x":{"n":10,"mean":0.5,"m2":1e-7,"min":-0,"max":1.25e+3}}},"seconds":0}`,
		`{"job":"j","chunk":007,"attempt":1,"worker":"n1","result":{"iterations":18446744073709551616,"metrics":{}},"seconds":01}`,
		`{"job":"j","chunk":7,"attempt":1,"worker":"n1","result":{"iterations":10,"metrics":{"x":{"n":1,"mean":1,"m2":0,"min":1,"max":1},"x":{"n":2,"mean":1,"m2":0,"min":1,"max":1}}},"seconds":1e999}`,
		`{"job":"j","assignments":[{"chunk":0,"attempt":1,"worker":"n1"},{"chunk":1,"attempt":2,"worker":"\u006e"}]}`,
		`{"job":"j","assignments":[{"chunk":0,"attempt":1,"worker":"n1"},]}`,
		`{"job":"j","accepts":[{"chunk":7,"attempt":1,"worker":"n1","seconds":1.5,"settles":true,"result":{"iterations":1,"metrics":{"x":{"n":1,"mean":1,"m2":0,"min":1,"max":1}}}}]}`,
		`{"version":"v1","boot":3}`, `{"version":"v<1","boot":3} `, `{"version":"","boot":0x1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, got := range compactBodies() {
			if !ReadCompact(got, b, NewScratch()) {
				continue
			}
			want := reflect.New(reflect.TypeOf(got).Elem()).Interface()
			if err := json.Unmarshal(b, want); err != nil {
				t.Fatalf("%q is read, but %v", b, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q\nread as %+v\nwant    %+v", b, got, want)
			}
		}
	})
}
