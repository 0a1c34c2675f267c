package onionnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// HostOptions say what host to start.
type HostOptions struct {
	Name    string
	Dir     string               // short: sockets lie in it
	Masters []descriptor.Address // of which it is an instance
	Points  int                  // introduction points; 0: what tor.Service has
	Log     zerolog.Logger
}

// Host is a host: its tor, and a backend behind its proxy that answers every
// connection with the host's name.
type Host struct {
	Name    string
	Tor     *tor.Tor
	Address descriptor.Address
	Served  atomic.Int64 // connections to the backend

	service tor.Service
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu    sync.Mutex
	last  tor.Snapshot
	feeds []func(tor.Snapshot)
}

// StartHost starts a host and waits until its tor is ready.
func StartHost(ctx context.Context, n *tornet.Network, o HostOptions) (*Host, error) {
	h := &Host{Name: o.Name}
	if err := h.start(ctx, n, o); err != nil {
		h.Close()
		return nil, fmt.Errorf("host %s: %w", o.Name, err)
	}
	return h, nil
}

func (h *Host) start(ctx context.Context, n *tornet.Network, o HostOptions) error {
	var running context.Context
	running, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	backend, err := net.Listen("unix", filepath.Join(o.Dir, "backend"))
	if err != nil {
		return err
	}
	h.workers.Go(func() { h.answer(backend) })
	h.workers.Go(func() { <-running.Done(); _ = backend.Close() })
	front, err := net.Listen("unix", filepath.Join(o.Dir, "front"))
	if err != nil {
		return err
	}
	p, err := proxy.New(proxy.Options{Listen: front, Targets: []string{"unix:" + backend.Addr().String()}, Mode: proxy.ModeTCP, Log: o.Log})
	if err != nil {
		return err
	}
	h.workers.Go(func() { _ = p.Run(running) })
	h.service = tor.Service{
		Dir: filepath.Join(o.Dir, "service"), IntroPoints: o.Points,
		Ports: []tor.Port{{Virtual: 80, Target: "unix:" + front.Addr().String()}},
	}
	for _, m := range o.Masters {
		h.service.Masters = append(h.service.Masters, m.String())
	}
	h.Tor, err = tor.New(tor.Options{Dir: filepath.Join(o.Dir, "tor"), Torrc: n.Torrc(), Services: []tor.Service{h.service}, Log: o.Log})
	if err != nil {
		return err
	}
	h.workers.Go(func() { _ = h.Tor.Run(running) })
	if err := h.Tor.AwaitReady(ctx); err != nil {
		return err
	}
	name, err := h.service.Address()
	if err != nil {
		return err
	}
	if h.Address, err = descriptor.ParseAddress(name); err != nil {
		return err
	}
	h.workers.Go(func() { _ = h.Tor.Watch(running, name, h.tell) })
	return nil
}

// answer writes the host's name to each connection.
func (h *Host) answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		h.workers.Go(func() {
			defer conn.Close() //nolint:errcheck // nothing is lost
			_ = conn.SetDeadline(time.Now().Add(answerTime))
			if _, err := io.WriteString(conn, h.Name+"\n"); err == nil {
				h.Served.Add(1)
			}
		})
	}
}

// tell passes on what the host's tor has.
func (h *Host) tell(s tor.Snapshot) {
	h.mu.Lock()
	h.last = s
	feeds := h.feeds
	h.mu.Unlock()
	for _, f := range feeds {
		f(s)
	}
}

// Feed has the roster told all that the host's tor has, now and later.
func (h *Host) Feed(r *Roster) {
	f := func(s tor.Snapshot) { r.Set(cluster.NodeID(h.Name), h.Address, []byte(s.Descriptor)) }
	h.mu.Lock()
	h.feeds = append(h.feeds, f)
	last := h.last
	h.mu.Unlock()
	if last.Descriptor != "" {
		f(last)
	}
}

// Signal sends the host's tor a signal, as SIGSTOP.
func (h *Host) Signal(s syscall.Signal) error {
	pid := h.Tor.Status().Pid
	if pid == 0 {
		return errors.New("no tor runs")
	}
	return syscall.Kill(pid, s)
}

// quiesceTime is what clients that were introduced before have until the host
// stops.
const quiesceTime = 3 * time.Second

// Stop ends the host as a drained one ends: no more introductions, what began
// is served, then tor stops.
func (h *Host) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quiesceTime)
	defer cancel()
	defer h.Close()
	return h.Tor.Quiesce(ctx, h.Address.String())
}

// Kill ends the host as a loss of power does: its tor says no goodbye and does
// not come back.
func (h *Host) Kill() {
	_ = h.Signal(syscall.SIGKILL)
	h.Close()
}

// Close stops the host.
func (h *Host) Close() {
	if h.cancel != nil {
		h.cancel()
	}
	h.workers.Wait()
}
