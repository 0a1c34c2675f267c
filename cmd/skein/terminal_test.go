package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/offline"
)

func started(t *testing.T) *fakeCluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeCluster(filepath.Join(dir, "s"))
	if err := f.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.stop(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestDetachExits130(t *testing.T) {
	f := started(t)
	f.jobs["jrunaaaaaaaaaaaaaaaaaaaaaaa"] = fakeJob("jrunaaaaaaaaaaaaaaaaaaaaaaa", "", job.Running, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	errs := &hook{on: "running", do: cancel}
	term := cli.Terminal{In: strings.NewReader(""), Out: &out, Err: errs, Env: []string{"SKEIN_SOCKET=" + f.socket}}
	code := execute(ctx, []string{"job", "status", "--follow", "jrun"}, term, fakeDeps())
	if code != cli.ExitInterrupted || !strings.Contains(errs.String(), "skein job status --follow jrunaaaaaaaaaaaaaaaaaaaaaaa") || out.Len() != 0 {
		t.Errorf("exit %d\n%s\n%s", code, out.String(), errs.String())
	}
}

// TestInterruptedRun: who gives up a run is told whether a job was submitted.
func TestInterruptedRun(t *testing.T) {
	f := started(t)
	module := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(module, []byte("\x00asm"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{}) // closed when who submits has gone: no answer is as fast
	for want, at := range map[string]func(context.CancelFunc){
		"interrupted: no job was submitted":                                    func(stop context.CancelFunc) { stop() },
		"interrupted while it was being submitted: the job may be there":       func(stop context.CancelFunc) { f.onSubmit = func() { stop(); <-left } },
		"detached, the job goes on; see it again with `skein job status --fol": nil,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		errs := &hook{on: "running", do: cancel}
		if f.onSubmit = nil; at != nil {
			at(cancel)
		}
		term := cli.Terminal{In: strings.NewReader(""), Out: &out, Err: errs, Env: []string{"SKEIN_SOCKET=" + f.socket}}
		code := execute(ctx, []string{"job", "run", "--wasm", module, "--iterations", "1000", "--key", "k7", "--follow"}, term, fakeDeps())
		if f.onSubmit != nil {
			close(left)
		}
		if cancel(); code != cli.ExitInterrupted || !strings.Contains(errs.String(), want) || f.onSubmit != nil && !strings.Contains(errs.String(), "--key k7") {
			t.Errorf("exit %d, want %s\n%s", code, want, errs.String())
		}
	}
}

// TestSilentSubmit: who submits where no majority answers is soon told what that
// waits for.
func TestSilentSubmit(t *testing.T) {
	f := started(t)
	module := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(module, []byte("\x00asm"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	errs := &hook{on: "waiting: n1 holds the lease; a majority of the voters must have the job on disk", do: func() { close(told) }}
	f.onSubmit = func() {
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Error("not told for 30 s what the command waits for")
		}
	}
	var out bytes.Buffer
	term := cli.Terminal{In: strings.NewReader(""), Out: &out, Err: errs, Env: []string{"SKEIN_SOCKET=" + f.socket, "SKEIN_TIMEOUT=1m"}}
	if code := execute(t.Context(), []string{"job", "run", "--wasm", module, "--iterations", "1000"}, term, fakeDeps()); code != 0 {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
}

// TestSilentLocalRun: who runs a job without a cluster is told why nothing runs yet.
func TestSilentLocalRun(t *testing.T) {
	module := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(module, []byte("\x00asm"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	errs := &hook{on: "waiting: the module is compiled for this machine", do: func() { close(told) }}
	d := fakeDeps()
	d.jobs.Local = func(_ context.Context, j offline.LocalJob) (api.Job, error) {
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Error("not told for 30 s what the command waits for")
		}
		j.Progress(api.Job{ID: "j1", State: job.Running})
		return api.Job{ID: "j1", State: job.Completed}, nil
	}
	var out bytes.Buffer
	term := cli.Terminal{In: strings.NewReader(""), Out: &out, Err: errs}
	if code := execute(t.Context(), []string{"job", "run", "--local", "--wasm", module, "--iterations", "1000"}, term, d); code != 0 {
		t.Errorf("exit %d\n%s", code, errs.String())
	}
}

// hook calls do once a text was written.
type hook struct {
	bytes.Buffer
	on string
	do func()
}

func (h *hook) Write(p []byte) (int, error) {
	n, err := h.Buffer.Write(p)
	if strings.Contains(string(p), h.on) {
		h.do()
	}
	return n, err
}

func TestColour(t *testing.T) {
	f := started(t)
	for _, tc := range []struct {
		name    string
		term    cli.Terminal
		args    []string
		colored bool
	}{
		{"pipe", cli.Terminal{}, nil, false},
		{"terminal", cli.Terminal{OutWidth: 200}, nil, true},
		{"NO_COLOR", cli.Terminal{OutWidth: 200, Env: []string{"NO_COLOR=1"}}, []string{"--color", "always"}, false},
		{"never", cli.Terminal{OutWidth: 200}, []string{"--color", "never"}, false},
		{"always", cli.Terminal{}, []string{"--color", "always"}, true},
		{"dumb", cli.Terminal{OutWidth: 200, Env: []string{"TERM=dumb"}}, nil, false},
	} {
		code, out, errs := inProcess(t, f, tc.term, append([]string{"members"}, tc.args...)...)
		if code != 0 || strings.Contains(out, "\x1b[33msuspect\x1b[0m") != tc.colored || !strings.Contains(out, "suspect") {
			t.Errorf("%s: exit %d %s%s", tc.name, code, out, errs)
		}
	}
	// Cut on a terminal only.
	_, out, _ := inProcess(t, f, cli.Terminal{OutWidth: 30, Env: []string{"NO_COLOR=1"}}, "members")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 30 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestStatusWatch(t *testing.T) {
	f := started(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &hook{on: "observed_at", do: cancel}
	term := cli.Terminal{In: strings.NewReader(""), Out: out, Err: &bytes.Buffer{}, Env: []string{"SKEIN_SOCKET=" + f.socket}}
	if code := execute(ctx, []string{"status", "--watch", "-o", "jsonl"}, term, fakeDeps()); code != 0 {
		t.Errorf("exit %d: %s", code, out.String())
	}
	if code := execute(t.Context(), []string{"status", "--watch", "--interval", "1ms"}, term, fakeDeps()); code != cli.ExitUsage {
		t.Errorf("exit %d", code)
	}
}

// TestStaleSocket names a socket that nobody listens on any more.
func TestStaleSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, _, errs := inProcess(t, &fakeCluster{socket: path}, cli.Terminal{}, "status")
	if code != cli.ExitUnreachable || !strings.Contains(errs, "connection refused") || !strings.Contains(errs, "hint: nothing listens there") {
		t.Errorf("exit %d %s", code, errs)
	}
}

// TestTraceOnATerminal: a person gets no screens of JSON, unless asked for; a pipe gets it.
func TestTraceOnATerminal(t *testing.T) {
	f := started(t)
	for _, c := range []struct {
		name  string
		width int
		args  []string
		raw   bool
	}{
		{"terminal", 80, nil, false},
		{"pipe", 0, nil, true},
		{"format", 80, []string{"--format", "otlp"}, true},
		{"json", 80, []string{"-o", "json"}, true},
	} {
		code, out, errs := inProcess(t, f, cli.Terminal{OutWidth: c.width}, append([]string{"job", "trace", "jgood"}, c.args...)...)
		if code != cli.ExitOK || strings.HasPrefix(out, "{") != c.raw || strings.Contains(out, "skein job status jgood") == c.raw {
			t.Errorf("%s: exit %d\n%.300s\n%s", c.name, code, out, errs)
		}
	}
}
