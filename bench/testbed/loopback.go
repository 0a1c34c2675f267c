package testbed

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
)

// Overheads that a meter adds to a datagram's payload: the headers of IPv4 and
// UDP. What TCP adds depends on the kernel and is left out on both sides.
const datagramHeaders = 28

// Meter counts what the hosts of one cluster send, and loses datagrams.
type Meter struct {
	datagrams, packetBytes, streamBytes atomic.Int64
	// Lose is how many of a thousand datagrams are lost.
	Lose atomic.Int64
}

// Bytes is all that was sent since the start.
func (m *Meter) Bytes() int64 {
	return m.packetBytes.Load() + datagramHeaders*m.datagrams.Load() + m.streamBytes.Load()
}

// Packet counts a datagram of n bytes and reports whether it gets lost.
func (m *Meter) Packet(n int) (lost bool) {
	m.datagrams.Add(1)
	m.packetBytes.Add(int64(n))
	lose := m.Lose.Load()
	return lose > 0 && rand.Int64N(1000) < lose
}

// Subnet picks three bytes 127.x.y that other runs on this machine are
// unlikely to use; each kind of cluster in a run has its own.
func Subnet(kind byte) [3]byte {
	pid := os.Getpid()
	return [3]byte{127, 64 + kind, byte(pid>>8)<<4 ^ byte(pid)}
}

// FreePort returns a port that is free at addr for TCP and UDP.
func FreePort(addr netip.Addr) (uint16, error) {
	for range 20 {
		l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		if err != nil {
			return 0, fmt.Errorf("no socket at %s: %w", addr, err)
		}
		at := addrPort(l.Addr())
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		_ = l.Close() // both only showed that the port is free
		if err == nil {
			_ = c.Close()
			return at.Port(), nil
		}
	}
	return 0, fmt.Errorf("no port of %s is free for both TCP and UDP", addr)
}

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort()
	case *net.TCPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// A certificate of skein cannot name a loopback address. In the mesh a host is
// 10.x.y.z, and 127.x.y.z stands for that on this machine.
func inMesh(a netip.AddrPort) netip.AddrPort     { return withFirst(a, 10) }
func onLoopback(a netip.AddrPort) netip.AddrPort { return withFirst(a, 127) }

func withFirst(a netip.AddrPort, first byte) netip.AddrPort {
	v := a.Addr().Unmap().As4()
	v[0] = first
	return netip.AddrPortFrom(netip.AddrFrom4(v), a.Port())
}

// streams are the open streams of one host. Cutting tears them away.
type streams struct {
	m *Meter

	mu   sync.Mutex
	gone bool
	open map[*MeteredConn]struct{}
}

func newStreams(m *Meter) *streams { return &streams{m: m, open: map[*MeteredConn]struct{}{}} }

// keep counts conn as one of the host's streams, or closes it after a cut.
func (s *streams) keep(conn net.Conn) (*MeteredConn, error) {
	c := &MeteredConn{Conn: conn, M: s.m}
	c.forget = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		conn.Close()
		return nil, net.ErrClosed
	}
	s.open[c] = struct{}{}
	return c, nil
}

func (s *streams) cut() {
	s.mu.Lock()
	s.gone = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}

// Sockets are one skein host's: a datagram socket, a listener and the streams
// of both directions. cut tears all of them away, as a power cut does.
type Sockets struct {
	at      netip.AddrPort // on the loopback device
	m       *Meter
	udp     *net.UDPConn
	tcp     *net.TCPListener
	streams *streams
}

func listen(mesh netip.AddrPort, m *Meter) (*Sockets, error) {
	s := &Sockets{at: onLoopback(mesh), m: m, streams: newStreams(m)}
	var err error
	if s.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.at)); err != nil {
		return nil, fmt.Errorf("datagrams at %s: %w", s.at, err)
	}
	if s.tcp, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(s.at)); err != nil {
		_ = s.udp.Close() // nothing was sent
		return nil, fmt.Errorf("streams at %s: %w", s.at, err)
	}
	return s, nil
}

// Cut closes all sockets of the host at once.
func (s *Sockets) Cut() {
	_ = s.udp.Close() // a second cut finds them closed
	_ = s.tcp.Close()
	s.streams.cut()
}

func (s *Sockets) keep(conn net.Conn) (net.Conn, error) {
	c, err := s.streams.keep(conn)
	if err != nil {
		return nil, err
	}
	return meshConn{c}, nil
}

func (s *Sockets) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.at.Addr(), 0))}
	c, err := d.DialContext(ctx, "tcp4", onLoopback(to).String())
	if err != nil {
		return nil, err
	}
	return s.keep(c)
}

// packets is the datagram socket as skein sees it.
type packets struct {
	*net.UDPConn
	s *Sockets
}

func (p packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.ReadFromUDPAddrPort(b)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(inMesh(from)), nil
}

func (p packets) WriteTo(b []byte, to net.Addr) (int, error) {
	if p.s.m.Packet(len(b)) {
		return len(b), nil
	}
	return p.WriteToUDPAddrPort(b, onLoopback(addrPort(to)))
}

// listener accepts streams as skein sees them.
type listener struct {
	*net.TCPListener
	s *Sockets
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err != nil {
		return nil, err
	}
	return l.s.keep(c)
}

type meshConn struct{ *MeteredConn }

func (c meshConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(inMesh(addrPort(c.Conn.RemoteAddr())))
}

// MeteredConn counts what is written to a stream.
type MeteredConn struct {
	net.Conn
	M      *Meter
	forget func() // may be nil
}

func (c *MeteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.M.streamBytes.Add(int64(n))
	return n, err
}

// ReadFrom hides the kernel's shortcut from io.Copy: it would not be counted.
func (c *MeteredConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// Close takes the connection out of those that a cut ends.
func (c *MeteredConn) Close() error {
	if c.forget != nil {
		c.forget()
	}
	return c.Conn.Close()
}
