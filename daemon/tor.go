package daemon

import (
	"context"
	"crypto/ecdh"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/tor"
)

// Ports of a host's own onion service, which only other members and newcomers
// find: coordination, and joins.
const (
	onionCoordPort = 51821
	onionJoinPort  = 443
)

// torGrace is how long tor may take to end.
const torGrace = 12 * time.Second

// errTorOff answers what needs tor on a host without it.
var errTorOff = errors.New("tor is off on this host (hint: set tor.enabled)")

// torHost is this host's one tor and its own onion service, whoever uses them.
type torHost struct {
	tor  *tor.Tor
	dir  string // of tor and the sockets of its services
	node tor.Service
	// quiet takes the onion addresses that newcomers are sent away from, until
	// tor ends.
	quiet chan []string
}

// newTorHost makes the tor of the configuration, which its run starts. It has no
// onion service until it is told of them.
func newTorHost(cfg config.Config, log zerolog.Logger, reg prometheus.Registerer) (*torHost, error) {
	h := &torHost{dir: filepath.Join(cfg.StateDir, "tor"), quiet: make(chan []string, 1)}
	o := tor.Options{Program: cfg.Tor.Program, Dir: h.dir, Torrc: cfg.Tor.Torrc, Log: log, Metrics: reg}
	if c := cfg.Tor; c.Control != "" {
		o = tor.Options{Attach: &tor.Attach{Control: c.Control, Socks: c.Socks, Cookie: c.Cookie}, Log: log, Metrics: reg}
	} else {
		h.node = nodeService(cfg)
		if err := os.MkdirAll(filepath.Dir(h.node.Dir), 0o700); err != nil {
			return nil, fmt.Errorf("directory of the onion services: %w", err)
		}
	}
	var err error
	h.tor, err = tor.New(o)
	return h, err
}

// run runs tor until ctx ends.
func (h *torHost) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case addresses := <-h.quiet:
			for _, a := range addresses {
				wg.Go(func() { h.quiesce(ctx, a) })
			}
		}
	})
	return h.tor.Run(ctx)
}

// quiesce sends newcomers away from an onion address, until ctx ends.
func (h *torHost) quiesce(ctx context.Context, address string) {
	for ctx.Err() == nil && h.tor.Quiesce(ctx, address) != nil {
		_ = pause(ctx) // tor is not there; ends with ctx
	}
}

// nodeService is this host's own onion service.
func nodeService(cfg config.Config) tor.Service {
	s := tor.Service{Dir: filepath.Join(cfg.StateDir, "onion", "node")}
	for _, port := range []int{onionCoordPort, onionJoinPort} {
		s.Ports = append(s.Ports, tor.Port{Virtual: port, Target: "unix:" + torSocket(cfg, port)})
	}
	return s
}

// torSocket is where a port of the own onion service ends.
func torSocket(cfg config.Config, port int) string {
	return filepath.Join(cfg.StateDir, "tor", strconv.Itoa(port))
}

func (h *torHost) socket(port int) string { return filepath.Join(h.dir, strconv.Itoa(port)) }

// address is that of this host's own onion service, empty before the first
// start of tor and on a host that attaches to one.
func (h *torHost) address() string {
	if h == nil || !h.tor.Own() {
		return ""
	}
	a, err := h.node.Address()
	if err != nil {
		return ""
	}
	return a
}

// dial connects over tor to a port of an onion address. Connections with
// different words share no circuit.
func (h *torHost) dial(ctx context.Context, isolation, address string, port int) (net.Conn, error) {
	if h == nil {
		return nil, errTorOff
	}
	return h.tor.Dial(ctx, isolation, net.JoinHostPort(address, strconv.Itoa(port)))
}

// dialPrivate is dial to a host's own onion service, which only they find whose
// key it knows.
func (h *torHost) dialPrivate(ctx context.Context, isolation, address string, port int, key *ecdh.PrivateKey) (net.Conn, error) {
	if h == nil {
		return nil, errTorOff
	}
	return h.tor.DialPrivate(ctx, isolation, net.JoinHostPort(address, strconv.Itoa(port)), key)
}

// listen takes the connections to one of the ports of this host's own onion
// service.
func (h *torHost) listen(ctx context.Context, port int) (net.Listener, error) {
	switch {
	case h == nil:
		return nil, errTorOff
	case !h.tor.Own():
		return nil, errors.New("a tor that is attached to serves no onion of this host (hint: leave tor.control empty)")
	}
	return listenUnix(ctx, h.socket(port))
}

// listenUnix listens on a socket that only this user may enter; one that is
// there already was left by a process that is gone.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("listen for tor: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen for tor: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for tor: %w", err)
	}
	return l, nil
}

// startTor starts the tor of the configuration, if it has one.
func (n *node) startTor(l *lifecycle) error {
	if !n.cfg.Tor.Enabled {
		return nil
	}
	h, err := newTorHost(n.cfg, n.log, n.reg)
	if err != nil {
		return err
	}
	n.tor = h
	if n.onions, err = newOnions(n); err != nil {
		return err
	}
	n.onions.tor = h
	if settings := n.onions.settings(); h.tor.Own() {
		services := n.onions.services(settings, n.onions.solo(settings))
		if err := h.tor.SetServices(services); err != nil {
			return err
		}
		n.onions.dropKeys(services)
	}
	l.start(stage{name: "tor", run: h.run, grace: torGrace})
	return nil
}
