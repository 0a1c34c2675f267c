package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/internal/require"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// pty is a terminal that a command runs on, and what came to it.
type pty struct {
	master, slave *os.File
	mu            sync.Mutex
	text          bytes.Buffer
}

func openPty(t *testing.T, width, height uint16) *pty {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{master: os.NewFile(uintptr(fd), "ptmx")}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})); err != nil {
		t.Fatal(err)
	}
	if p.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := p.master.Read(b)
			p.mu.Lock()
			p.text.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_, _ = p.master.Close(), p.slave.Close()
		<-read
	})
	return p
}

func (p *pty) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// sees waits for a text to come, after so many bytes.
func (p *pty) sees(t *testing.T, text string, after int) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.String()[after:], text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q within %s: %q", text, patience, p.String()[after:])
		}
	}
}

func (p *pty) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// command runs a command on the terminal; the channel has its exit code.
func (p *pty) command(t *testing.T, f *fakeCluster, env []string, args ...string) (code <-chan int, errs *bytes.Buffer) {
	ended := make(chan int, 1)
	errs = &bytes.Buffer{}
	term := cli.Terminal{
		In: p.slave, Out: p.slave, Err: errs, OutWidth: width(p.slave),
		Env: append([]string{"SKEIN_SOCKET=" + f.socket, "TERM=xterm-256color", "LANG=C.UTF-8"}, env...),
	}
	go func() { ended <- execute(t.Context(), args, term, fakeDeps()) }()
	return ended, errs
}

func exited(t *testing.T, code <-chan int) int {
	t.Helper()
	select {
	case n := <-code:
		return n
	case <-time.After(patience):
		t.Fatalf("it does not end within %s", patience)
		return 0
	}
}

// TestTop: keys on a real terminal, and a daemon that goes away and comes back.
func TestTop(t *testing.T) {
	f := started(t)
	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, nil, "top")
	p.sees(t, "[1 hosts]", 0)
	p.sees(t, "suspect", 0)
	p.press(t, "3")
	p.sees(t, "[3 events]", 0)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	p.sees(t, "daemon unreachable", 0)
	before := len(p.String())
	if err := f.start(); err != nil {
		t.Fatal(err)
	}
	p.sees(t, "live", before)
	p.press(t, "q")
	if n := exited(t, code); n != 0 {
		t.Errorf("exit %d %s", n, errs)
	}
	p.sees(t, "\x1b[?1049l", before) // the screen of before is back
}

// resize tells the program that its terminal has another size. The terminal is not the
// one that controls this process, so that the signal is sent by hand.
func (p *pty) resize(t *testing.T, width, height uint16) {
	t.Helper()
	fd := int(p.slave.Fd())
	if err := errors.Join(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}), unix.Kill(unix.Getpid(), unix.SIGWINCH)); err != nil {
		t.Fatal(err)
	}
}

// TestTopResized: a terminal whose size changes all the time is drawn no more often than
// one that does not, too small ones among them, and at last as large as it is.
func TestTopResized(t *testing.T) {
	f := started(t)
	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, nil, "top")
	p.sees(t, "[1 hosts]", 0)
	p.resize(t, 20, 5)
	p.sees(t, "20x5 is too small", 0)
	before, begun := len(p.String()), time.Now()
	const storm = 400
	for i := range uint16(storm) {
		p.resize(t, 1+i*7%150, 1+i*5%50)
		time.Sleep(5 * time.Millisecond) // a hand that drags is no faster
	}
	storms, took := p.String()[before:], time.Since(begun)
	// A screen of 150x50 is 7,500 bytes, and is drawn five times a second.
	if most := 20_000 * (1 + int(took/time.Second)) * 5; len(storms) > most {
		t.Errorf("%d bytes in %s of %d sizes, want at most %d", len(storms), took, storm, most)
	}
	t.Logf("%d bytes in %s of %d sizes", len(storms), took.Round(time.Millisecond), storm)
	after := len(p.String())
	p.resize(t, 100, 30)
	p.sees(t, "6 onion", after)
	p.sees(t, "? help", after)
	p.press(t, "q")
	if n := exited(t, code); n != 0 {
		t.Errorf("exit %d %s", n, errs)
	}
}

// TestTopWithMouse: clicks as a terminal sends them.
func TestTopWithMouse(t *testing.T) {
	f := started(t)
	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, nil, "top", "--mouse")
	p.sees(t, "[1 hosts]", 0)
	p.sees(t, "\x1b[?1006h", 0) // clicks are to be told, in this form
	p.press(t, "\x1b[<0;25;3M\x1b[<0;25;3m")
	p.sees(t, "[3 events]", 0)
	p.press(t, "q")
	if n := exited(t, code); n != 0 {
		t.Errorf("exit %d %s", n, errs)
	}
	p.sees(t, "\x1b[?1006l", 0)
}

