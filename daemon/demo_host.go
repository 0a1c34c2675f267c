package daemon

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
	"github.com/skein-project/skein/cluster"
)

// demoHost is one daemon of the demo: a process of its own with a state
// directory, ports and a socket of its own.
type demoHost struct {
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

func newDemoHost(d *demo, i int) (*demoHost, error) {
	h := &demoHost{d: d, name: fmt.Sprintf("n%d", i+1)}
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
	socket := filepath.Join(h.dir, "sock")
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
	h.api, err = api.Dial(socket)
	return h, err
}

func (h *demoHost) stateDir() string { return filepath.Join(h.dir, "state") }

// freePort finds a port of 127.0.0.1 that is free for both UDP (WireGuard)
// and TCP (join) and that no other host of the demo was given: those listen
// only later.
func (d *demo) freePort() (int, error) {
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

// command runs one skein command to its end.
func (h *demoHost) command(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, h.d.o.Exe, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("skein %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// run starts the daemon; its log goes to a file.
func (h *demoHost) run() error {
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"run", "--config", h.config}
	if h.token != "" {
		args = append(args, "--join", "@"+h.token)
	}
	h.cmd = exec.Command(h.d.o.Exe, args...) //nolint:noctx // ended by stopAll, in good order
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.Env = append(os.Environ(), h.env...)
	h.cmd.SysProcAttr = demoProcess()
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

func (h *demoHost) alive() bool {
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
func (h *demoHost) await(ctx context.Context, what string, ok func(api.Status) bool) error {
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
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s: not %s in time: %w", h.name, what, errors.Join(err, last))
		}
	}
}

// stopAll ends every process that still runs, and waits for them.
func (d *demo) stopAll() {
	for _, h := range d.hosts {
		if h.alive() {
			_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
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
			_ = h.cmd.Process.Kill() // it may just have ended
			<-h.done
		}
	}
}

// showLogs prints the end of each host's log after a failure.
func (d *demo) showLogs() {
	for _, h := range d.hosts {
		text, err := os.ReadFile(filepath.Join(h.dir, "log"))
		if err != nil {
			continue
		}
		const tail = 4096
		if len(text) > tail {
			text = text[len(text)-tail:]
		}
		fmt.Fprintf(d.o.Out, "--- log of %s\n%s\n", h.name, text)
	}
}

// pause lies between two looks.
func pause(ctx context.Context) error {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// acceptsOf reads the accepted results of job in an event.
func acceptsOf(e api.Event, job cluster.JobID) []cluster.Accept {
	var b cluster.ChunksAccepted
	if e.Kind != cluster.KindChunksAccepted || json.Unmarshal(e.Body, &b) != nil || b.Job != job {
		return nil
	}
	return b.Accepts
}
