//go:build unix

package h1

import (
	"io"
	"net"
	"syscall"
	"time"
)

// socket writes a request and reads the beginning of its answer on a connection of the kernel
// without asking, right behind the write, for an answer that cannot be there yet. What the
// runtime waits for is begun before the write, so an answer that is fast is not missed. An
// end that came before is: a target that closed only its own way while the connection was at
// rest answers nothing, and that is a timeout.
type socket struct {
	raw  syscall.RawConn
	turn func(fd uintptr) bool // next, made a value once
	// Of the request that is under way.
	c     *Conn
	req   []byte
	tried bool          // to write
	wrote int           // bytes
	took  time.Duration // for that
	err   error
}

// newSocket is nil for a connection that is not one of TCP itself.
func newSocket(c *Conn) *socket {
	raw := rawOf(c.Conn)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw, c: c}
	s.turn = s.next
	return s
}

// exchange writes a request and reads the first bytes of what comes back. wrote is how much
// of it was written: if that is not all, nothing was read.
func (s *socket) exchange(req []byte) (wrote int, took time.Duration, err error) {
	s.req, s.tried, s.wrote, s.took, s.err = req, false, 0, 0, nil
	if err := s.raw.Read(s.turn); err != nil {
		return s.wrote, s.took, err
	}
	return s.wrote, s.took, s.err
}

// next is called at once, and each time there may be something to read.
func (s *socket) next(fd uintptr) bool {
	if !s.tried {
		s.tried = true
		n, err := write(fd, s.req)
		s.took = time.Since(s.c.begin)
		if err != nil {
			if err != syscall.EAGAIN && err != syscall.EINTR { //nolint:errorlint // straight from the kernel
				s.err = err
			}
			return true
		}
		s.wrote = n
		return n < len(s.req) // the rest is not for here
	}
	for {
		n, err := read(fd, s.c.buf[s.c.w:])
		switch {
		case err == syscall.EINTR: //nolint:errorlint // straight from the kernel
			continue
		case err == syscall.EAGAIN: //nolint:errorlint // straight from the kernel
			return false
		case err != nil:
			s.err = err
		case n == 0:
			s.err = io.EOF
		default:
			s.c.w += n
			s.c.heard = time.Since(s.c.begin)
		}
		return true
	}
}

// rawOf is nil for a connection that is not one of TCP itself.
func rawOf(c net.Conn) syscall.RawConn {
	if closing, is := c.(*closingSocket); is {
		c = closing.Conn
	}
	tcp, is := c.(*net.TCPConn)
	if !is {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
