package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestJobRunRefuses refuses what cannot be a job before anything is sent.
func TestJobRunRefuses(t *testing.T) {
	f := started(t)
	dir := t.TempDir()
	wasm, empty := filepath.Join(dir, "pi.wasm"), filepath.Join(dir, "empty.wasm")
	for path, text := range map[string]string{wasm: "module", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"", "error: --wasm is missing"},
		{"--wasm W", "error: --iterations is missing"},
		{"--wasm none.wasm --iterations 5", "error: --wasm: open none.wasm: no such file or directory"},
		{"--wasm E --iterations 5", "empty.wasm is empty"},
		{"--wasm . --iterations 5", "is not a file"},
		{"--wasm W --iterations 0", "invalid job: iterations is 0"},
		{"--wasm W --iterations -5", `error: --iterations: "-5" is not a whole number`},
		{"--wasm W --iterations 99999999999999999999", "is not a whole number"},
		{"--wasm W --iterations 9007199254740993", "invalid job: iterations is 9007199254740993"},
		{"--wasm W --iterations 1.5", "is not a whole number"},
		{"--wasm W --iterations 10 --chunk 11", "invalid job: chunk is 11, want 1-10"},
		{"--wasm W --iterations 1e9 --chunk 1", "more than 1048576 chunks"},
		{"--wasm W --iterations 10 --memory lots", "error: --memory"},
		{"--wasm W --iterations 10 --memory 1k", "memory_bytes"},
		{"--wasm W --iterations 10 --chunk-timeout -1s", "timeout_seconds"},
		{"--wasm W --iterations 10 --chunk-timeout soon", "error: --chunk-timeout: "},
		{"--wasm W --iterations 10 --early-stop x", "want METRIC=ERROR"},
		{"--wasm W --iterations 10 --early-stop x=2", "early_stop.rel_error is 2"},
		{"--wasm W --iterations 10 --permit user", "permission.users has 0 names"},
		{"--wasm W --iterations 10 --permit all", "permission.access is"},
		{"--wasm W --iterations 10 --set nonsense=1", "error: --set: unknown key"},
		{"--wasm W --iterations 10 --set losses", "want KEY=VALUE"},
		{"--wasm W --iterations 10 --set losses=true", "error: --set: bool is not a int"},
		{"--wasm W --program p --iterations 10", "artefact is set, which executor exec does not take"},
		{"--program /bin/sh --iterations 10", "is not a program's name"},
		{"--wasm W --iterations 10 --attempts 101", "attempts is 101"},
		{"--wasm W --iterations 10 --seed -1", "error: --seed: "},
		{"--wasm W --iterations 10 --wait forever", "want local or stable"},
		{"--wasm W --iterations 10 --input none.json", "error: --input"},
		{"--wasm W --iterations 10 --name " + strings.Repeat("x", 65), "name has 65 bytes"},
		{"--wasm W --iterations 10 extra", "takes no argument"},
	} {
		args := strings.Fields("job run " + strings.NewReplacer(" W", " "+wasm, " E", " "+empty).Replace(tc.args))
		code, out, errs := inProcess(t, f, cli.Terminal{}, args...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, tc.want) || !strings.HasPrefix(errs, "skein: error: ") {
			t.Errorf("%s: exit %d\n%s%s", tc.args, code, out, errs)
		}
	}
	if len(f.keys) != 0 {
		t.Errorf("submitted: %v", f.keys)
	}
}
