package door

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/coord/join/token"
)

// doorTake bounds how long a stream of Proto may take to name its invite, and to be
// accepted.
const doorTake = 10 * time.Second

// Serve serves a stream of Proto, from another member or from this host. It
// returns when the join is over.
func (l *passedOn) Serve(ctx context.Context, conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(doorTake)) != nil {
		return
	}
	var invite [token.IDLen]byte
	if _, err := io.ReadFull(conn, invite[:]); err != nil {
		return
	}
	if !token.Valid(string(invite[:])) || l.knows == nil || !l.knows(string(invite[:])) {
		return // closing says no
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return
	}
	if conn.SetDeadline(time.Time{}) != nil {
		return
	}
	p := &passedConn{Conn: conn, over: make(chan struct{})}
	take, cancel := context.WithTimeout(ctx, doorTake)
	defer cancel()
	if !l.put(take, p) {
		return
	}
	select {
	case <-p.over:
	case <-ctx.Done():
	}
}

// passedOn accepts what Serve takes. Its queue has no room: Serve waits until
// somebody accepts.
type passedOn struct {
	addr   net.Addr
	knows  func(invite string) bool // optional: none is known
	conns  chan net.Conn            // never closed
	closed chan struct{}
	once   sync.Once
}

// newPassedOn returns that of a host that has the invites that knows reports.
func newPassedOn(addr net.Addr, knows func(invite string) bool) *passedOn {
	return &passedOn{addr: addr, knows: knows, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *passedOn) put(ctx context.Context, c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (l *passedOn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *passedOn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *passedOn) Addr() net.Addr { return l.addr }

// passedConn is a join that another host passed on. Where it comes from nobody
// knows, which is how its rate is counted.
type passedConn struct {
	net.Conn
	over chan struct{} // closed by Close
	once sync.Once
}

// Close implements net.Conn.
func (c *passedConn) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn.
func (c *passedConn) RemoteAddr() net.Addr { return nowhere{} }

type nowhere struct{}

// Network implements net.Addr.
func (nowhere) Network() string { return "onion" }

func (nowhere) String() string { return "onion" }
