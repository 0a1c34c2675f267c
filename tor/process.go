package tor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	bine "github.com/cretz/bine/process"
)

// oldest is the first version that has all that skein asks for.
const oldest = "0.4.7"

// errConfig: tor ended at once because of its configuration.
var errConfig = errors.New("tor refused its configuration")

// process is a running tor of ours.
type process struct {
	cmd   *exec.Cmd
	pid   int
	ended chan struct{} // closed when the process is gone and exit is set
	exit  error
	out   *output
	// watchdog is the goroutine that keeps one beside it, until unguard.
	watchdog sync.WaitGroup
	unguard  context.CancelFunc
}

// startProcess looks at the program, prepares its files and starts it.
func (t *Tor) startProcess(ctx context.Context) (*process, error) {
	path, err := CheckProgram(ctx, t.o.Program)
	if err != nil {
		return nil, err
	}
	o := t.services.options()
	if err := o.prepare(); err != nil {
		return nil, err
	}
	t.services.tell(o.Services)
	p := &process{ended: make(chan struct{}), out: &output{line: t.logged}}
	creator := bine.CmdCreatorFunc(func(_ context.Context, args ...string) (*exec.Cmd, error) {
		// Not bound to the context: stop ends it in an orderly way.
		p.cmd = exec.Command(path, args...)
		p.cmd.Env = environment(t.o.Dir)
		p.cmd.Dir = t.o.Dir
		p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
		p.cmd.SysProcAttr = processAttributes()
		p.cmd.WaitDelay = stopTime
		return p.cmd, nil
	})
	child, err := creator.New(ctx, "-f", t.o.torrcFile(), "--defaults-torrc", t.o.emptyFile())
	if err != nil {
		return nil, fmt.Errorf("start tor: %w", err)
	}
	var guarded context.Context
	guarded, p.unguard = context.WithCancel(context.WithoutCancel(ctx))
	started := make(chan error)
	go func() {
		// The kernel kills tor when the thread that forked it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := child.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.exit = child.Wait()
		close(p.ended)
		p.unguard()
	}()
	if err := <-started; err != nil {
		p.unguard()
		return nil, fmt.Errorf("start tor: %w", err)
	}
	p.pid = p.cmd.Process.Pid
	if len(t.guardian.argv) > 0 {
		p.watchdog.Go(func() { t.guardian.guard(guarded, p) })
	}
	return p, nil
}

// environment is all that tor gets: no secret of the daemon's is in it.
func environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C"}
}

// stop ends the process, kindly first, and its watchdog.
func (p *process) stop() {
	defer p.watchdog.Wait()
	defer p.unguard()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(s)
		select {
		case <-p.ended:
			return
		case <-time.After(stopTime):
		}
	}
}

// err says why the process ended; it has.
func (p *process) err() error {
	how := "exit code 0"
	if p.exit != nil {
		how = p.exit.Error()
	}
	last := p.out.last()
	if strings.Contains(last, "Reading config failed") || strings.Contains(last, "Failed to parse/validate config") {
		return fmt.Errorf("%w: %s", errConfig, last)
	}
	return fmt.Errorf("tor ended (%s): %s", how, last)
}

// checkVersion asks the program for its version.
func checkVersion(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, ErrDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = environment(filepath.Dir(path))
	cmd.WaitDelay = time.Second
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s --version: %w: %s", path, err, out.last())
	}
	_, version, ok := strings.Cut(out.first(), "Tor version ")
	if version = strings.TrimSuffix(version, "."); !ok || !newEnough(version) {
		return fmt.Errorf("%s says %q: %w", path, out.first(), ErrTooOld)
	}
	return nil
}

// newEnough compares a version as 0.4.9.11 or 0.4.8.1-alpha with the oldest.
func newEnough(version string) bool {
	var have, want [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(oldest, "%d.%d.%d", &want[0], &want[1], &want[2]); err != nil {
		return false
	}
	for i := range want {
		if have[i] != want[i] {
			return have[i] > want[i]
		}
	}
	return true
}

// Bounds of what is kept and passed on of tor's output.
const (
	keptLines  = 12
	keptBytes  = 512 // of a line
	passLines  = 20  // to the log in passWindow
	passWindow = time.Minute
)

// output keeps the last lines that a program printed, each cut to a bound.
type output struct {
	line func(string) // gets each; optional

	mu    sync.Mutex
	part  []byte
	lines []string
	head  string
}

// Write takes output in any pieces.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	var whole []string
	for _, b := range p {
		if b != '\n' {
			if len(o.part) < keptBytes {
				o.part = append(o.part, b)
			}
			continue
		}
		text := string(bytes.TrimSpace(o.part))
		o.part = o.part[:0]
		if o.head == "" {
			o.head = text
		}
		o.lines = append(o.lines, text)
		o.lines = o.lines[max(0, len(o.lines)-keptLines):]
		whole = append(whole, text)
	}
	o.mu.Unlock()
	if o.line != nil {
		for _, text := range whole {
			o.line(text)
		}
	}
	return len(p), nil
}

func (o *output) first() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.head
}

// last is what a person needs of the last lines: warnings and errors if there
// are any.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var bad []string
	for _, line := range o.lines {
		if strings.Contains(line, "[warn]") || strings.Contains(line, "[err]") {
			bad = append(bad, line)
		}
	}
	if len(bad) == 0 {
		bad = o.lines[max(0, len(o.lines)-2):]
	}
	return strings.Join(bad, "; ")
}

// wrongMaster is what an instance logs when it cannot read an introduction.
const wrongMaster = "Could not get valid INTRO2 keys"

// logged passes tor's warnings on, so many in a window.
func (t *Tor) logged(line string) {
	if strings.Contains(line, wrongMaster) {
		t.event(WrongMaster{Log: line})
	}
	if !strings.Contains(line, "[warn]") && !strings.Contains(line, "[err]") {
		return
	}
	if t.warnings.pass(time.Now()) {
		t.log.Warn().Str("line", line).Msg("tor warns")
	}
}

// warningWindow bounds how many of tor's warnings are passed on.
type warningWindow struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// pass reports whether one more warning may be passed on.
func (w *warningWindow) pass(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) > passWindow {
		w.since, w.n = now, 0
	}
	w.n++
	return w.n <= passLines
}
