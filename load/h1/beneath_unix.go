//go:build unix

package h1

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// mostHeld is the largest record of TLS that waits for the read behind it: one as it is
// written at once, of 16 KiB with what TLS adds.
const mostHeld = 17 << 10

// beneath is the connection of the kernel under one of TLS, which does for records what
// socket does for requests: it writes a request by the read that waits for its answer, and
// moves a deadline when it has passed, of which TLS never hears, since it would end with it.
// Until the handshake is over it is as the connection is.
type beneath struct {
	net.Conn
	raw  syscall.RawConn
	turn func(fd uintptr) bool // next, made a value once
	c    *Conn                 // nil: the handshake is not over
	mu   sync.Mutex            // of out, and held while it is written
	out  []byte                // a record that waits to be written
	// fresh: the next record begins a request, so whatever can be read when it has been
	// written is older, and what answers it is still to come.
	fresh bool
	took  time.Duration // after Conn.begin: when the last record was written
	werr  error         // of a record that waited
	reading
	// Of its end, which somebody else may want.
	closing atomic.Bool
	last    []byte // what TLS says then; of mu
}

// reading is the read that is under way.
type reading struct {
	b   []byte
	n   int
	err error
}

// Beneath is what TLS is to be put on: c, or what spares it some of what it costs.
func Beneath(c net.Conn) net.Conn {
	raw := rawOf(c)
	if raw == nil {
		return c
	}
	u := &beneath{Conn: c, raw: raw}
	u.turn = u.next
	return u
}

// beneathOf takes over what lies under a connection of TLS whose handshake is over.
func beneathOf(c *Conn) *beneath {
	secure, is := c.Conn.(*tls.Conn)
	if !is {
		return nil
	}
	u, is := secure.NetConn().(*beneath)
	if is {
		u.c = c
	}
	return u
}

// begin is told that a request is written next, end that what is written next is the last.
func (u *beneath) begin() { u.fresh = true }

func (u *beneath) end() { u.closing.Store(true) }

// SyscallConn implements syscall.Conn.
func (u *beneath) SyscallConn() (syscall.RawConn, error) { return u.raw, nil }

// Write implements net.Conn. What it holds back is written by the next Read.
func (u *beneath) Write(b []byte) (int, error) {
	if u.c == nil {
		return u.Conn.Write(b)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing.Load() {
		u.last = append(u.last, b...)
		return len(b), nil
	}
	if u.werr != nil {
		return 0, u.werr
	}
	if len(u.out) == 0 && len(b) <= mostHeld {
		u.out = append(u.out, b...)
		return len(b), nil
	}
	if err := u.flush(); err != nil {
		return 0, err
	}
	return u.put(b)
}

// flush writes what is held back. The caller holds mu.
func (u *beneath) flush() error {
	held := u.out
	u.out = u.out[:0]
	_, err := u.put(held)
	return err
}

// put writes all of b. The caller holds mu.
func (u *beneath) put(b []byte) (wrote int, err error) {
	for wrote < len(b) {
		n, err := u.Conn.Write(b[wrote:])
		if wrote += n; err != nil && !u.c.early(err) {
			return wrote, err
		}
	}
	u.took = time.Since(u.c.begin)
	return wrote, nil
}

// Read implements net.Conn.
func (u *beneath) Read(b []byte) (int, error) {
	if u.c == nil || len(b) == 0 {
		return u.Conn.Read(b)
	}
	defer func() { u.b, u.fresh = nil, false }()
	u.b, u.n, u.err = b, 0, nil
	for {
		err := u.raw.Read(u.turn)
		switch {
		case err == nil && u.n == 0 && u.err == nil: // a part of the record: the rest may have to wait
			u.mu.Lock()
			u.werr = u.flush()
			u.mu.Unlock()
		case err == nil:
			return u.n, u.err
		case !u.c.early(err):
			return 0, err
		}
	}
}

// next is called at once, and each time there may be something to read.
func (u *beneath) next(fd uintptr) bool {
	if again, done := u.first(fd); done {
		return !again
	}
	for {
		n, err := read(fd, u.b)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // straight from the kernel
			continue
		case err == syscall.EAGAIN: //nolint:errorlint // straight from the kernel
			return false
		case err != nil:
			u.err = err
			if u.werr != nil {
				u.err = u.werr
			}
		case n == 0:
			u.err = io.EOF
		default:
			u.n = n
		}
		return true
	}
}

// first writes what is held back: with that the call is done, and is to come again when there
// is something to read, or not.
func (u *beneath) first(fd uintptr) (again, done bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.out) == 0 {
		return false, false
	}
	n, err := write(fd, u.out)
	if err == syscall.EAGAIN || err == syscall.EINTR { //nolint:errorlint // straight from the kernel
		return false, true
	}
	if err != nil {
		u.werr, u.out = err, u.out[:0] // an answer may have come before
		return false, false
	}
	u.out = append(u.out[:0], u.out[n:]...)
	if len(u.out) > 0 {
		return false, true
	}
	u.took = time.Since(u.c.begin)
	again = u.fresh
	u.fresh = false
	return again, again
}

// Close implements net.Conn. The last word of TLS is written if there is room for it.
func (u *beneath) Close() error {
	if u.mu.TryLock() {
		if len(u.last) > 0 && len(u.out) == 0 {
			_ = u.raw.Write(func(fd uintptr) bool { _, _ = write(fd, u.last); return true }) // nobody waits for it
		}
		u.mu.Unlock()
	}
	return u.Conn.Close()
}
