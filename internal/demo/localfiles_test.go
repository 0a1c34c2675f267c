package demo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// TestLocalJobWithFiles: without a cluster, chunks find the files that they are given, and
// what they leave is below a directory. What cannot be is refused before anything runs.
func TestLocalJobWithFiles(t *testing.T) {
	parallel(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	table, to := filepath.Join(dir, "table.csv"), filepath.Join(dir, "out")
	if err := os.WriteFile(table, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	copies := script(t, "copies", `cat "$SKEIN_IN/table" >"$SKEIN_OUT/rows"; echo "$SKEIN_CHUNK_ID" >>"$SKEIN_OUT/rows"`)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(ctx, plainSkein(), append([]string{"job", "run", "--local"}, args...)...)
		cmd.Env = append(os.Environ(), "SKEIN_EXEC_PROGRAMS=copies="+copies, "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	program := []string{"--program", "copies", "--iterations", "3", "--chunk", "1", "--set", "result=none", "--outputs", "rows"}
	for want, args := range map[string][]string{
		"nothing says where they go": {"--files", "table=" + table},
		"is named by its hash":       {"--files", "table=" + strings.Repeat("ab", 32), "--to", to},
		"no such file":               {"--files", "table=" + table + ".none", "--to", to},
	} {
		if out, code := run(append(program, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d, want %q: %s", args, code, want, out)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a job that was refused wrote something")
	}
	if out, code := run(append(program, "--files", "table="+table, "--to", to)...); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for chunk, name := range []string{"0", "1", "2"} {
		text, err := os.ReadFile(filepath.Join(to, name, "rows"))
		if want := "a,b\n" + name + "\n"; err != nil || string(text) != want {
			t.Errorf("chunk %d left %q: %v", chunk, text, err)
		}
	}

	// A guest of WASI does as a program does.
	module, err := os.ReadFile(filepath.Join(bin, "examples", "render.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	frames := filepath.Join(dir, "frames")
	j, err := offline.RunLocal(ctx, offline.LocalJob{
		Spec: job.Spec{
			Key: "draw", Iterations: 20, Chunk: 10, Policy: job.Policy{Result: job.ResultNone, Outputs: []string{"rows"}},
		}.WithDefaults(),
		Module: module, Input: []byte(`{"item":0,"inputs":{"width":16,"height":20}}`), To: frames,
		RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t),
	})
	if err != nil || j.State != job.Completed {
		t.Fatalf("%s: %v, failures %+v", j.State, err, j.Failures)
	}
	for _, chunk := range []string{"0", "1"} {
		if info, err := os.Stat(filepath.Join(frames, chunk, "rows")); err != nil || info.Size() != 16*10*3 {
			t.Errorf("chunk %s of the frame: %v %v", chunk, info, err)
		}
	}
}
