package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
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

func TestBar(t *testing.T) {
	j := fakeJob("jx", "pi", cluster.JobRunning, 420)
	for columns, want := range map[int]string{
		200: "[############..................]  42%  420/1k it  1.25M/s  eta 12s  pi 3.142 ± 0.080",
		80:  "[##########...............]  42%  420/1k it  1.25M/s  eta 12s  pi 3.142 ± 0.080",
		40:  "42%  420/1k it  1.25M/s  eta 12s  pi 3…",
	} {
		got := barLine(j, "", columns)
		if got != want || len([]rune(got)) >= columns {
			t.Errorf("%d columns:\n%s, want\n%s", columns, got, want)
		}
	}
	if got := barLine(j, "no such", 200); strings.Contains(got, "±") {
		t.Errorf("unknown metric: %s", got)
	}
	done := fakeJob("jx", "pi", cluster.JobCompleted, 1000)
	if got := barLine(done, "pi", 200); !strings.Contains(got, "[##############################] 100%") || !strings.Contains(got, "completed in 42s") {
		t.Errorf("done: %s", got)
	}
}

// TestProgressOnTerminal rewrites one line and speaks above it.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	a := &app{terminal: terminal{err: &out, errWidth: 100}}
	p := a.newProgress("")
	p.update(fakeJob("jx", "", cluster.JobRunning, 100))
	p.lost(&api.UnreachableError{Target: "/s", Err: syscall.ECONNREFUSED})
	p.lost(&api.UnreachableError{Target: "/s", Err: syscall.ECONNREFUSED})
	j := fakeJob("jx", "", cluster.JobRunning, 200)
	j.Node, j.Holder = "n2", "n3"
	p.update(j)
	p.end()
	text := out.String()
	for _, want := range []string{
		"\r[###", "\x1b[K", "\r\x1b[Kskein: waiting for the daemon: daemon unreachable at /s: connection refused\n",
		"skein: reconnected to n2\n", "skein: holder is now n3\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Count(text, "waiting") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("%q", text)
	}
}

func TestDetachExits130(t *testing.T) {
	f := started(t)
	f.jobs["jrunaaaaaaaaaaaaaaaaaaaaaaa"] = fakeJob("jrunaaaaaaaaaaaaaaaaaaaaaaa", "", cluster.JobRunning, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	errs := &hook{on: "running", do: cancel}
	term := terminal{in: strings.NewReader(""), out: &out, err: errs, env: []string{"SKEIN_SOCKET=" + f.socket}}
	code := execute(ctx, []string{"job", "status", "--follow", "jrun"}, term, fakeDeps())
	if code != exitInterrupted || !strings.Contains(errs.String(), "skein job status --follow jrunaaaaaaaaaaaaaaaaaaaaaaa") || out.Len() != 0 {
		t.Errorf("exit %d\n%s\n%s", code, out.String(), errs.String())
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
		term    terminal
		args    []string
		colored bool
	}{
		{"pipe", terminal{}, nil, false},
		{"terminal", terminal{outWidth: 200}, nil, true},
		{"NO_COLOR", terminal{outWidth: 200, env: []string{"NO_COLOR=1"}}, []string{"--color", "always"}, false},
		{"never", terminal{outWidth: 200}, []string{"--color", "never"}, false},
		{"always", terminal{}, []string{"--color", "always"}, true},
		{"dumb", terminal{outWidth: 200, env: []string{"TERM=dumb"}}, nil, false},
	} {
		code, out, errs := inProcess(t, f, tc.term, append([]string{"members"}, tc.args...)...)
		if code != 0 || strings.Contains(out, "\x1b[33msuspect\x1b[0m") != tc.colored || !strings.Contains(out, "suspect") {
			t.Errorf("%s: exit %d %s%s", tc.name, code, out, errs)
		}
	}
	// Cut on a terminal only.
	_, out, _ := inProcess(t, f, terminal{outWidth: 30, env: []string{"NO_COLOR=1"}}, "members")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 30 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestConfirm asks on a terminal, and takes nothing but yes for yes.
func TestConfirm(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, " YES \n": true, "y": true, "\n": false, "": false, "n\n": false, "yes, please\n": false, strings.Repeat("y", 100): false} {
		var errs bytes.Buffer
		a := &app{terminal: terminal{in: strings.NewReader(in), err: &errs, errWidth: 80}}
		if err := a.confirm("This host leaves."); (err == nil) != want || !strings.HasPrefix(errs.String(), "This host leaves. Go on? [y/N] ") {
			t.Errorf("%q: %v %q", in, err, errs.String())
		}
	}
}

// TestSocketHints tells apart the three ways a socket can be missing.
func TestSocketHints(t *testing.T) {
	a := &app{terminal: terminal{env: []string{"SKEIN_CONFIG=/nonexistent"}}}
	dir := t.TempDir()
	for _, tc := range []struct {
		name, flag, target string
		err                error
		want               string
	}{
		{"group", "", "/run/skein/skein.sock", syscall.EACCES, "become root"},
		{"inactive", "", "/run/skein/skein.sock", syscall.ENOENT, "systemctl start skein"},
		{"stale", "", "/run/skein/skein.sock", syscall.ECONNREFUSED, "systemctl status skein"},
		{"wrong path", dir + "/x", dir + "/x", syscall.ENOENT, "wrong path? The daemon's socket is normally /run/skein/skein.sock"},
		{"other", "", dir + "/x", syscall.ENOENT, "status.socket"},
	} {
		a.socket = tc.flag
		if got := a.socketHint(&api.UnreachableError{Target: tc.target, Err: tc.err}); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q lacks %q", tc.name, got, tc.want)
		}
	}
	// The group is the one that the socket really has.
	shared := filepath.Join(dir, "shared")
	if err := os.WriteFile(shared, nil, 0o660); err != nil {
		t.Fatal(err)
	}
	if g, err := user.LookupGroup("daemon"); err == nil && os.Geteuid() == 0 {
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(shared, -1, gid); err != nil {
			t.Fatal(err)
		}
		if got := a.socketHint(&api.UnreachableError{Target: shared, Err: syscall.EACCES}); !strings.Contains(got, "usermod -aG daemon $USER") {
			t.Errorf("%q does not name the group", got)
		}
	}
	// A socket that nobody listens on any more.
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, _, errs := inProcess(t, &fakeCluster{socket: path}, terminal{}, "status")
	if code != exitUnreachable || !strings.Contains(errs, "connection refused") || !strings.Contains(errs, "hint: nothing listens there") {
		t.Errorf("exit %d %s", code, errs)
	}
}