// TestTopInTmux: keys as a terminal sends them, to the program as people start it, on a
// terminal of 80x24 that somebody else wrote.
func TestTopInTmux(t *testing.T) {
	require.Need(t, require.Tmux)
	f := started(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	link := dir + "/skein" // by which the test binary is the program
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	tmux := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("tmux", append([]string{"-S", dir + "/tmux", "-f", "/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SKEIN_SOCKET="+f.socket, "SHELL=/bin/sh", "TERM=xterm-256color")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %q: %v %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "80", "-y", "24", link+" top; echo exit $?; sleep 600")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", dir+"/tmux", "kill-server").Run() }) // it may have ended
	sees := func(texts ...string) string {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			screen := tmux("capture-pane", "-p")
			missing := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.Contains(screen, s) })
			if len(missing) == 0 {
				return screen
			}
			if time.Now().After(end) {
				t.Fatalf("no %q on the screen:\n%s", missing, screen)
			}
		}
	}
	keys := func(list ...string) { tmux(append([]string{"send-keys"}, list...)...) }
	screen := sees("[1 hosts]", "> n1", "n3", "suspect", "live", "? help")
	if n := strings.Count(screen, "\n"); n != 24 {
		t.Errorf("%d lines:\n%s", n, screen)
	}
	keys("Down", "Down")
	sees("> n3")
	keys("Enter")
	sees("ENDPOINTS")
	keys("Escape")
	sees("> n3")
	keys("3")
	sees("[3 events]", "n1 started, version 1.4.0")
	keys("4", "/", "p", "i", "Enter")
	sees("[4 jobs]", "/pi", "> j")
	keys("?")
	sees("pause: the table stays")
	keys("q")
	sees("exit 0")
}

// TestTopWithoutTerminal: what became of the terminal ends it within a second; where
// there is none it says what else there is.
func TestTopWithoutTerminal(t *testing.T) {
	f := started(t)
	// This machine may be busy: one time of many tells how long it takes.
	took := time.Hour
	for deadline := time.Now().Add(patience); took > time.Second && time.Now().Before(deadline); {
		p := openPty(t, 80, 24)
		code, _ := p.command(t, f, nil, "top")
		p.sees(t, "[1 hosts]", 0)
		gone := time.Now()
		if err := p.master.Close(); err != nil {
			t.Fatal(err)
		}
		if n := exited(t, code); n != cli.ExitFailed {
			t.Errorf("exit %d", n)
		}
		took = min(took, time.Since(gone))
	}
	t.Logf("ended %s after the terminal", took.Round(time.Millisecond))
	if took > time.Second {
		t.Errorf("ended no sooner than %s after the terminal", took)
	}

	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, []string{"TERM=dumb"}, "top")
	if n := exited(t, code); n != cli.ExitUsage || !strings.Contains(errs.String(), "hint: `skein status --watch`") {
		t.Errorf("TERM=dumb: exit %d %s", n, errs)
	}
	n, out, text := inProcess(t, f, cli.Terminal{}, "top")
	if n != cli.ExitUsage || !strings.Contains(text, "hint: `skein status --watch`") {
		t.Errorf("no terminal: exit %d %s%s", n, out, text)
	}
	if n, _, text := inProcess(t, &fakeCluster{socket: "/nonexistent/sock"}, cli.Terminal{}, "top"); n != cli.ExitUsage {
		t.Errorf("exit %d %s", n, text)
	}
}

// TestStatusWatchOnTerminal: the page is drawn where it changes, and not anew each
// second.
func TestStatusWatchOnTerminal(t *testing.T) {
	f := started(t)
	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, nil, "status", "--watch")
	p.sees(t, "holder", 0)
	p.sees(t, "worker", 0)
	was := p.String()
	time.Sleep(3 * time.Second) // what it writes meanwhile is looked at
	later := p.String()[len(was):]
	if strings.Contains(later, "\x1b[2J") || strings.Contains(later, "holder") || later == "" {
		t.Errorf("in three seconds it wrote %q", later)
	}
	t.Logf("%d bytes in 3 s", len(later))
	p.press(t, "q")
	if n := exited(t, code); n != 0 {
		t.Errorf("exit %d %s", n, errs)
	}
}

// TestLoadView: a load test from this machine on a real terminal, to its end, and one that
// somebody leaves, which ends it.
func TestLoadView(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	f := started(t)
	p := openPty(t, 80, 24)
	code, errs := p.command(t, f, nil, "load", "run", "--local", "--rate", "20", "--for", "3s", "--threshold", "rate(failed)<1%", "--accept", "suspect", target.URL)
	p.sees(t, "running 00:0", 0)
	p.sees(t, "this machine", 0)
	p.sees(t, "rate(failed)<1%", 0)
	if n := exited(t, code); n != cli.ExitOK || errs.Len() > 0 {
		t.Errorf("exit code %d: %s", n, errs)
	}
	p.sees(t, "\x1b[?1049l", 0)
	p.sees(t, "60 requests", strings.Index(p.String(), "\x1b[?1049l"))
	for _, key := range []string{"q", "ss"} {
		before := len(p.String())
		code, errs = p.command(t, f, nil, "load", "run", "--local", "--rate", "20", "--for", "10m", target.URL)
		p.sees(t, "running 00:", before) // what changes then is written alone
		for _, k := range key {
			p.press(t, string(k))
		}
		if n := exited(t, code); n != cli.ExitInterrupted {
			t.Errorf("%s: exit code %d: %s", key, n, errs)
		}
		p.sees(t, "stopped", before)
	}
	p = openPty(t, 79, 24)
	if code, errs := p.command(t, f, nil, "load", "run", "--local", "--for", "1s", "--ui", "full", target.URL); exited(t, code) != cli.ExitUsage || !strings.Contains(errs.String(), "80x24") {
		t.Errorf("a terminal that is too small: %s", errs)
	}
}
