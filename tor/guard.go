package tor

import (
	"fmt"
	"net"
	"sync/atomic"
)

// guard watches both directions of a control connection below bine, which
// reads lines and replies of any length and spins when a reply arrives that
// nobody asked for. It breaks the connection instead. Reads and writes each
// belong to one goroutine at a time.
type guard struct {
	net.Conn
	in, out lineScan
	limit   int          // of a reply, in bytes
	reply   int          // bytes of the reply being read
	fresh   bool         // the next line in begins a reply
	asked   atomic.Int32 // commands sent whose reply has not begun to end
}

func newGuard(c net.Conn) *guard { return &guard{Conn: c, limit: maxReply, fresh: true} }

// lineScan follows lines and dot-ended bodies in a byte stream.
type lineScan struct {
	head [6]byte // the line's first bytes
	n    int     // bytes of the line so far
	body bool    // inside a dot-ended body
}

// next takes one byte and says whether it ended a line; the line's head and
// length stay readable until the next call of reset.
func (l *lineScan) next(b byte) (ended bool) {
	if l.n < len(l.head) {
		l.head[l.n] = b
	}
	l.n++
	return b == '\n'
}

func (l *lineScan) reset() { l.n = 0 }

// dot reports whether the ended line is a single dot.
func (l *lineScan) dot() bool {
	return l.head[0] == '.' && (l.n == 2 || l.n == 3 && l.head[1] == '\r')
}

// Read passes on what keeps to the protocol.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	for _, b := range p[:n] {
		if e := g.take(b); e != nil {
			return 0, e
		}
	}
	return n, err
}

func (g *guard) take(b byte) error {
	if g.reply++; g.reply > g.limit {
		return fmt.Errorf("%w: a reply of more than %d bytes", ErrProtocol, g.limit)
	}
	ended := g.in.next(b)
	if g.in.n > maxLine {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxLine)
	}
	// bine looks at three bytes before it knows whether to wait for a line.
	if g.fresh && g.in.n == 3 && !g.in.body {
		g.fresh = false
		if string(g.in.head[:3]) != "650" && g.asked.Load() == 0 {
			return fmt.Errorf("%w: a reply to no command", ErrProtocol)
		}
	}
	if !ended {
		return nil
	}
	defer g.in.reset()
	if g.in.body {
		g.in.body = !g.in.dot()
		return nil
	}
	if g.in.n < 5 {
		return fmt.Errorf("%w: a line without a code", ErrProtocol)
	}
	switch g.in.head[3] {
	case '+':
		g.in.body = true
	case '-':
	case ' ':
		g.reply, g.fresh = 0, true
		if string(g.in.head[:3]) != "650" {
			g.asked.Add(-1)
		}
	default:
		return fmt.Errorf("%w: a line without a code", ErrProtocol)
	}
	return nil
}

// Write counts the commands in what is sent.
func (g *guard) Write(p []byte) (int, error) {
	for _, b := range p {
		if g.out.n == 0 && !g.out.body {
			g.asked.Add(1)
		}
		if !g.out.next(b) {
			continue
		}
		if g.out.body {
			g.out.body = !g.out.dot()
		} else {
			g.out.body = g.out.head[0] == '+'
		}
		g.out.reset()
	}
	return g.Conn.Write(p)
}
