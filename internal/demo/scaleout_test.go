package demo_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/demo/scaleout"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/tool"
)

// stage is a demo of few outside workers, in an empty directory that other users may enter.
func stage(t *testing.T) (o scaleout.Options, dir string) {
	t.Helper()
	require.Need(t, require.Redis)
	require.Need(t, require.Postgres)
	require.Need(t, require.Centrifugo)
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
	runner := filepath.Join(t.TempDir(), "skein") // a name by which the crowd's runners are known
	if err := os.Symlink(demo.PlainSkein(), runner); err != nil {
		t.Fatal(err)
	}
	o = scaleout.Options{Workers: 16, Chunks: 600, Down: 2e9, RunnerArgv: []string{runner, "runner"}}
	o.Options = demo.Options{
		Exe: filepath.Join(demo.Bin(), "skein"), Wasm: filepath.Join(demo.Bin(), "examples", "pi.wasm"), Profile: cluster.ProfileLAN, Iterations: 4_000_000_000 / demo.Leisurely(t, dir),
	}.Within(dir).Warm(t)
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
// gateway, Centrifugo, Redis and the holder are killed; it is what one computer alone makes of it, which
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
	for range 2 { // how long a job takes hangs on the machine, and on what else it does
		short, is := errors.AsType[*scaleout.TooShortError](err)
		if !is {
			break
		}
		kept, _ := filepath.Glob(filepath.Join(dir, "skein-demo-*.log")) // of the one that failed; the pattern is good
		for _, log := range kept {
			_ = os.Remove(log) // else it is found below
		}
		o.Iterations = short.Iterations
		r, err = scaleout.Run(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Outside == 0 || r.Outside == r.Chunks || r.Rows != r.Chunks || r.Gateway == 0 || r.Redis == 0 || r.Centrifugo == 0 || r.Holder == 0 {
		t.Errorf("%+v", r)
	}
	empty(t, dir)
}

// TestScaleOutAsAnybody: the command works as a user who has no home and no rights; Ctrl-C in the
// middle leaves nothing behind either.
//
// SKEIN_PROVE=1 lets it end.
func TestScaleOutAsAnybody(t *testing.T) {
	o, dir := stage(t)
	temp := filepath.Join(dir, "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cred, err := servertest.Servant(dir, temp)
		if err != nil {
			t.Fatal(err)
		}
		attr.Credential = cred
	}
	fugo, err := tool.Find("centrifugo")
	if err != nil {
		t.Fatal(err)
	}
	// What it needs where anybody may enter, as an installed program would be.
	for from, to := range map[string]string{demo.PlainSkein(): "skein", o.Wasm: "examples/pi.wasm", fugo: "tools/centrifugo"} {
		path := filepath.Join(dir, to)
		text, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)) //nolint:gosec // all of it may be seen
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"demo", "--scale-out", "--workers", "16"}
	if demo.Proving() {
		args = args[:2]
	}
	cmd := exec.Command(filepath.Join(dir, "skein"), args...) //nolint:noctx // it is ended below
	cmd.Dir, cmd.SysProcAttr = temp, attr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "HOME=/nonexistent"}
	var all bytes.Buffer
	out, err := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	// It dies with the thread that started it, which waits for it here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(9*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		t.Log(lines.Text())
		if strings.Contains(lines.Text(), "SIGKILL to Centrifugo") && !demo.Proving() {
			_ = cmd.Process.Signal(os.Interrupt) // the next line says so
		}
	}
	err = cmd.Wait()
	want := "interrupted: what was started is stopped"
	if demo.Proving() {
		want = "counts once"
	}
	if !strings.Contains(all.String(), want) || (err == nil) != demo.Proving() {
		t.Errorf("%v, want %q", err, want)
	}
	empty(t, temp)
}
