package h1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/skein-project/skein/load"
)

// Bounds of what is taken.
const (
	MaxHead    = 64 << 10 // bytes of status line and fields
	MaxFields  = 256
	MaxInterim = 8        // answers of status 1xx before the answer
	MaxBody    = 16 << 20 // bytes that are kept
	maxLine    = 256      // bytes of the line before a chunk
	maxTrailer = 8 << 10

	firstBuffer = 4 << 10
	bodyStep    = 32 << 10
)

// Error is how a request failed.
type Error struct {
	Class load.Class
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of what a connection reports.
func ClassOf(err error) load.Class {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.Class
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe):
		return load.Interrupted // by whoever owns the connection
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return load.Timeout
	case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return load.Reset
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return load.EOF
	}
	return load.Reset
}

func protocol(format string, args ...any) error {
	return &Error{load.Protocol, fmt.Errorf(format, args...)}
}

// Times are those of the parts of a request.
type Times struct {
	Send      time.Duration // until all of it was written
	FirstByte time.Duration // from then to the first bytes of the answer
	Receive   time.Duration // from then to the last; 0: they came with the first
	End       time.Time     // when those came
}

// Request is what is sent.
type Request struct {
	Bytes    []byte // whole, head and body
	Head     bool   // method HEAD: the answer has no body
	KeepBody bool   // else it is read and counted only
	Deadline time.Time
}

// Conn is one connection.
type Conn struct {
	net.Conn
	buf    []byte
	r, w   int
	born   time.Time
	begin  time.Time     // of the request that is under way
	heard  time.Duration // after it: when bytes came last
	last   time.Time     // when the last answer ended
	socket *socket       // nil: TLS, or no connection of the kernel
	under  *beneath      // nil: no TLS, or no connection of the kernel beneath it
	// want is the deadline of the request that is under way, set that of the connection.
	// On a connection of the kernel set may be an earlier one: it is moved when it has
	// passed, not for each request.
	want, set time.Time
}

// NewConn takes over a connection.
func NewConn(c net.Conn) *Conn {
	out := &Conn{Conn: c, buf: make([]byte, firstBuffer), born: time.Now()}
	out.socket, out.under = newSocket(out), beneathOf(out)
	return out
}

// Close implements net.Conn. It may be called while a request is under way.
func (c *Conn) Close() error {
	if c.under != nil {
		c.under.end()
	}
	return c.Conn.Close()
}

// Idle is how long nothing happened on it.
func (c *Conn) Idle(now time.Time) time.Duration {
	if c.last.IsZero() {
		return 0
	}
	return now.Sub(c.last)
}

// until has what is begun now end at a deadline.
func (c *Conn) until(deadline, now time.Time) error {
	c.want = deadline
	if (c.socket != nil || c.under != nil) && now.Before(c.set) && !deadline.Before(c.set) {
		return nil
	}
	c.set = deadline
	return c.SetDeadline(deadline)
}

// early reports that err says only that the deadline passed of an earlier request, and moves
// it.
func (c *Conn) early(err error) bool {
	if !c.set.Before(c.want) || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.set = c.want
	return c.SetDeadline(c.want) == nil
}

// Do sends a request and reads its answer into out. After an error, and if the
// answer is not Reusable, the connection is to be closed.
func (c *Conn) Do(req *Request, out *Response) (t Times, err error) {
	out.reset()
	if c.r != c.w {
		return t, protocol("the target sent %d bytes that nobody asked for", c.w-c.r)
	}
	c.begin = c.born.Add(time.Since(c.born)) // one reading of a clock, where time.Now is two
	if err := c.until(req.Deadline, c.begin); err != nil {
		return t, err
	}
	c.r, c.w = 0, 0
	werr, err := c.open(req.Bytes, &t)
	if err != nil || werr != nil && ClassOf(werr) != load.Reset {
		if werr != nil {
			err = werr
		}
		t.End = c.begin.Add(time.Since(c.begin))
		return t, err
	}
	first := c.heard
	t.FirstByte = first - t.Send
	if err = c.answer(req, out); err != nil {
		c.heard = time.Since(c.begin)
	}
	t.End, t.Receive = c.begin.Add(c.heard), c.heard-first
	c.last = t.End
	if err == nil && werr != nil {
		out.Reusable = false
	}
	return t, err
}

