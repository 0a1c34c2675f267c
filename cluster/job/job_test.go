package job

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func spec() Spec {
	return Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 300}.WithDefaults()
}

func TestJobSpec(t *testing.T) {
	s := spec()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if s.Chunks() != 4 {
		t.Errorf("%d chunks, want 4", s.Chunks())
	}
	var sum uint64
	for i := range s.Chunks() {
		off, n := s.ChunkRange(i)
		if off != sum {
			t.Errorf("chunk %d starts at %d, want %d", i, off, sum)
		}
		sum += n
	}
	if sum != s.Iterations {
		t.Errorf("chunks cover %d iterations, want %d", sum, s.Iterations)
	}
	for name, change := range map[string]func(*Spec){
		"no key":      func(s *Spec) { s.Key = "" },
		"executor":    func(s *Spec) { s.Executor = "shell" },
		"artefact":    func(s *Spec) { s.Artefact = cluster.Hash{} },
		"iterations":  func(s *Spec) { s.Iterations = 0 },
		"overflow":    func(s *Spec) { s.Iterations = math.MaxUint64 },
		"chunk":       func(s *Spec) { s.Chunk = s.Iterations + 1 },
		"many chunks": func(s *Spec) { s.Iterations, s.Chunk = 1<<40, 1 },
		"attempts":    func(s *Spec) { s.Attempts = -1 },
		"timeout NaN": func(s *Spec) { s.TimeoutSeconds = math.NaN() },
		"timeout":     func(s *Spec) { s.TimeoutSeconds = 1e9 },
		"memory":      func(s *Spec) { s.MemoryBytes = 1 },
	} {
		s := spec()
		change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v, want ErrSpec", name, err)
		}
	}
}

func TestExecSpec(t *testing.T) {
	s := spec()
	s.Executor, s.Program, s.Artefact = ExecutorExec, "render", cluster.Hash{}
	if err := s.Validate(); err != nil || s.Needs() != "exec:render" || len(s.Hashes()) != 0 {
		t.Fatalf("%v, needs %s, hashes %v", err, s.Needs(), s.Hashes())
	}
	for name, change := range map[string]func(*Spec){
		"none":     func(s *Spec) { s.Program = "" },
		"a path":   func(s *Spec) { s.Program = "/bin/sh" },
		"long":     func(s *Spec) { s.Program = strings.Repeat("a", MaxProgramName+1) },
		"artefact": func(s *Spec) { s.Artefact = cluster.Hash{1} },
		"wasm":     func(s *Spec) { s.Executor, s.Artefact = ExecutorWASM, cluster.Hash{1} },
	} {
		bad := s
		change(&bad)
		if err := bad.Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: %v, want ErrSpec", name, err)
		}
	}
	if w := spec(); w.Needs() != ExecutorWASM || len(w.Hashes()) != 1 {
		t.Errorf("needs %s, hashes %v", w.Needs(), w.Hashes())
	}
}

func TestJobSpecDefaultChunking(t *testing.T) {
	for _, n := range []uint64{1, 2, 255, 256, 257, 1e8, MaxIterations} {
		s := Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: n}.WithDefaults()
		if err := s.Validate(); err != nil {
			t.Errorf("%d iterations: %v", n, err)
		}
		if s.Chunks() > 256 {
			t.Errorf("%d iterations: %d chunks", n, s.Chunks())
		}
	}
}

func TestChunkResultValidate(t *testing.T) {
	good := Metric{N: 10, Mean: 0.5, M2: 2, Min: 0, Max: 1}
	result := func(m Metric) ChunkResult {
		return ChunkResult{Iterations: 10, Metrics: map[string]Metric{"x": m}}
	}
	if err := result(good).Validate(10); err != nil {
		t.Fatal(err)
	}
	if err := result(good).Validate(11); !errors.Is(err, ErrResult) {
		t.Errorf("wrong iteration count: %v", err)
	}
	for name, change := range map[string]func(*Metric){
		"NaN":       func(m *Metric) { m.Mean = math.NaN() },
		"infinite":  func(m *Metric) { m.Max = math.Inf(1) },
		"mean low":  func(m *Metric) { m.Mean = -1 },
		"mean high": func(m *Metric) { m.Mean = 2 },
		"m2":        func(m *Metric) { m.M2 = 3 },
		"m2 sign":   func(m *Metric) { m.M2 = -1e-30 },
		"huge":      func(m *Metric) { m.Max = 1e150 },
		"n zero":    func(m *Metric) { m.N = 0 },
		"n many":    func(m *Metric) { m.N = 11 },
		"min max":   func(m *Metric) { m.Min, m.Max = 1, 0 },
	} {
		m := good
		change(&m)
		if err := result(m).Validate(10); !errors.Is(err, ErrResult) {
			t.Errorf("%s: %v, want ErrResult", name, err)
		}
	}
}

func TestJobID(t *testing.T) {
	id := NewID("uid:1", "k")
	if got, err := ParseID(string(id)); err != nil || got != id || NewID("uid:1", "k") != id {
		t.Errorf("%q: %q, %v", id, got, err)
	}
	if NewID("uid:1k", "") == id || NewID("uid:2", "k") == id {
		t.Error("two submitters share an id")
	}
	for _, bad := range []string{"", "j", string(id) + "a", "x" + string(id[1:]), "j" + strings.Repeat("A", 26)} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestFingerprint(t *testing.T) {
	a, b := spec(), spec()
	if a.Fingerprint() != b.Fingerprint() {
		t.Error("equal specs differ")
	}
	b.Seed++
	if a.Fingerprint() == b.Fingerprint() {
		t.Error("the seed is not in the fingerprint")
	}
}

func FuzzChunkResult(f *testing.F) {
	f.Add([]byte(`{"iterations":10,"metrics":{"x":{"n":10,"mean":0.5,"m2":2,"min":0,"max":1}}}`), uint64(10))
	f.Add([]byte(`{"iterations":1,"metrics":{"":{"n":1e9}}}`), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, n uint64) {
		var r ChunkResult
		if json.Unmarshal(data, &r) != nil || r.Validate(n) != nil {
			return
		}
		for name, m := range r.Metrics {
			if m.N > n || m.M2 < 0 || math.IsNaN(m.Mean) || m.Min > m.Max {
				t.Errorf("accepted %q %+v for %d iterations", name, m, n)
			}
		}
	})
}
