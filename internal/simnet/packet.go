package simnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/pipe"
)

type packet struct {
	from netip.AddrPort
	data []byte
}

// PacketConn is a datagram socket of a Host.
type PacketConn struct {
	host    *Host
	local   netip.AddrPort
	queue   chan packet // capacity 1024; a datagram that finds it full is lost and counted
	closed  chan struct{}
	once    sync.Once
	read    pipe.Deadline
	dropped atomic.Uint64
}

var _ net.PacketConn = (*PacketConn)(nil)

// ReadFrom waits for a datagram until the read deadline.
func (c *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case <-c.closed:
		return 0, nil, c.fail("read", net.ErrClosed)
	case <-c.read.Passed():
		return 0, nil, c.fail("read", os.ErrDeadlineExceeded)
	default:
	}
	select {
	case <-c.closed:
		return 0, nil, c.fail("read", net.ErrClosed)
	case <-c.read.Passed():
		return 0, nil, c.fail("read", os.ErrDeadlineExceeded)
	case p := <-c.queue:
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	}
}

// WriteTo sends b on its way; it never waits.
func (c *PacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-c.closed:
		return 0, c.fail("write", net.ErrClosed)
	default:
	}
	if len(b) > 65507 {
		return 0, c.fail("write", syscall.EMSGSIZE)
	}
	ap, err := netip.ParseAddrPort(to.String())
	if err != nil {
		return 0, c.fail("write", fmt.Errorf("address %s: %w", to, err))
	}
	c.host.net.send(c.local, ap, b)
	return len(b), nil
}

// Close ends waiting reads.
func (c *PacketConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.host.net.mu.Lock()
		defer c.host.net.mu.Unlock()
		if c.host.packets[c.local.Port()] == c {
			delete(c.host.packets, c.local.Port())
		}
	})
	return nil
}

// Dropped counts datagrams lost because the socket's queue was full.
func (c *PacketConn) Dropped() uint64 { return c.dropped.Load() }

// LocalAddr returns the socket's address.
func (c *PacketConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

// SetDeadline sets the read deadline; writes never wait.
func (c *PacketConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline bounds present and later reads.
func (c *PacketConn) SetReadDeadline(t time.Time) error {
	c.read.Set(t)
	return nil
}

// SetWriteDeadline does nothing: writes never wait.
func (c *PacketConn) SetWriteDeadline(time.Time) error { return nil }

func (c *PacketConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.LocalAddr(), Err: err}
}