// open writes a request and reads the first bytes of its answer. A target may answer and
// close before it has read all: werr is what went wrong with the write.
func (c *Conn) open(req []byte, t *Times) (werr, err error) {
	if c.socket != nil {
		n, took, err := c.socket.exchange(req)
		t.Send = took
		switch all := n == len(req); {
		case all && c.w > 0:
			return nil, nil
		case all && c.early(err):
			return nil, c.fill()
		case all:
			return nil, err
		case err != nil && !c.early(err):
			werr = err
		default:
			werr = c.put(req[n:])
		}
	} else if c.under != nil {
		c.under.begin()
		if err := c.put(req); err != nil {
			return err, nil
		}
		err := c.fill()
		t.Send = c.under.took
		return c.under.werr, err
	} else {
		werr = c.put(req)
	}
	t.Send = time.Since(c.begin)
	if werr != nil && ClassOf(werr) != load.Reset {
		return werr, nil
	}
	return werr, c.fill()
}

// put writes all of b.
func (c *Conn) put(b []byte) error {
	for {
		n, err := c.Write(b)
		if b = b[n:]; err == nil || !c.early(err) {
			return err
		}
	}
}

// get reads some bytes.
func (c *Conn) get(b []byte) (int, error) {
	for {
		n, err := c.Read(b)
		if n > 0 {
			c.heard = time.Since(c.begin)
			return n, err
		}
		if err == nil || !c.early(err) {
			return n, err
		}
	}
}

