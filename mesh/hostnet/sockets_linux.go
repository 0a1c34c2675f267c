package hostnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/mesh/device"
)

const (
	// userTimeout ends a TCP connection whose data nobody acknowledges, as
	// the netstack does.
	userTimeout = 40 * time.Second
	// dialRetry is the pause after a connection attempt that failed only
	// because there is no session yet.
	dialRetry = 100 * time.Millisecond
)

// hostSockets are sockets of this host that send and receive on the mesh
// interface only: what comes in elsewhere with a mesh address on it is forged.
// Processes of this host reach them from its own mesh address.
type hostSockets struct {
	iface string
	lost  atomic.Uint64 // datagrams for peers without a session

	mu     sync.Mutex
	open   map[io.Closer]struct{}
	closed bool
}

func newHostSockets(iface string) *hostSockets {
	return &hostSockets{iface: iface, open: map[io.Closer]struct{}{}}
}

// bind ties a socket to the interface before it gets its address.
func (s *hostSockets) bind(network, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		if err = unix.BindToDevice(int(fd), s.iface); err != nil {
			err = fmt.Errorf("bind to interface %s: %w", s.iface, err)
			return
		}
		if network == "tcp4" || network == "tcp6" {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
		}
	}); e != nil {
		return e
	}
	return err
}

// network is base for one family: a socket of both would take an IPv4 address
// for a mapped one.
func network(base string, a netip.Addr) string {
	if a.Is4() {
		return base + "4"
	}
	return base + "6"
}

func (s *hostSockets) ListenPacket(addr netip.AddrPort) (net.PacketConn, error) {
	addr = device.UnmapPort(addr)
	lc := net.ListenConfig{Control: s.bind}
	pc, err := lc.ListenPacket(context.Background(), network("udp", addr.Addr()), addr.String())
	if err != nil {
		return nil, err
	}
	u, ok := pc.(*net.UDPConn)
	if !ok {
		pc.Close()
		return nil, device.ErrAddrFamily
	}
	// A smaller buffer than asked for loses datagrams earlier, no more.
	_ = u.SetReadBuffer(device.SocketBuffer)
	c := &hostPacketConn{UDPConn: u, sockets: s}
	return c, s.add(c)
}

func (s *hostSockets) Listen(addr netip.AddrPort) (net.Listener, error) {
	addr = device.UnmapPort(addr)
	lc := net.ListenConfig{Control: s.bind}
	l, err := lc.Listen(context.Background(), network("tcp", addr.Addr()), addr.String())
	if err != nil {
		return nil, err
	}
	hl := &hostListener{Listener: l, sockets: s}
	return hl, s.add(hl)
}

// Dial tries again while WireGuard refuses packets because it knows no
// endpoint yet: a packet in the netstack would wait for that.
func (s *hostSockets) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	addr = device.UnmapPort(addr)
	d := net.Dialer{Control: s.bind}
	for {
		c, err := d.DialContext(ctx, network("tcp", addr.Addr()), addr.String())
		if err == nil {
			return s.track(c)
		}
		if !noSession(err) {
			return nil, err
		}
		if ended := wait.For(ctx, dialRetry); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
}

// noSession reports whether WireGuard had no endpoint or no key for a packet.
func noSession(err error) bool {
	return errors.Is(err, unix.EDESTADDRREQ) || errors.Is(err, unix.ENOKEY) || errors.Is(err, unix.EHOSTUNREACH)
}

func (s *hostSockets) track(c net.Conn) (net.Conn, error) {
	hc := &hostConn{Conn: c, sockets: s}
	return hc, s.add(hc)
}

// add remembers a socket to close it with the device.
func (s *hostSockets) add(c io.Closer) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		return errors.Join(net.ErrClosed, c.Close())
	}
	return nil
}

func (s *hostSockets) remove(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// closeAll closes every socket, for good.
func (s *hostSockets) closeAll() {
	s.mu.Lock()
	s.closed = true
	all := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range all {
		_ = c.Close() // its owner may have closed it
	}
}

type hostConn struct {
	net.Conn
	sockets *hostSockets
}

// Close implements net.Conn.
func (c *hostConn) Close() error {
	c.sockets.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends what is sent; the other side reads to the end.
func (c *hostConn) CloseWrite() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.CloseWrite()
	}
	return errors.ErrUnsupported
}

type hostListener struct {
	net.Listener
	sockets *hostSockets
}

// Accept implements net.Listener.
func (l *hostListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.sockets.track(c)
}

// Close implements net.Listener.
func (l *hostListener) Close() error {
	l.sockets.remove(l)
	return l.Listener.Close()
}

type hostPacketConn struct {
	*net.UDPConn
	sockets *hostSockets
}

// WriteTo implements net.PacketConn. A datagram for a peer without a session
// is lost and counted, as others are on their way.
func (c *hostPacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	n, err := c.UDPConn.WriteTo(b, to)
	if err != nil && noSession(err) {
		c.sockets.lost.Add(1)
		return len(b), nil
	}
	return n, err
}

// Close implements net.PacketConn.
func (c *hostPacketConn) Close() error {
	c.sockets.remove(c)
	return c.UDPConn.Close()
}
