//go:build unix

package h1

import (
	"crypto/tls"
	"syscall"
	"time"
)

// restTime is how long a connection may be idle and is believed to be good.
const restTime = 50 * time.Millisecond

// Alive reports whether a connection that was idle is still good: the target has
// neither closed it nor, without TLS, sent anything. Targets close what is idle, and
// a request on such a connection would fail by nobody's fault.
func (c *Conn) Alive(now time.Time) bool {
	if c.Idle(now) < restTime {
		return true
	}
	inner := c.Conn
	encrypted, secure := inner.(*tls.Conn)
	if secure {
		inner = encrypted.NetConn()
	}
	raw, ok := inner.(syscall.Conn)
	if !ok {
		return true // a network of tests
	}
	rc, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	var one [1]byte
	err = rc.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err != nil:
			alive = err == syscall.EAGAIN || err == syscall.EINTR //nolint:errorlint // straight from the kernel
		default:
			// Under TLS tickets may lie there, and an alert before the end: the next
			// request finds out.
			alive = secure && n > 0
		}
		return true
	})
	return err == nil && alive
}
