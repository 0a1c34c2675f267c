package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// Mesh is one WireGuard device and the sockets inside it. All methods are
// safe for concurrent use.
type Mesh struct {
	opts Options
	key  atomic.Pointer[topo.Key] // written by Run only
	log  zerolog.Logger

	running atomic.Bool
	ready   chan struct{} // closed when the device is up
	ended   chan struct{} // closed when Run has returned its resources
	// requests to Run; capacity 0, senders wait for their context or the end.
	requests chan request

	// Set before ready is closed.
	sockets device.Sockets
	backend string
	iface   string

	snap    atomic.Pointer[snapshot]
	metrics *metrics
}

// request asks Run for a new desired state, or for a new key if private is set.
type request struct {
	want    topo.Desired
	private *[topo.KeyLen]byte
	done    chan error // capacity 1, Run answers once
}

// snapshot is the state as of one reading; immutable.
type snapshot struct {
	port     uint16
	mtu      int
	peers    []PeerStatus
	counters device.Counters
	tally    tally
}

// PeerStatus is a peer as of the last reading.
type PeerStatus struct {
	Node       cluster.NodeID
	Key        topo.Key
	Next       topo.Key // announced, zero if none
	Allowed    []netip.Prefix
	Endpoint   netip.AddrPort   // in use, zero if none is known
	Candidates []netip.AddrPort // tried in turn while out of reach
	// LastHandshake is zero if there was none. Live means that the session
	// can carry data, Reachable that it also seems to be answered.
	LastHandshake time.Time
	Live          bool
	Reachable     bool
	Initiator     bool // whether this side starts handshakes
	Attempts      int  // of the present search
	Keepalive     time.Duration
	Rx, Tx        uint64 // bytes on the underlay
}

// New checks the options. Nothing is opened or started before Run, but the
// metrics are registered.
func New(o Options) (*Mesh, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	key, err := topo.PublicKey(o.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	o.Logger = o.Logger.With().Str("component", "mesh").Logger()
	m := &Mesh{
		opts:     o,
		log:      o.Logger,
		ready:    make(chan struct{}),
		ended:    make(chan struct{}),
		requests: make(chan request),
	}
	m.key.Store(&key)
	m.snap.Store(&snapshot{})
	m.metrics = newMetrics(m)
	if o.Registerer != nil {
		if err := o.Registerer.Register(m.metrics); err != nil {
			return nil, fmt.Errorf("mesh: register metrics: %w", err)
		}
	}
	return m, nil
}

// Key is the device's public key.
func (m *Mesh) Key() topo.Key { return *m.key.Load() }

// Backend is the name of the backend in use once Ready is closed, and what
// was asked for before.
func (m *Mesh) Backend() string {
	if !m.isReady() {
		return m.opts.Backend
	}
	return m.backend
}

// Interface is the device's network interface; empty before Ready, and for a
// backend that has none.
func (m *Mesh) Interface() string {
	if !m.isReady() {
		return ""
	}
	return m.iface
}

func (m *Mesh) isReady() bool {
	select {
	case <-m.ready:
		return true
	default:
		return false
	}
}

// Ready is closed once the device listens on the underlay. If that fails, Run
// returns the error and Ready stays open.
func (m *Mesh) Ready() <-chan struct{} { return m.ready }

// Run opens the device and owns it until ctx is done (it then returns nil) or
// the device fails. The device is closed when Run returns. A Mesh runs once.
func (m *Mesh) Run(ctx context.Context) (err error) {
	if m.running.Swap(true) {
		return ErrRunning
	}
	defer close(m.ended)
	if m.opts.Registerer != nil {
		defer m.opts.Registerer.Unregister(m.metrics)
	}
	dev, err := openDevice(m.opts)
	if err != nil {
		return err
	}
	defer func() {
		if e := dev.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("close %s device: %w", dev.Backend(), e))
		}
	}()
	m.sockets, m.backend, m.iface = dev, dev.Backend(), dev.Iface()
	o := newOwner(m, dev)
	now := time.Now()
	if err := o.read(now); err != nil {
		return fmt.Errorf("read %s device: %w", dev.Backend(), err)
	}
	o.publish(now)
	close(m.ready)
	return o.loop(ctx)
}

