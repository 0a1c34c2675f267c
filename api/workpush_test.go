package api

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// FuzzWorkPush: a push has the bytes of json.Marshal, behind what was there, or fails as it does.
func FuzzWorkPush(f *testing.F) {
	f.Add("chunk", "wasm", "jabc", "", uint64(1)<<63, 600.5, int64(1_790_000_000), uint8(2))
	f.Add("stop", "", "", "w\"<", uint64(0), 0.0, int64(0), uint8(1))
	f.Add("replaced", "é", "j", "elsewhere", uint64(7), math.Inf(1), int64(1)<<60, uint8(0))
	f.Add("settled", "exec", "j", "", uint64(7), 1e-7, int64(-1), uint8(9))
	f.Fuzz(func(t *testing.T, kind, executor, id, reason string, n uint64, seconds float64, at int64, refs uint8) {
		p := WorkPush{V: 1, Type: kind, Session: n, Seq: n / 3, Term: cluster.Term(n / 7), At: time.Unix(at, int64(n%1e9)).UTC(), Reason: reason, After: n % 5}
		var list []job.Attempt
		for i := range refs {
			list = append(list, job.Attempt{Job: job.ID(id), Chunk: int(i) * 7, Number: int(n % 9), Worker: cluster.NodeID(reason)})
		}
		if p.Refs = list; refs%2 == 0 {
			p.Refs = nil
			p.Chunks = &WorkChunks{Refs: list, Spec: WorkSpec{
				Executor: executor, Artefact: cluster.Hash{refs}, Config: cluster.Hash{byte(n)}, FirstIteration: n / 2, Iterations: n, Chunk: n / 4, Seed: n / 5,
				MemoryBytes: n / 6, TimeoutSeconds: seconds, HardTimeoutSeconds: -seconds,
			}}
		}
		want, wrong := json.Marshal(p)
		got, err := p.Append([]byte("before"))
		if (err == nil) != (wrong == nil) || err == nil && !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Fatalf("%s, %v\nwant %s, %v", got, err, want, wrong)
		}
	})
}

// TestPushHasAllFields: what is added to a push is written here as well.
func TestPushHasAllFields(t *testing.T) {
	p := WorkPush{
		V: 1, Type: "chunk", Session: 2, Seq: 3, Term: 4, At: time.Unix(1, 0).UTC(), Refs: []job.Attempt{{Job: "j", Chunk: 5, Number: 6, Worker: "w"}}, Reason: "r", After: 7,
		Chunks: &WorkChunks{Refs: []job.Attempt{{Chunk: 1, Number: 1}}, Spec: WorkSpec{
			Executor: "wasm", Artefact: cluster.Hash{1}, Config: cluster.Hash{2}, FirstIteration: 1, Iterations: 2, Chunk: 3, Seed: 4, MemoryBytes: 5, TimeoutSeconds: 6, HardTimeoutSeconds: 7,
		}},
	}
	for _, v := range []any{p, *p.Chunks, p.Chunks.Spec, p.Refs[0]} {
		for i, fields := 0, reflect.ValueOf(v); i < fields.NumField(); i++ {
			if fields.Field(i).IsZero() {
				t.Errorf("%T: this test has no %s", v, fields.Type().Field(i).Name)
			}
		}
	}
	want, err := json.Marshal(p)
	got, err1 := p.Append(nil)
	if err != nil || err1 != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v\nwant %s, %v", got, err1, want, err)
	}
}
