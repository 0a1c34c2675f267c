package netstack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/skein-project/skein/mesh/device"
)

func fullAddress(ap netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(ap.Addr().AsSlice()), Port: ap.Port()}
}

// ListenPacket implements device.Sockets.
func (d *Device) ListenPacket(addr netip.AddrPort) (net.PacketConn, error) {
	addr = device.UnmapPort(addr)
	fa := fullAddress(addr)
	c, err := gonet.DialUDP(d.tun.stack, &fa, nil, protocolOf(addr.Addr()))
	if err != nil {
		return nil, err
	}
	return &packetConn{UDPConn: c, local: c.LocalAddr(), end: ending{stopped: d.tun.done}}, nil
}

// Listen implements device.Sockets.
func (d *Device) Listen(addr netip.AddrPort) (net.Listener, error) {
	addr = device.UnmapPort(addr)
	l, err := gonet.ListenTCP(d.tun.stack, fullAddress(addr), protocolOf(addr.Addr()))
	if err != nil {
		return nil, err
	}
	return &listener{TCPListener: l, addr: l.Addr(), end: ending{stopped: d.tun.done}}, nil
}

// Dial implements device.Sockets.
func (d *Device) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	addr = device.UnmapPort(addr)
	c, err := gonet.DialContextTCP(ctx, d.tun.stack, fullAddress(addr), protocolOf(addr.Addr()))
	if err != nil {
		return nil, err
	}
	return newStreamConn(c, net.TCPAddrFromAddrPort(addr), d.tun.done), nil
}

// ending turns the stack's errors into those of package net, on which callers
// branch: net.ErrClosed after a close, os.ErrDeadlineExceeded after a
// deadline.
type ending struct {
	closed  atomic.Bool
	stopped <-chan struct{} // the whole device
}

func (e *ending) err(err error) error {
	if err == nil {
		return nil
	}
	if e.closed.Load() {
		return net.ErrClosed
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return os.ErrDeadlineExceeded
	}
	select {
	case <-e.stopped:
		return net.ErrClosed
	default:
		return err
	}
}

func (e *ending) op(op, network string, local, remote net.Addr, err error) error {
	return &net.OpError{Op: op, Net: network, Source: local, Addr: remote, Err: e.err(err)}
}

// past is a deadline that frees everyone who waits.
func past() time.Time { return time.Unix(1, 0) }

// streamConn is a TCP connection. Its addresses stay known after it is closed
// by the other side.
type streamConn struct {
	*gonet.TCPConn
	local, remote net.Addr
	end           ending
}

func newStreamConn(c *gonet.TCPConn, remote net.Addr, stopped <-chan struct{}) *streamConn {
	s := &streamConn{TCPConn: c, local: c.LocalAddr(), remote: c.RemoteAddr(), end: ending{stopped: stopped}}
	// Both are nil if the connection was reset meanwhile.
	if s.local == nil {
		s.local = &net.TCPAddr{}
	}
	if s.remote == nil {
		s.remote = remote
	}
	return s
}

// Read implements net.Conn.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if err == nil || (err == io.EOF && !c.end.closed.Load()) { //nolint:errorlint // EOF must stay itself
		return n, err
	}
	return n, c.end.op("read", "tcp", c.local, c.remote, err)
}

// Write implements net.Conn.
func (c *streamConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	if err == nil {
		return n, nil
	}
	return n, c.end.op("write", "tcp", c.local, c.remote, err)
}

// Close implements net.Conn. What was written is still sent.
func (c *streamConn) Close() error {
	if c.end.closed.Swap(true) {
		return nil
	}
	// The stack does not promise to wake those who wait.
	_ = c.SetDeadline(past())
	return c.TCPConn.Close()
}

// LocalAddr implements net.Conn.
func (c *streamConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *streamConn) RemoteAddr() net.Addr { return c.remote }

// listener accepts TCP connections.
type listener struct {
	*gonet.TCPListener
	addr net.Addr
	end  ending
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.TCPListener.Accept()
		if err != nil {
			return nil, l.end.op("accept", "tcp", nil, l.addr, err)
		}
		tc, ok := c.(*gonet.TCPConn)
		if !ok || tc.RemoteAddr() == nil {
			// Reset before it was accepted.
			c.Close()
			continue
		}
		return newStreamConn(tc, nil, l.end.stopped), nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if l.end.closed.Swap(true) {
		return nil
	}
	l.Shutdown() // wakes Accept, which Close alone does not
	return l.TCPListener.Close()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// packetConn is a UDP socket.
type packetConn struct {
	*gonet.UDPConn
	local net.Addr
	end   ending
}

// ReadFrom implements net.PacketConn. The address is a *net.UDPAddr.
func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.UDPConn.ReadFrom(b)
	if err == nil {
		return n, from, nil
	}
	if err == io.EOF { //nolint:errorlint // a datagram socket has no end of file
		err = net.ErrClosed
	}
	return 0, nil, c.end.op("read", "udp", c.local, nil, err)
}

// WriteTo implements net.PacketConn.
func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	ua, ok := to.(*net.UDPAddr)
	if !ok || ua == nil || len(ua.IP) == 0 {
		return 0, c.end.op("write", "udp", c.local, to, device.ErrAddrFamily)
	}
	if ip4 := ua.IP.To4(); ip4 != nil && len(ua.IP) != net.IPv4len {
		ua = &net.UDPAddr{IP: ip4, Port: ua.Port}
	}
	n, err := c.UDPConn.WriteTo(b, ua)
	if err == nil {
		return n, nil
	}
	return n, c.end.op("write", "udp", c.local, to, err)
}

// Close implements net.PacketConn.
func (c *packetConn) Close() error {
	if c.end.closed.Swap(true) {
		return nil
	}
	_ = c.SetDeadline(past())
	return c.UDPConn.Close()
}

// LocalAddr implements net.PacketConn.
func (c *packetConn) LocalAddr() net.Addr { return c.local }
