package coord

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// localWindow is how many bytes one direction of a stream to oneself holds; a
// writer that finds it full waits.
const localWindow = 256 << 10

// localPair returns the two ends of a buffered stream inside the process: a
// host's stream to itself, which needs no mesh and no TLS.
func localPair(addr net.Addr) (a, b net.Conn) {
	x, y := newLocalHalf(), newLocalHalf()
	return &localConn{in: x, out: y, addr: addr}, &localConn{in: y, out: x, addr: addr}
}

type localConn struct {
	in, out         *localHalf
	addr            net.Addr
	readBy, writeBy localDeadline
}

// localHalf is one direction.
type localHalf struct {
	mu      sync.Mutex
	buf     []byte
	fin     bool          // the writer closed: io.EOF after buf
	gone    bool          // the reader closed: writing fails
	changed chan struct{} // closed and replaced with every change
}

func newLocalHalf() *localHalf { return &localHalf{changed: make(chan struct{})} }

func (h *localHalf) wakeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (c *localConn) Read(b []byte) (int, error) {
	h := c.in
	for {
		passed := c.readBy.wait()
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

func (c *localConn) Write(b []byte) (int, error) {
	h, done := c.out, 0
	for {
		passed := c.writeBy.wait()
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
		if n := min(localWindow-len(h.buf), len(b)); n > 0 {
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

func (c *localConn) Close() error {
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

func (c *localConn) LocalAddr() net.Addr  { return c.addr }
func (c *localConn) RemoteAddr() net.Addr { return c.addr }

func (c *localConn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

func (c *localConn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return nil
}

func (c *localConn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return nil
}

func (c *localConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "local", Addr: c.addr, Err: err}
}

// localDeadline is a time that can be moved while others wait for it: a wait
// begun before the move ends with the old time and begins anew.
type localDeadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{} // closed when the time has come
}

func (d *localDeadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	return d.ch
}

func (d *localDeadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.ch // the timer is about to close it
	}
	d.timer = nil
	passed := false
	select {
	case <-d.ch:
		passed = true
	default:
	}
	if d.ch == nil || passed {
		d.ch = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		ch := d.ch
		d.timer = time.AfterFunc(left, func() { close(ch) })
		return
	}
	close(d.ch)
}
