package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// pollEvery is the time between two polls of a host.
const pollEvery = 50 * time.Millisecond

// host is one daemon of the demo: a process with its own state directory, ports
// and socket.
type host struct {
	d      *demo
	name   string
	dir    string
	config string
	token  string // file; empty: founder
	env    []string
	api    *api.Client

	cmd  *exec.Cmd
	done chan struct{} // closed when the process ended
	last api.Status
}

func newHost(d *demo, i int) (*host, error) {
	h := &host{d: d, name: fmt.Sprintf("n%d", i+1)}
	h.dir = filepath.Join(d.dir, h.name)
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, err
	}
	port, err := d.freePort()
	if err != nil {
		return nil, err
	}
	if d.env != nil {
		h.env = d.env(i, port)
	}
	socket := h.socket()
	h.config = filepath.Join(h.dir, "skein.toml")
	text := fmt.Sprintf(`state_dir = %q
[node]
name = %q
priority = %d
[mesh]
backend = "netstack"
listen = "127.0.0.1:%d"
[lease]
profile = %q
[log]
format = "json"
[eventlog]
segment_bytes = 4194304
[worker]
slots = 1
[status]
socket = %q
`, h.stateDir(), h.name, 10*(i+1), port, d.o.Profile, socket)
	if d.settings != nil {
		text += d.settings(i)
	}
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c, err := client.Dial(client.Options{Endpoints: []string{socket}, Once: true})
	if err != nil {
		return nil, err
	}
	h.api = c.API()
	if d.o.made != nil {
		d.o.made(h.stateDir())
	}
	return h, nil
}

func (h *host) stateDir() string { return filepath.Join(h.dir, "state") }

// freePort finds a port of 127.0.0.1 that is free for both UDP (WireGuard) and
// TCP (join) and is not assigned to another host of the demo, which may not be
// listening yet.
func (d *demo) freePort() (int, error) {
	if d.port != nil {
		port, err := d.port()
		d.ports = append(d.ports, port)
		return port, err
	}
	for range 50 {
		udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return 0, err
		}
		port := udp.LocalAddr().(*net.UDPAddr).Port //nolint:errcheck,forcetypeassert // always this type
		tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		_ = udp.Close() // only probed
		if err != nil {
			continue
		}
		_ = tcp.Close() // only probed
		if !slices.Contains(d.ports, port) {
			d.ports = append(d.ports, port)
			return port, nil
		}
	}
	return 0, errors.New("no port of 127.0.0.1 is free for UDP and TCP")
}

// verifyLog has the program check the log in the host's state directory.
func (h *host) verifyLog(ctx context.Context) (api.LogVerify, error) {
	var report api.LogVerify
	cmd := exec.CommandContext(ctx, h.d.o.Exe, "log", "verify", "--state-dir", h.stateDir(), "-o", "json")
	text, err := cmd.Output()
	// A damaged log is reported on stdout as well as by the exit code.
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || len(text) == 0) {
		if ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return report, fmt.Errorf("verify the log of %s: %w", h.name, err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("verify the log of %s: %w", h.name, err)
	}
	return report, nil
}

// command runs one skein command to its end.
func (h *host) command(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, h.d.o.Exe, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("skein %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// run starts the daemon; its log goes to a file.
func (h *host) run() error {
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"run", "--config", h.config}
	if h.token != "" {
		args = append(args, "--join", "@"+h.token)
	}
	h.cmd = exec.Command(h.d.o.Exe, args...) //nolint:noctx // stopAll stops it cleanly
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.Env = append(os.Environ(), h.env...)
	h.cmd.SysProcAttr = ownGroup()
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", h.name, err)
	}
	h.done = make(chan struct{})
	go func() {
		_ = h.cmd.Wait() // how it ended shows in its log
		close(h.done)
	}()
	return nil
}

func (h *host) alive() bool {
	if h.cmd == nil {
		return false
	}
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

// await polls the host's status until ok holds.
func (h *host) await(ctx context.Context, what string, ok func(api.Status) bool) error {
	var last error
	for {
		s, err := h.api.Status(ctx)
		if err == nil {
			h.last = s
			if ok(s) {
				return nil
			}
		}
		last = err
		if !h.alive() {
			return fmt.Errorf("%s ended before it %s", h.name, what)
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return fmt.Errorf("%s: not %s in time: %w", h.name, what, errors.Join(err, last))
		}
	}
}

// stopAll ends every process that still runs, and waits for them.
func (d *demo) stopAll() {
	for _, h := range d.hosts {
		if h.alive() {
			_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
		}
	}
	deadline := time.After(20 * time.Second)
	for _, h := range d.hosts {
		h.api.Close()
		if h.cmd == nil {
			continue
		}
		select {
		case <-h.done:
		case <-deadline:
			_ = h.cmd.Process.Kill() // it may have ended just now
			<-h.done
		}
	}
}

// saveLogs writes the logs of all hosts into one file.
func (d *demo) saveLogs() (name string, err error) {
	f, err := os.CreateTemp(d.o.within, "skein-demo-*.log")
	if err != nil {
		return "", err
	}
	for _, h := range d.hosts {
		text, readErr := os.ReadFile(filepath.Join(h.dir, "log"))
		if readErr != nil && !errors.Is(readErr, os.ErrNotExist) { // it may not have been started
			err = errors.Join(err, readErr)
		}
		_, writeErr := fmt.Fprintf(f, "--- log of %s\n%s\n", h.name, text)
		err = errors.Join(err, writeErr)
	}
	return f.Name(), errors.Join(err, f.Close())
}

// acceptsOf returns the accepted results of job in an event.
func acceptsOf(e api.Event, job job.ID) []event.Accept {
	var b event.ChunksAccepted
	if e.Kind != event.KindChunksAccepted || json.Unmarshal(e.Body, &b) != nil || b.Job != job {
		return nil
	}
	return b.Accepts
}
