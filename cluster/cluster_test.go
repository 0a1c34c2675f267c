package cluster

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseNodeID(t *testing.T) {
	for _, ok := range []string{"a", "n1", "web-01", strings.Repeat("x", MaxNodeIDLen)} {
		if _, err := ParseNodeID(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", "A", "n_1", "n 1", "ä", "a/b", strings.Repeat("x", MaxNodeIDLen+1)} {
		if _, err := ParseNodeID(bad); !errors.Is(err, ErrNodeID) {
			t.Errorf("%q: %v, want ErrNodeID", bad, err)
		}
	}
}

func TestHashText(t *testing.T) {
	h := Hash{1, 2, 0xff}
	got, err := ParseHash(h.String())
	if err != nil || got != h {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 65)} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestHLCNext(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	h := NewHLC(now, 0)
	if got := h.Next(now); got != h+1 {
		t.Errorf("same millisecond: %v", got)
	}
	if got := h.Next(now.Add(-time.Hour)); got <= h {
		t.Errorf("clock stepped back: %v is not above %v", got, h)
	}
	if got := h.Next(now.Add(time.Second)); !got.Time().Equal(now.Add(time.Second)) {
		t.Errorf("later: %v", got)
	}
}

func TestVoterConfig(t *testing.T) {
	good := VoterConfig{Epoch: 3, Term: 2, Voters: []NodeID{"a", "b", "c"}, Mode: ModeQuorum}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*VoterConfig){
		"epoch":    func(c *VoterConfig) { c.Epoch = 0 },
		"none":     func(c *VoterConfig) { c.Voters = nil },
		"unsorted": func(c *VoterConfig) { c.Voters = []NodeID{"b", "a"} },
		"repeated": func(c *VoterConfig) { c.Voters = []NodeID{"a", "a"} },
		"name":     func(c *VoterConfig) { c.Voters = []NodeID{"A"} },
		"mode":     func(c *VoterConfig) { c.Mode = ModeAuto },
		"many":     func(c *VoterConfig) { c.Voters = []NodeID{"a", "b", "c", "d", "e", "f", "g", "h"} },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted %+v", name, c)
		}
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 7: 4} {
		if got := (VoterConfig{Voters: make([]NodeID, n)}).Majority(); got != want {
			t.Errorf("majority of %d: %d, want %d", n, got, want)
		}
	}
	if !(VoterConfig{Term: 2, Epoch: 1}).Newer(VoterConfig{Term: 1, Epoch: 9}) {
		t.Error("a higher term does not supersede")
	}
}

func spec() JobSpec {
	return JobSpec{Key: "k", Artefact: Hash{1}, Iterations: 1000, Chunk: 300}.WithDefaults()
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
	for name, change := range map[string]func(*JobSpec){
		"no key":      func(s *JobSpec) { s.Key = "" },
		"executor":    func(s *JobSpec) { s.Executor = "shell" },
		"artefact":    func(s *JobSpec) { s.Artefact = Hash{} },
		"iterations":  func(s *JobSpec) { s.Iterations = 0 },
		"overflow":    func(s *JobSpec) { s.Iterations = math.MaxUint64 },
		"chunk":       func(s *JobSpec) { s.Chunk = s.Iterations + 1 },
		"many chunks": func(s *JobSpec) { s.Iterations, s.Chunk = 1<<40, 1 },
		"attempts":    func(s *JobSpec) { s.Attempts = -1 },
		"timeout NaN": func(s *JobSpec) { s.TimeoutSeconds = math.NaN() },
		"timeout":     func(s *JobSpec) { s.TimeoutSeconds = 1e9 },
		"memory":      func(s *JobSpec) { s.MemoryBytes = 1 },
	} {
		s := spec()
		change(&s)
		if err := s.Validate(); !errors.Is(err, ErrJobSpec) {
			t.Errorf("%s: %v, want ErrJobSpec", name, err)
		}
	}
}

func TestExecSpec(t *testing.T) {
	s := spec()
	s.Executor, s.Program, s.Artefact = ExecutorExec, "render", Hash{}
	if err := s.Validate(); err != nil || s.Needs() != "exec:render" || len(s.Hashes()) != 0 {
		t.Fatalf("%v, needs %s, hashes %v", err, s.Needs(), s.Hashes())
	}
	for name, change := range map[string]func(*JobSpec){
		"none":     func(s *JobSpec) { s.Program = "" },
		"a path":   func(s *JobSpec) { s.Program = "/bin/sh" },
		"long":     func(s *JobSpec) { s.Program = strings.Repeat("a", MaxProgramName+1) },
		"artefact": func(s *JobSpec) { s.Artefact = Hash{1} },
		"wasm":     func(s *JobSpec) { s.Executor, s.Artefact = ExecutorWASM, Hash{1} },
	} {
		bad := s
		change(&bad)
		if err := bad.Validate(); !errors.Is(err, ErrJobSpec) {
			t.Errorf("%s: %v, want ErrJobSpec", name, err)
		}
	}
	if w := spec(); w.Needs() != ExecutorWASM || len(w.Hashes()) != 1 {
		t.Errorf("needs %s, hashes %v", w.Needs(), w.Hashes())
	}
}

func TestJobSpecDefaultChunking(t *testing.T) {
	for _, n := range []uint64{1, 2, 255, 256, 257, 1e8, MaxIterations} {
		s := JobSpec{Key: "k", Artefact: Hash{1}, Iterations: n}.WithDefaults()
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
	id := NewJobID("uid:1", "k")
	if got, err := ParseJobID(string(id)); err != nil || got != id || NewJobID("uid:1", "k") != id {
		t.Errorf("%q: %q, %v", id, got, err)
	}
	if NewJobID("uid:1k", "") == id || NewJobID("uid:2", "k") == id {
		t.Error("two submitters share an id")
	}
	for _, bad := range []string{"", "j", string(id) + "a", "x" + string(id[1:]), "j" + strings.Repeat("A", 26)} {
		if _, err := ParseJobID(bad); err == nil {
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
