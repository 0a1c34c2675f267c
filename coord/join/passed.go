package join

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
)

// doorTake bounds how long a stream of a door may take to say whose it is, and
// to be accepted.
const doorTake = 10 * time.Second

// ServeDoor serves a stream of ProtoDoor, from another member or from this
// host. It returns when the join is over.
func (s *Server) ServeDoor(ctx context.Context, _ cluster.NodeID, conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(doorTake)) != nil {
		return
	}
	var invite [inviteIDLen]byte
	if _, err := io.ReadFull(conn, invite[:]); err != nil {
		return
	}
	if !validInviteID(string(invite[:])) || s.knows == nil || !s.knows(string(invite[:])) {
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
	if !s.doors.put(take, p) {
		return
	}
	select {
	case <-p.over:
	case <-ctx.Done():
	}
}

// doorListener accepts what ServeDoor takes. Its queue has no room: who puts
// waits until somebody accepts.
type doorListener struct {
	addr   net.Addr
	conns  chan net.Conn // never closed
	closed chan struct{}
	once   sync.Once
}

func newDoorListener(addr net.Addr) *doorListener {
	return &doorListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *doorListener) put(ctx context.Context, c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (l *doorListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *doorListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *doorListener) Addr() net.Addr { return l.addr }

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