func TestStatusWatch(t *testing.T) {
	f := started(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &hook{on: "observed_at", do: cancel}
	term := terminal{in: strings.NewReader(""), out: out, err: &bytes.Buffer{}, env: []string{"SKEIN_SOCKET=" + f.socket}}
	if code := execute(ctx, []string{"status", "--watch", "-o", "jsonl"}, term, fakeDeps()); code != 0 {
		t.Errorf("exit %d: %s", code, out.String())
	}
	if code := execute(t.Context(), []string{"status", "--watch", "--interval", "1ms"}, term, fakeDeps()); code != exitUsage {
		t.Errorf("exit %d", code)
	}
}

func TestUnits(t *testing.T) {
	for s, want := range map[float64]string{0.0011: "1.1ms", 0.4: "0.4s", 7.2: "7.2s", 41: "41s", 119.4: "119s", 600: "10m", 7200: "2h", 200000: "2d", -1: "-"} {
		if got := age(s); got != want {
			t.Errorf("age(%g) = %s, want %s", s, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 12.3456: "12.3", 999: "999", 1000: "1k", 1.25e6: "1.25M", 1e8: "100M"} {
		if got := count(n); got != want {
			t.Errorf("count(%g) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 64 << 20: "64.0MiB", 1<<40 - 1: "1.0TiB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("bytesOf(%d) = %s, want %s", n, got, want)
		}
	}
	for s, want := range map[string]uint64{"7": 7, "1_000": 1000, "1e6": 1e6, "2.5e3": 2500, "18446744073709551615": 1<<64 - 1} {
		if got, err := parseCount(s); err != nil || got != want {
			t.Errorf("parseCount(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-1", "1.5", "1e30", "0x10", "inf", "nan", "1e", "x"} {
		if got, err := parseCount(s); err == nil {
			t.Errorf("parseCount(%q) = %d", s, got)
		}
	}
	for s, want := range map[string]uint64{"7": 7, "1k": 1024, "256M": 256 << 20, "1GiB": 1 << 30} {
		if got, err := parseBytes(s); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "M", "-1M", "1T", "99999999999999999G", "1MM"} {
		if got, err := parseBytes(s); err == nil {
			t.Errorf("parseBytes(%q) = %d", s, got)
		}
	}
	for _, tc := range []struct {
		mean float64
		se   *float64
		want string
	}{{3.14159265, new(0.00123), "3.1416 ± 0.0012"}, {3.14159265, nil, "3.14159265"}, {1234.5, new(50.0), "1234 ± 50"}, {1, new(0.0), "1"}} {
		if got := meanError(tc.mean, tc.se); got != tc.want {
			t.Errorf("meanError(%g) = %s, want %s", tc.mean, got, tc.want)
		}
	}
}

// TestForbiddenExits5: who may not do it gets one code, at the socket and at
// the state directory.
func TestForbiddenExits5(t *testing.T) {
	a := &app{}
	for _, err := range []error{
		&api.UnreachableError{Target: "/run/skein/skein.sock", Err: syscall.EACCES},
		fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "/var/lib/skein/identity.json", Err: syscall.EACCES}),
	} {
		if code, _, hint := a.classify(t.Context(), err); code != exitForbidden || hint == "" {
			t.Errorf("%v: exit %d, hint %q", err, code, hint)
		}
	}
}
