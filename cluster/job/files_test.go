package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func TestFileNames(t *testing.T) {
	for _, name := range []string{"a", "rows.csv", "A-1_b.0000", ".hidden", "...", strings.Repeat("x", MaxFileName)} {
		if _, err := ParseFileName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "../a", "a b", "ä", "a\n", "a\x00", "a\\b", strings.Repeat("x", MaxFileName+1)} {
		if _, err := ParseFileName(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func withFiles(change func(*Spec)) Spec {
	s := Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 100, Chunk: 10}
	s.Outputs, s.Files = []string{"b", "a"}, map[string]cluster.Hash{"in": {2}}
	if change != nil {
		change(&s)
	}
	return s.WithDefaults()
}

// TestSpecsWithFiles holds what a job may say of files.
func TestSpecsWithFiles(t *testing.T) {
	good := withFiles(nil)
	if err := good.Validate(); err != nil || good.Outputs[0] != "a" || !good.HasFiles() || good.OutputLimit() != DefaultOutputBytes || good.AttemptLimit() != MaxAttemptBytes {
		t.Errorf("%+v: %v", good.Policy, err)
	}
	if plain := (Spec{}).WithDefaults(); plain.HasFiles() {
		t.Error("a job without files has some")
	}
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, string(rune('a'+i)))
		}
		return out
	}
	for want, change := range map[string]func(*Spec){
		"result is":                    func(s *Spec) { s.Result = "files" },
		"early_stop.metric":            func(s *Spec) { s.Result, s.EarlyStop = ResultNone, EarlyStop{Metric: "x", RelError: 0.1} },
		"outputs has 17":               func(s *Spec) { s.Outputs = many(17) },
		"outputs: \"a/b\"":             func(s *Spec) { s.Outputs = []string{"a/b"} },
		"outputs: \"..\"":              func(s *Spec) { s.Outputs = []string{".."} },
		"output_bytes is 5, and there": func(s *Spec) { s.Outputs, s.OutputBytes = nil, 5 },
		"output_bytes is -1":           func(s *Spec) { s.OutputBytes = -1 },
		"files: \"../x\"":              func(s *Spec) { s.Files = map[string]cluster.Hash{"../x": {1}} },
		"files: x has no hash":         func(s *Spec) { s.Files = map[string]cluster.Hash{"x": {}} },
		"makes more than 65536 files":  func(s *Spec) { s.Iterations, s.Chunk, s.Outputs = 1<<16, 1, []string{"a", "b"} },
	} {
		if err := withFiles(change).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	big := Spec{Iterations: 1 << 20, Chunk: 1, Policy: Policy{Outputs: many(16)}}
	if big.Chunk = big.LeastChunk(); big.Chunks()*16 != MaxOutputFiles {
		t.Errorf("chunks of %d iterations leave %d files", big.Chunk, big.Chunks()*16)
	}
}

// TestFilesOfResults: what a chunk left is what its job lists, and a part of the result.
func TestFilesOfResults(t *testing.T) {
	s := withFiles(func(s *Spec) { s.OutputBytes = 1000 })
	result := func(f Files) ChunkResult {
		return ChunkResult{Iterations: 10, Metrics: map[string]Metric{}, Outputs: f}
	}
	one, two := Files{"a": {cluster.Hash{1}, 1}, "b": {cluster.Hash{2}, 999}}, Files{"a": {cluster.Hash{1}, 1}, "b": {cluster.Hash{3}, 999}}
	if err := s.CheckResult(0, result(one)); err != nil {
		t.Error(err)
	}
	if result(one).Hash() == result(two).Hash() || result(nil).Hash() == result(one).Hash() {
		t.Error("results with other files have the same hash")
	}
	for name, f := range map[string]Files{
		"none": nil, "one": {"a": {cluster.Hash{1}, 1}}, "another": {"a": {cluster.Hash{1}, 1}, "c": {cluster.Hash{1}, 1}},
		"large": {"a": {cluster.Hash{1}, 2}, "b": {cluster.Hash{2}, 999}}, "negative": {"a": {cluster.Hash{1}, -1}, "b": {cluster.Hash{2}, 9}},
		"no hash": {"a": {cluster.Hash{}, 1}, "b": {cluster.Hash{2}, 9}},
	} {
		if err := s.CheckResult(0, result(f)); !errors.Is(err, ErrResult) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := Result{Accepted: 10, Iterations: 100, Outputs: &OutputSum{Manifest: cluster.Hash{1}, Files: 20, Bytes: 9}}
	if err := whole.Validate(s); err != nil {
		t.Error(err)
	}
	if whole.Outputs.Files = 19; whole.Validate(s) == nil {
		t.Error("a chunk is accepted without one of its files")
	}
}
