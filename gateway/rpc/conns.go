package rpc

import (
	"sync"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// conns is which session was begun over which connection. Its methods may be called from any
// goroutine; a connection may be "", of which nothing is known.
type conns struct {
	mu    sync.Mutex
	begun map[string]begun   // by connection: the latest
	at    map[session]string // the same by session
	anew  map[string]bool    // connections over which one is being begun
}

// session names a session of a worker.
type session struct {
	worker cluster.NodeID
	number uint64
}

type begun struct {
	session
	seat desk.Seat
}

func newConns() conns {
	return conns{begun: map[string]begun{}, at: map[session]string{}, anew: map[string]bool{}}
}

// begin notes that a session is being begun over a connection, until the func that it
// returns is called. What was begun there before may end by it.
func (c *conns) begin(conn string) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn != "" {
		c.anew[conn] = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.anew, conn)
	}
}

// put notes a session that was begun over a connection, in place of the one before.
func (c *conns) put(conn string, s session, seat desk.Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn == "" {
		return
	}
	delete(c.at, c.begun[conn].session)
	c.begun[conn], c.at[s] = begun{s, seat}, conn
}

// of is the connection that is a session's alone: it was begun there, and none after it.
func (c *conns) of(s session) (conn string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, ok = c.at[s]
	return conn, ok && !c.anew[conn]
}

// over forgets a session that has ended.
func (c *conns) over(s session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.at[s]; ok {
		delete(c.at, s)
		delete(c.begun, conn)
	}
}

// gone forgets a connection, and returns what was begun over it; nil: nothing.
func (c *conns) gone(conn string) desk.Seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.begun[conn]
	if !ok {
		return nil
	}
	delete(c.begun, conn)
	delete(c.at, b.session)
	return b.seat
}

// len is how many connections have a session.
func (c *conns) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.begun)
}

// final is why the connection ends of whose session has ended; nil: it may begin another.
func final(p desk.Push) *api.Disconnect {
	switch {
	case p.Kind != desk.PushGone:
	case p.Reason == stream.DropReplaced:
		return &api.Disconnect{Code: api.DisconnectReplaced, Reason: "replaced: another connection works as this worker"}
	case p.Reason == stream.DropRevoked:
		return &api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"}
	}
	return nil
}
