package simnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/skein-project/skein/internal/wait"
)

// Host is a machine on the network.
type Host struct {
	net  *Network
	addr netip.Addr

	// Guarded by net.mu.
	up        bool
	port      uint16 // next ephemeral port
	packets   map[uint16]*PacketConn
	listeners map[uint16]*Listener
	conns     map[*Conn]struct{}
}

// Addr returns the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// Crash takes the host off the network as a power cut does: its sockets fail,
// its peers are told nothing.
func (h *Host) Crash() {
	h.net.mu.Lock()
	h.up = false
	packets, listeners, conns := h.packets, h.listeners, h.conns
	h.packets, h.listeners, h.conns = make(map[uint16]*PacketConn), make(map[uint16]*Listener), nil
	for c := range conns {
		c.vanishLocked()
	}
	h.net.wakeLocked()
	h.net.mu.Unlock()
	for _, p := range packets {
		_ = p.Close() // an in-memory close cannot fail
	}
	for _, l := range listeners {
		_ = l.Close() // an in-memory close cannot fail
	}
}

// Start puts a crashed host back on the network, without sockets.
func (h *Host) Start() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.up = true
	h.net.wakeLocked()
}

// ListenPacket opens a datagram socket.
func (h *Host) ListenPacket(port uint16) (*PacketConn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if !h.up || h.packets[port] != nil {
		return nil, fmt.Errorf("listen udp %s:%d: %w", h.addr, port, syscall.EADDRINUSE)
	}
	c := &PacketConn{
		host: h, local: netip.AddrPortFrom(h.addr, port),
		queue: make(chan packet, 1024), closed: make(chan struct{}),
	}
	h.packets[port] = c
	return c, nil
}

// Listen opens a stream listener.
func (h *Host) Listen(port uint16) (*Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if !h.up || h.listeners[port] != nil {
		return nil, fmt.Errorf("listen tcp %s:%d: %w", h.addr, port, syscall.EADDRINUSE)
	}
	l := &Listener{
		host: h, local: netip.AddrPortFrom(h.addr, port),
		queue: make(chan *Conn, 128), closed: make(chan struct{}),
	}
	h.listeners[port] = l
	return l, nil
}

// Dial opens a stream; it waits one round trip, or as long as the way is cut
// or the other host down, until ctx ends.
func (h *Host) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	out, back := pair{h.addr, to.Addr()}, pair{to.Addr(), h.addr}
	for {
		h.net.mu.Lock()
		if !h.up {
			h.net.mu.Unlock()
			return nil, fail(syscall.ENETDOWN)
		}
		changed := h.net.changed
		open := h.net.upLocked(out) && h.net.upLocked(back)
		rtt := h.net.linkLocked(out).Delay + h.net.linkLocked(back).Delay
		h.net.mu.Unlock()
		if !open {
			select {
			case <-ctx.Done():
				return nil, fail(ctx.Err())
			case <-changed:
			}
			continue
		}
		if err := wait.For(ctx, rtt); err != nil {
			return nil, fail(err)
		}
		c, retry, err := h.connect(to)
		if err != nil {
			return nil, fail(err)
		}
		if !retry {
			return c, nil
		}
	}
}

// connect makes both ends if the way is open now.
func (h *Host) connect(to netip.AddrPort) (c *Conn, retry bool, err error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	out, back := pair{h.addr, to.Addr()}, pair{to.Addr(), h.addr}
	if !n.upLocked(out) || !n.upLocked(back) {
		return nil, true, nil
	}
	peer := n.hosts[to.Addr()]
	l := peer.listeners[to.Port()]
	if l == nil {
		return nil, false, syscall.ECONNREFUSED
	}
	h.port++
	if h.port < 49152 {
		h.port = 49152
	}
	here := netip.AddrPortFrom(h.addr, h.port)
	there, hither := newHalf(n, out), newHalf(n, back)
	a := &Conn{host: h, local: here, remote: to, in: hither, out: there}
	b := &Conn{host: peer, local: to, remote: here, in: there, out: hither}
	select {
	case l.queue <- b:
	default:
		return nil, false, syscall.ECONNREFUSED
	}
	for _, end := range []*Conn{a, b} {
		if end.host.conns == nil {
			end.host.conns = make(map[*Conn]struct{})
		}
		end.host.conns[end] = struct{}{}
	}
	n.halves[there], n.halves[hither] = struct{}{}, struct{}{}
	return a, false, nil
}

// Listener accepts streams at one port of a Host.
type Listener struct {
	host   *Host
	local  netip.AddrPort
	queue  chan *Conn // capacity 128; a dial that finds it full is refused
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Accept waits for the next stream.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	default:
		select {
		case c := <-l.queue:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Close ends waiting calls of Accept and resets streams nobody accepted.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.host.net.mu.Lock()
		if l.host.listeners[l.local.Port()] == l {
			delete(l.host.listeners, l.local.Port())
		}
		l.host.net.mu.Unlock()
		for {
			select {
			case c := <-l.queue:
				_ = c.Close() // an in-memory close cannot fail
			default:
				return
			}
		}
	})
	return nil
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.local) }
