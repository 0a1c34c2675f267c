package simnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/pipe"
)

// window is how many bytes one direction of a stream holds; a writer that
// finds it full waits.
const window = 64 << 10

// retransmit is what a lost segment of a stream costs.
const retransmit = 200 * time.Millisecond

// Conn is one end of a stream.
type Conn struct {
	host          *Host
	local, remote netip.AddrPort
	in, out       *half
	closeOnce     sync.Once
	readBy        pipe.Deadline
	writeBy       pipe.Deadline
}

var _ net.Conn = (*Conn)(nil)

// half is one direction of a stream.
type half struct {
	net  *Network
	path pair

	mu       sync.Mutex
	segments []segment
	size     int
	number   uint64
	fin      bool  // the writer closed; set after its last segment
	finAt    int64 // when the reader may learn it
	broken   error // reset: both ends fail
	silent   bool  // the writer's host crashed: nothing more arrives
	changed  chan struct{}
}

type segment struct {
	at   int64 // UnixNano of arrival
	data []byte
}

func newHalf(n *Network, p pair) *half {
	return &half{net: n, path: p, changed: make(chan struct{})}
}

func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked()
}

func (h *half) wakeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// link returns the quality of the way. It takes the network's lock, which
// comes before a half's.
func (h *half) link() Link {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.net.linkLocked(h.path)
}

// arrivalLocked returns when a segment sent now gets there.
func (h *half) arrivalLocked(l Link) int64 {
	h.number++
	d := l.Delay + time.Duration(h.net.chance(h.path, h.number, 's')*float64(l.Jitter))
	if h.net.chance(h.path, h.number, 'r') < l.Loss {
		d += retransmit
	}
	at := time.Now().Add(d).UnixNano()
	if k := len(h.segments); k > 0 {
		at = max(at, h.segments[k-1].at)
	}
	return at
}

func (h *half) open() bool {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return !h.net.cut[h.path]
}

// take copies what has arrived; otherwise it says when to look again.
func (h *half) take(b []byte) (n int, wait time.Duration, changed chan struct{}, err error) {
	open := h.open()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return 0, 0, nil, h.broken
	}
	wait = time.Hour
	if !open {
		return 0, wait, h.changed, nil
	}
	now := time.Now().UnixNano()
	for len(h.segments) > 0 && h.segments[0].at <= now && n < len(b) {
		s := &h.segments[0]
		k := copy(b[n:], s.data)
		n += k
		s.data = s.data[k:]
		if len(s.data) == 0 {
			h.segments = h.segments[1:]
		}
	}
	switch {
	case n > 0:
		h.size -= n
		h.wakeLocked()
		return n, 0, nil, nil
	case len(h.segments) > 0:
		wait = time.Duration(h.segments[0].at - now)
	case h.fin && h.finAt <= now:
		return 0, 0, nil, io.EOF
	case h.fin:
		wait = time.Duration(h.finAt - now)
	}
	return 0, wait, h.changed, nil
}

// Read waits for bytes that have arrived.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		select {
		case <-c.readBy.Passed():
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		default:
		}
		if len(b) == 0 {
			return 0, nil
		}
		n, wait, changed, err := c.in.take(b)
		if err != nil {
			return n, c.fail("read", err)
		}
		if n > 0 {
			return n, nil
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-changed:
		case <-c.readBy.Passed():
		}
		t.Stop()
	}
}

// Write waits while the window is full.
func (c *Conn) Write(b []byte) (int, error) {
	h, done := c.out, 0
	for {
		select {
		case <-c.writeBy.Passed():
			return done, c.fail("write", os.ErrDeadlineExceeded)
		default:
		}
		if c.gone() {
			c.reset()
		}
		link := h.link()
		h.mu.Lock()
		if h.broken != nil || h.fin {
			err := h.broken
			h.mu.Unlock()
			if err == nil {
				err = net.ErrClosed
			}
			return done, c.fail("write", err)
		}
		if h.silent {
			h.mu.Unlock()
			return done, c.fail("write", syscall.ENETDOWN)
		}
		if room := window - h.size; room > 0 && len(b) > 0 {
			k := min(room, len(b))
			h.segments = append(h.segments, segment{at: h.arrivalLocked(link), data: append([]byte(nil), b[:k]...)})
			h.size += k
			done, b = done+k, b[k:]
			h.wakeLocked()
		}
		changed := h.changed
		h.mu.Unlock()
		if len(b) == 0 {
			return done, nil
		}
		select {
		case <-changed:
		case <-c.writeBy.Passed():
		}
	}
}

// gone reports that the other host crashed and is up again: it answers with a
// reset.
func (c *Conn) gone() bool {
	c.in.mu.Lock()
	silent := c.in.silent
	c.in.mu.Unlock()
	if !silent {
		return false
	}
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.upLocked(c.out.path)
}

func (c *Conn) reset() {
	for _, h := range []*half{c.in, c.out} {
		h.mu.Lock()
		if h.broken == nil {
			h.broken = syscall.ECONNRESET
		}
		h.wakeLocked()
		h.mu.Unlock()
	}
}

// vanishLocked ends c as a power cut does; net.mu is held.
func (c *Conn) vanishLocked() {
	c.out.mu.Lock()
	c.out.silent = true
	c.out.mu.Unlock()
	c.in.mu.Lock()
	c.in.broken = syscall.ENETDOWN
	c.in.wakeLocked()
	c.in.mu.Unlock()
	delete(c.host.net.halves, c.in)
}

// Close ends this end; the other reads what was written, then io.EOF.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		link := c.out.link()
		c.out.mu.Lock()
		if !c.out.silent {
			c.out.finAt = c.out.arrivalLocked(link)
			c.out.fin = true
		}
		c.out.wakeLocked()
		c.out.mu.Unlock()
		c.in.mu.Lock()
		if c.in.broken == nil {
			c.in.broken = net.ErrClosed
		}
		c.in.wakeLocked()
		c.in.mu.Unlock()
		n := c.host.net
		n.mu.Lock()
		delete(c.host.conns, c)
		delete(n.halves, c.in)
		n.mu.Unlock()
	})
	return nil
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr returns the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline bounds present and later reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readBy.Set(t)
	c.writeBy.Set(t)
	return nil
}

// SetReadDeadline bounds present and later reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy.Set(t)
	return nil
}

// SetWriteDeadline bounds present and later writes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.Set(t)
	return nil
}

func (c *Conn) fail(op string, err error) error {
	if err == io.EOF { //nolint:errorlint // made here, never wrapped
		return io.EOF
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
