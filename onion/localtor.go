package onion

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

	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/tor"
)

// Ports of a host's own onion service, which only other members and newcomers
// find: coordination, and joins.
const (
	CoordPort = 51821
	JoinPort  = 443
)

// ErrTorOff answers what needs tor on a host without it.
var ErrTorOff = errors.New("tor is off on this host (hint: set tor.enabled)")

// TorOptions say which tor a host uses.
type TorOptions struct {
	Dir     string   // of an own tor, and of the sockets of its services
	NodeDir string   // of this host's own onion service
	Program string   // empty: tor on the path
	Torrc   []string // further lines of its configuration
	// Control is another's tor, with its Socks port and Cookie file; empty: an own
	// one.
	Control, Socks, Cookie string
	// Watchdog and Silence are about the end of an own tor, see tor.Options.
	Watchdog   []string
	Silence    time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// LocalTor is this host's one tor and its own onion service, whoever uses them.
// It may be nil, on a host without tor.
type LocalTor struct {
	*tor.Tor
	dir  string
	node tor.Service
	// quiet takes the onion addresses from which newcomers are sent away, until
	// tor ends.
	quiet chan []string
}

// NewLocalTor makes the tor of the configuration, which Run starts. It has no
// onion service until Host gives it some.
func NewLocalTor(o TorOptions) (*LocalTor, error) {
	t := &LocalTor{dir: o.Dir, quiet: make(chan []string, 1)}
	options := tor.Options{
		Program: o.Program, Dir: o.Dir, Torrc: o.Torrc, Watchdog: o.Watchdog, Silence: o.Silence, Log: o.Log, Metrics: o.Registerer,
	}
	if o.Control != "" {
		options = tor.Options{Attach: &tor.Attach{Control: o.Control, Socks: o.Socks, Cookie: o.Cookie}, Log: o.Log, Metrics: o.Registerer}
	} else {
		t.node = tor.Service{Dir: o.NodeDir}
		for _, port := range []int{CoordPort, JoinPort} {
			t.node.Ports = append(t.node.Ports, tor.Port{Virtual: port, Target: "unix:" + t.Socket(port)})
		}
		if err := os.MkdirAll(filepath.Dir(o.NodeDir), 0o700); err != nil {
			return nil, fmt.Errorf("directory of the onion services: %w", err)
		}
	}
	var err error
	t.Tor, err = tor.New(options)
	return t, err
}

// Run runs tor until ctx ends.
func (t *LocalTor) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case addresses := <-t.quiet:
			for _, a := range addresses {
				wg.Go(func() { quiesce(ctx, t.Tor, a) })
			}
		}
	})
	return t.Tor.Run(ctx)
}

// SendAway has newcomers sent away from onion addresses until tor ends. It is
// called once at most: the daemon stops.
func (t *LocalTor) SendAway(addresses []string) { t.quiet <- addresses }

// quiesceRetry is how soon a tor that was not there is asked again.
const quiesceRetry = 50 * time.Millisecond

// quiesce sends newcomers away from an onion address, until ctx ends.
func quiesce(ctx context.Context, t serviceTor, address string) {
	for ctx.Err() == nil && t.Quiesce(ctx, address) != nil {
		_ = wait.For(ctx, quiesceRetry) // tor is not there; the loop ends with ctx
	}
}

// Beat says that the daemon makes progress, see tor.Tor.
func (t *LocalTor) Beat() {
	if t != nil {
		t.Tor.Beat()
	}
}

// Node is this host's own onion service, without those who find it.
func (t *LocalTor) Node() tor.Service { return t.node }

// Socket is where a port of this host's onion services ends.
func (t *LocalTor) Socket(port int) string { return filepath.Join(t.dir, strconv.Itoa(port)) }

// Address is that of this host's own onion service, empty before the first
// start of tor and on a host that attaches to one.
func (t *LocalTor) Address() string {
	if t == nil || !t.Own() {
		return ""
	}
	a, err := t.node.Address()
	if err != nil {
		return ""
	}
	return a
}

// JoinAddress is where newcomers reach this host over tor, empty if they do not.
func (t *LocalTor) JoinAddress() string {
	own := t.Address()
	if own == "" {
		return ""
	}
	return net.JoinHostPort(own, strconv.Itoa(JoinPort))
}

// DialMember connects to a port of a member's own onion service, which only
// those find whose key it knows. Connections with different isolation words
// share no circuit.
func (t *LocalTor) DialMember(ctx context.Context, isolation, address string, port int, key *ecdh.PrivateKey) (net.Conn, error) {
	if t == nil {
		return nil, ErrTorOff
	}
	return t.DialPrivate(ctx, isolation, net.JoinHostPort(address, strconv.Itoa(port)), key)
}

// Listen takes the connections to one of the ports of this host's own onion
// service.
func (t *LocalTor) Listen(ctx context.Context, port int) (net.Listener, error) {
	switch {
	case t == nil:
		return nil, ErrTorOff
	case !t.Own():
		return nil, errors.New("a tor that is attached to serves no onion of this host (hint: leave tor.control empty)")
	}
	return listenUnix(ctx, t.Socket(port))
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