// Set makes the device equal to want, as far as topo.Diff allows, and returns
// when that is done. want.Key must be the device's own public key. What was
// refused is a *RefusedError; after any other error the owner goes on trying
// every few seconds.
func (m *Mesh) Set(ctx context.Context, want topo.Desired) error {
	if err := want.Validate(); err != nil {
		return fmt.Errorf("mesh: set: %w", err)
	}
	want.Addrs = slices.Clone(want.Addrs)
	want.Peers = slices.Clone(want.Peers)
	return m.ask(ctx, request{want: want})
}

// SetKey changes the device's private key and starts a handshake with every
// peer at once. The next Set must name the new public key. For a change
// without loss the peers know the key beforehand, as topo.Peer.Next, and learn
// of the change only from these handshakes: who is told before removes the
// session that is still in use.
func (m *Mesh) SetKey(ctx context.Context, private [topo.KeyLen]byte) error {
	if _, err := topo.PublicKey(private); err != nil {
		return fmt.Errorf("mesh: set key: %w", err)
	}
	return m.ask(ctx, request{private: &private})
}

// ask hands a request to Run and waits for the answer.
func (m *Mesh) ask(ctx context.Context, req request) error {
	req.done = make(chan error, 1)
	select {
	case m.requests <- req:
	case <-m.ended:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("mesh: not taken by the device's owner: %w", ctx.Err())
	}
	select {
	case err := <-req.done:
		return err
	case <-m.ended:
		return ErrClosed
	}
}

// Observe returns the peers as of the last reading, sorted by node. The
// slices in it must not be changed.
func (m *Mesh) Observe() []PeerStatus { return slices.Clone(m.snap.Load().peers) }

// ListenPort is the underlay port in use, 0 before Ready.
func (m *Mesh) ListenPort() uint16 { return m.snap.Load().port }

// MTU is the size of packets inside the mesh.
func (m *Mesh) MTU() int { return m.snap.Load().mtu }

// await waits until sockets can be had.
func (m *Mesh) await(ctx context.Context) error {
	select {
	case <-m.ended:
		return ErrClosed
	default:
	}
	select {
	case <-m.ready:
		return nil
	case <-m.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ListenPacket opens a UDP socket at one of the device's mesh addresses,
// which an earlier Set must have given it. It waits for Ready.
func (m *Mesh) ListenPacket(ctx context.Context, addr netip.AddrPort) (net.PacketConn, error) {
	if err := m.await(ctx); err != nil {
		return nil, wrapSocket("listen on udp", addr, err)
	}
	c, err := m.sockets.ListenPacket(addr)
	if err != nil {
		return nil, wrapSocket("listen on udp", addr, err)
	}
	return c, nil
}

// Listen opens a TCP listener at one of the device's mesh addresses, as
// ListenPacket does for UDP.
func (m *Mesh) Listen(ctx context.Context, addr netip.AddrPort) (net.Listener, error) {
	if err := m.await(ctx); err != nil {
		return nil, wrapSocket("listen on tcp", addr, err)
	}
	l, err := m.sockets.Listen(addr)
	if err != nil {
		return nil, wrapSocket("listen on tcp", addr, err)
	}
	return l, nil
}

// Dial opens a TCP connection to a mesh address. It waits no longer than
// DialTimeout. A connection whose other host is gone fails about 40 s after
// unanswered data; who must know earlier sets deadlines.
func (m *Mesh) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	if !addr.IsValid() || addr.Port() == 0 {
		return nil, wrapSocket("dial tcp", addr, errors.New("no such address"))
	}
	if err := m.await(ctx); err != nil {
		return nil, wrapSocket("dial tcp", addr, err)
	}
	c, err := m.sockets.Dial(ctx, addr)
	if err != nil {
		return nil, wrapSocket("dial tcp", addr, err)
	}
	return c, nil
}

// Endpoints returns where on the underlay the peers in reach are, as their
// authenticated packets show it.
func (m *Mesh) Endpoints() map[cluster.NodeID]netip.AddrPort {
	out := map[cluster.NodeID]netip.AddrPort{}
	for _, p := range m.snap.Load().peers {
		if p.Reachable && p.Endpoint.IsValid() {
			out[p.Node] = p.Endpoint
		}
	}
	return out
}

// wrapSocket adds what was tried to an error.
func wrapSocket(what string, addr netip.AddrPort, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s in the mesh: %w", what, addr, err)
}
