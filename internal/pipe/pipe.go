package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes one direction of a stream holds; a
// writer that finds it full waits.
const window = 256 << 10

// Pair returns the two ends of a buffered stream inside the process. Each names
// addr as its own address and as the other's.
func Pair(addr net.Addr) (a, b net.Conn) {
	x, y := newHalf(), newHalf()
	return &conn{in: x, out: y, addr: addr}, &conn{in: y, out: x, addr: addr}
}

type conn struct {
	in, out         *half
	addr            net.Addr
	readBy, writeBy Deadline
}

// half is one direction.
type half struct {
	mu      sync.Mutex
	buf     []byte
	fin     bool          // the writer closed: io.EOF after buf
	gone    bool          // the reader closed: writing fails
	changed chan struct{} // closed and replaced with every change
}

func newHalf() *half { return &half{changed: make(chan struct{})} }

func (h *half) wakeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (c *conn) Read(b []byte) (int, error) {
	h := c.in
	for {
		passed := c.readBy.Passed()
		select {
		case <-passed:
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		default:
		}
		h.mu.Lock()
		n := copy(b, h.buf)
		h.buf = h.buf[n:]
		fin, gone, changed := h.fin, h.gone, h.changed
		if n > 0 {
			h.wakeLocked()
		}
		h.mu.Unlock()
		switch {
		case gone:
			return 0, c.fail("read", net.ErrClosed)
		case n > 0 || len(b) == 0:
			return n, nil
		case fin:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-passed:
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	h, done := c.out, 0
	for {
		passed := c.writeBy.Passed()
		select {
		case <-passed:
			return done, c.fail("write", os.ErrDeadlineExceeded)
		default:
		}
		h.mu.Lock()
		if h.fin || h.gone {
			h.mu.Unlock()
			return done, c.fail("write", net.ErrClosed)
		}
		if n := min(window-len(h.buf), len(b)); n > 0 {
			h.buf = append(h.buf, b[:n]...)
			done, b = done+n, b[n:]
			h.wakeLocked()
		}
		changed := h.changed
		h.mu.Unlock()
		if len(b) == 0 {
			return done, nil
		}
		select {
		case <-changed:
		case <-passed:
		}
	}
}

func (c *conn) Close() error {
	c.out.mu.Lock()
	c.out.fin = true
	c.out.wakeLocked()
	c.out.mu.Unlock()
	c.in.mu.Lock()
	c.in.gone = true
	c.in.wakeLocked()
	c.in.mu.Unlock()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.addr }
func (c *conn) RemoteAddr() net.Addr { return c.addr }

func (c *conn) SetDeadline(t time.Time) error {
	c.readBy.Set(t)
	c.writeBy.Set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.Set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.Set(t)
	return nil
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "local", Addr: c.addr, Err: err}
}
