package cut

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Line stands between a TCP server and its clients, and cuts them off: connections break, or
// stay open while nothing passes.
type Line struct {
	to string
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex // for what follows
	conns  map[net.Conn]struct{}
	broken bool
	stop   [2]chan struct{} // by Way: closed while it passes
	closed chan struct{}    // by Close
}

// Way is a direction of a Line.
type Way int

// Ways.
const (
	ToServer Way = iota
	ToClient
)

// dialTime bounds the way to the server.
const dialTime = 10 * time.Second

// NewLine opens an address of this machine, from where everything goes to the server at to.
func NewLine(to string) (*Line, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("address before %s: %w", to, err)
	}
	c := &Line{to: to, l: l, conns: map[net.Conn]struct{}{}, closed: make(chan struct{})}
	for way := range c.stop {
		c.stop[way] = passing()
	}
	c.wg.Go(c.accept)
	return c, nil
}

func passing() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Addr is where clients connect.
func (c *Line) Addr() string { return c.l.Addr().String() }

// Break ends all connections, and each new one, until Mend.
func (c *Line) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	for conn := range c.conns {
		_ = conn.Close() // it may be closed
	}
}

// Stall lets nothing pass in these ways until Mend, as a firewall that has forgotten a
// connection: what is sent is not lost, but late.
func (c *Line) Stall(ways ...Way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, way := range ways {
		select {
		case <-c.stop[way]:
			c.stop[way] = make(chan struct{})
		default: // it is
		}
	}
}

// Mend lets everything pass.
func (c *Line) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = false
	for way := range c.stop {
		select {
		case <-c.stop[way]:
		default:
			close(c.stop[way])
		}
	}
}

// Close ends everything that passes.
func (c *Line) Close() {
	_ = c.l.Close()
	c.Break()
	close(c.closed)
	c.wg.Wait()
}

func (c *Line) accept() {
	for {
		client, err := c.l.Accept()
		if err != nil {
			return // closed
		}
		if !c.keep(client) {
			continue
		}
		c.wg.Go(func() { c.carry(client) })
	}
}

// keep takes a connection among those that Break ends; it is closed if they are.
func (c *Line) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		_ = conn.Close() // that is what is wanted
		return false
	}
	c.conns[conn] = struct{}{}
	return true
}

func (c *Line) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	_ = conn.Close() // it may be closed
}

func (c *Line) carry(client net.Conn) {
	defer c.drop(client)
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp4", c.to)
	if err != nil || !c.keep(server) {
		return // the server is down, or the line was broken
	}
	var both sync.WaitGroup
	both.Go(func() { c.copy(server, client, ToServer) })
	both.Go(func() { c.copy(client, server, ToClient) })
	both.Wait()
	c.drop(server)
}

// copy hands on what comes, until one side ends: then so does the other.
func (c *Line) copy(to, from net.Conn, way Way) {
	defer c.drop(to)
	defer c.drop(from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		passes := c.stop[way]
		c.mu.Unlock()
		select {
		case <-passes:
		case <-c.closed:
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
