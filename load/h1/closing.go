package h1

import (
	"net"
	"syscall"
)

// Closing is a connection that calls closed when it is closed, each time.
func Closing(c net.Conn, closed func()) net.Conn {
	one := &closingConn{c, closed}
	if _, ok := c.(syscall.Conn); ok {
		return &closingSocket{one}
	}
	return one
}

// closingConn tells of its end.
type closingConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *closingConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// closingSocket is one of the kernel, which says whether it is alive.
type closingSocket struct{ *closingConn }

// SyscallConn implements syscall.Conn.
func (c *closingSocket) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // see Closing
}
