package tornet

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
	"sync/atomic"
	"syscall"
	"time"
)

// starter starts programs from one thread: the parent-death signal is about
// the thread that forked, and Go's threads come and go.
type starter struct {
	jobs chan func()
	done chan struct{}
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		// Never unlocked: the thread ends with this goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

func (s *starter) end() {
	close(s.jobs)
	<-s.done
}

// Tor is one tor process of the network.
type Tor struct {
	n       *Network
	name    string
	dir     string
	dirPort int // of an authority
	lines   []string
	cmd     *exec.Cmd
	ended   chan struct{}
	killed  atomic.Bool // by Kill

	mu        sync.Mutex
	lastFresh time.Time
}

// launch writes a torrc and starts tor with it, in a process group of its own
// so that an interrupt at the terminal reaches only who closes the network.
func (n *Network) launch(name string, ports []reserved, lines []string) (*Tor, error) {
	t := &Tor{n: n, name: name, dir: filepath.Join(n.dir, name), lines: lines, ended: make(chan struct{})}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	torrc := append(n.Torrc(),
		"DataDirectory "+t.dir,
		"ControlPort unix:"+t.ControlSocket(),
		"CookieAuthentication 1",
		"Log notice file "+t.logFile(),
	)
	file := filepath.Join(t.dir, "torrc")
	if err := os.WriteFile(file, []byte(strings.Join(append(torrc, lines...), "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// Of an earlier process in this directory, which Bootstrapped would count.
	_ = os.Rename(t.logFile(), t.logFile()+".old")
	empty := filepath.Join(t.dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	t.cmd = exec.Command("tor", "-f", file, "--defaults-torrc", empty, "--hush")
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var output bytes.Buffer
	t.cmd.Stdout, t.cmd.Stderr = &output, &output
	for _, p := range ports {
		t.dirPort = p.port // the last one, of an authority
		_ = p.hold.Close()
	}
	if err := n.starts.start(t.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		err := t.cmd.Wait()
		if output.Len() > 0 || err != nil {
			_ = os.WriteFile(filepath.Join(t.dir, "output"), fmt.Appendf(nil, "%s\n%v\n", output.Bytes(), err), 0o600)
		}
		close(t.ended)
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tors = append(n.tors, t)
	return t, nil
}

// Name is what the tor was started as.
func (t *Tor) Name() string { return t.name }

// Dir is its data directory.
func (t *Tor) Dir() string { return t.dir }

// ControlSocket is the path of its control socket; the cookie is in Dir.
func (t *Tor) ControlSocket() string { return filepath.Join(t.dir, "control") }

// SocksSocket is the path of its SOCKS socket, of tors made by Launch.
func (t *Tor) SocksSocket() string { return filepath.Join(t.dir, "socks") }

// Pid is its process id.
func (t *Tor) Pid() int { return t.cmd.Process.Pid }

func (t *Tor) logFile() string { return filepath.Join(t.dir, "log") }

// Log is all it logged.
func (t *Tor) Log() string {
	text, _ := os.ReadFile(t.logFile())
	return string(text)
}

// LastLog is the end of what it logged and printed.
func (t *Tor) LastLog() string {
	printed, _ := os.ReadFile(filepath.Join(t.dir, "output"))
	text := strings.TrimSpace(t.Log() + string(printed))
	return text[max(0, len(text)-600):]
}

// Running says whether the process lives; a stopped one does.
func (t *Tor) Running() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// Signal sends the process a signal, as SIGSTOP.
func (t *Tor) Signal(s syscall.Signal) error {
	if err := t.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", t.name, err)
	}
	return nil
}

// Kill ends the process at once and waits for its end.
func (t *Tor) Kill() {
	t.killed.Store(true)
	_ = t.Signal(syscall.SIGKILL)
	<-t.ended
}

// Fingerprint is the RSA identity of a relay, 40 hexadecimal digits.
func (t *Tor) Fingerprint() (string, error) {
	text, err := os.ReadFile(filepath.Join(t.dir, "fingerprint"))
	if err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", t.name, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 || len(fields[1]) != 40 {
		return "", fmt.Errorf("fingerprint of %s: %q", t.name, text)
	}
	return fields[1], nil
}

// AwaitBootstrap waits until the tor says that it is bootstrapped.
func (t *Tor) AwaitBootstrap(ctx context.Context) error {
	for {
		if strings.Contains(t.Log(), "Bootstrapped 100%") {
			return nil
		}
		if !t.Running() {
			return fmt.Errorf("%s ended: %s", t.name, t.LastLog())
		}
		if err := pause(ctx, poll); err != nil {
			return fmt.Errorf("await bootstrap of %s: %w: %s", t.name, err, t.LastLog())
		}
	}
}