// fill reads more, after what is there.
func (c *Conn) fill() error {
	if c.r > 0 {
		copy(c.buf, c.buf[c.r:c.w])
		c.r, c.w = 0, c.w-c.r
	}
	if c.w == len(c.buf) {
		if len(c.buf) >= 2*MaxHead {
			return protocol("more than %d bytes without an end", len(c.buf))
		}
		bigger := make([]byte, 2*len(c.buf))
		copy(bigger, c.buf[:c.w])
		c.buf = bigger
	}
	n, err := c.get(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// answer reads head and body.
func (c *Conn) answer(req *Request, out *Response) error {
	for interim := 0; ; interim++ {
		if err := c.head(out); err != nil {
			return err
		}
		if out.Status >= 200 {
			break
		}
		if out.Status == 101 {
			return protocol("the target changes protocols unasked")
		}
		if interim == MaxInterim {
			return protocol("more than %d interim answers", MaxInterim)
		}
	}
	length, chunked, err := out.framing(req.Head)
	if err != nil {
		return err
	}
	switch {
	case chunked:
		err = c.chunks(req.KeepBody, out)
	case length >= 0:
		err = c.body(length, req.KeepBody, out)
	default:
		err = c.untilClose(req.KeepBody, out)
	}
	if err != nil {
		return err
	}
	if c.r != c.w {
		return protocol("%d bytes behind the answer", c.w-c.r)
	}
	return nil
}

// head reads one head into out.
func (c *Conn) head(out *Response) error {
	for seen := 0; ; {
		n, whole := headEnd(c.buf[c.r:c.w], seen)
		if n > MaxHead || !whole && c.w-c.r > MaxHead {
			return protocol("the head of the answer has more than %d bytes", MaxHead)
		}
		if whole {
			out.head = append(out.head[:0], c.buf[c.r:c.r+n]...)
			c.r += n
			return out.parse()
		}
		seen = n
		if err := c.fill(); err != nil {
			if got := c.buf[c.r:c.w]; errors.Is(err, io.EOF) && !bytes.HasPrefix(got, begins[:min(len(got), len(begins))]) {
				return protocol("%.40q is no HTTP/1", got)
			}
			return unexpected(err)
		}
	}
}

var begins = []byte("HTTP/1.")

// headEnd looks for the empty line with which the head ends that b begins with, from the
// line on that begins at seen. It returns where the head ends, or if it is not whole, where
// its last line begins.
func headEnd(b []byte, seen int) (n int, whole bool) {
	for {
		i := bytes.IndexByte(b[seen:], '\n')
		if i < 0 {
			return seen, false
		}
		line := seen
		if seen += i + 1; i == 0 || i == 1 && b[line] == '\r' {
			return seen, true
		}
	}
}

// unexpected: an end in the midst of an answer.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// body reads so many bytes.
func (c *Conn) body(n int64, keep bool, out *Response) error {
	if keep && out.Size+n > MaxBody {
		return &Error{load.TooLarge, fmt.Errorf("the body has more than %d bytes", MaxBody)}
	}
	for n > 0 {
		if c.r == c.w {
			if keep && n > int64(len(c.buf)) {
				m, err := c.direct(n, out)
				n -= int64(m)
				if err != nil {
					return unexpected(err)
				}
				continue
			}
			c.r, c.w = 0, 0
			if err := c.fill(); err != nil {
				return unexpected(err)
			}
		}
		n -= int64(c.take(n, keep, out))
	}
	return nil
}

// take moves at most n bytes of what is read into the body.
func (c *Conn) take(n int64, keep bool, out *Response) int {
	m := int(min(n, int64(c.w-c.r)))
	if keep {
		out.Body = append(out.Body, c.buf[c.r:c.r+m]...)
	}
	out.Size += int64(m)
	c.r += m
	return m
}

// direct reads into the body without a copy. Room is made as bytes come: a length
// that a target says is only its word.
func (c *Conn) direct(n int64, out *Response) (int, error) {
	have := len(out.Body)
	want := int(min(n, bodyStep))
	if cap(out.Body)-have < want {
		out.Body = append(out.Body, make([]byte, want)...)[:have]
	}
	m, err := c.get(out.Body[have : have+want])
	out.Body = out.Body[:have+m]
	out.Size += int64(m)
	if m > 0 {
		return m, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

func (c *Conn) untilClose(keep bool, out *Response) error {
	out.Reusable = false
	for {
		if keep && out.Size+int64(c.w-c.r) > MaxBody {
			return &Error{load.TooLarge, fmt.Errorf("the body has more than %d bytes", MaxBody)}
		}
		c.take(int64(c.w-c.r), keep, out)
		c.r, c.w = 0, 0
		if err := c.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (c *Conn) chunks(keep bool, out *Response) error {
	for {
		line, err := c.line(maxLine)
		if err != nil {
			return err
		}
		n, err := chunkLength(line)
		if err != nil {
			return err
		}
		if n == 0 {
			return c.trailer()
		}
		if err := c.body(n, keep, out); err != nil {
			return err
		}
		if line, err = c.line(2); err != nil {
			return err
		}
		if len(line) > 0 {
			return protocol("a chunk is longer than it says")
		}
	}
}

// line takes a line without its end, which is CR LF.
func (c *Conn) line(most int) ([]byte, error) {
	for {
		i := bytes.IndexByte(c.buf[c.r:c.w], '\n')
		if i < 0 && c.w-c.r > most || i > most+1 {
			return nil, protocol("a line of a chunk has more than %d bytes", most)
		}
		if i >= 0 {
			line := c.buf[c.r : c.r+i]
			c.r += i + 1
			if n := len(line); n == 0 || line[n-1] != '\r' {
				return nil, protocol("a line of a chunk does not end in CR LF")
			}
			return line[:len(line)-1], nil
		}
		if err := c.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// chunkLength reads the line before a chunk. Extensions are passed over.
func chunkLength(line []byte) (int64, error) {
	n, digits := int64(0), 0
loop:
	for _, ch := range line {
		d := int64(-1)
		switch {
		case ch >= '0' && ch <= '9':
			d = int64(ch - '0')
		case ch >= 'a' && ch <= 'f':
			d = int64(ch-'a') + 10
		case ch >= 'A' && ch <= 'F':
			d = int64(ch-'A') + 10
		}
		if d < 0 {
			break loop
		}
		n, digits = n<<4|d, digits+1
		if digits > 15 {
			return 0, protocol("a chunk has more than 15 digits of length")
		}
	}
	rest := trimBlanks(line[digits:])
	if digits == 0 || len(rest) > 0 && rest[0] != ';' {
		return 0, protocol("%.40q is no length of a chunk", line)
	}
	for _, ch := range rest {
		if ch < ' ' && ch != '\t' || ch == 0x7f {
			return 0, protocol("a control character in the line of a chunk")
		}
	}
	return n, nil
}

// trailer passes over the fields behind the last chunk.
func (c *Conn) trailer() error {
	for size := 0; ; {
		line, err := c.line(maxTrailer)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		if size += len(line); size > maxTrailer {
			return protocol("the fields behind the body have more than %d bytes", maxTrailer)
		}
		if _, _, err := splitField(line); err != nil {
			return err
		}
	}
}
