package demo_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/demo/scaleout"
	"github.com/skein-project/skein/internal/require"
)

// stage is a demo of few outside workers, in an empty directory that other users may enter.
func stage(t *testing.T) (o scaleout.Options, dir string) {
	t.Helper()
	require.Need(t, require.Redis)
	require.Need(t, require.Postgres)
	demo.Parallel(t)
	dir, err := os.MkdirTemp("", "so") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // as its parent
		t.Fatal(err)
	}
	clusterslot.Take(t)
	o = scaleout.Options{Workers: 16, Chunks: 600, Down: 2e9, RunnerArgv: []string{demo.PlainSkein(), "runner"}}
	o.Options = demo.Options{
		Exe: filepath.Join(demo.Bin(), "skein"), Wasm: filepath.Join(demo.Bin(), "examples", "pi.wasm"), Profile: cluster.ProfileLAN, Iterations: 900_000_000,
	}.Within(dir)
	return o, dir
}

// said takes what a demo says, and tells of each line.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	line func(string)
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(string(p))
	return s.text.Write(p)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestScaleOut: a job goes from the table into the table with outside workers, while a
// gateway, Redis and the holder are killed; it is what one computer alone makes of it, which
// the demo itself compares, and nothing is left behind.
//
// SKEIN_PROVE=1 has the 200 outside workers that the command has.
func TestScaleOut(t *testing.T) {
	o, dir := stage(t)
	if demo.Proving() {
		o.Workers, o.Chunks, o.Iterations, o.Down = 0, 0, 0, 0
	}
	out := &said{line: func(s string) { t.Log(strings.TrimRight(s, "\n")) }}
	o.Out = out
	r, err := scaleout.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outside == 0 || r.Outside == r.Chunks || r.Rows != r.Chunks || r.Gateway == 0 || r.Redis == 0 || r.Holder == 0 {
		t.Errorf("%+v", r)
	}
	empty(t, dir)
}

// TestScaleOutInterrupted: Ctrl-C in the middle leaves nothing behind either.
func TestScaleOutInterrupted(t *testing.T) {
	o, dir := stage(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &said{line: func(s string) {
		if strings.Contains(s, "SIGKILL to Redis") {
			cancel()
		}
	}}
	o.Out = out
	if _, err := scaleout.Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v\n%s", err, out.text.String())
	}
	empty(t, dir)
}
