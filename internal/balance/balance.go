package balance

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// dialTime bounds how long a server is waited for before the next one is asked.
const dialTime = 2 * time.Second

// Balancer is one address for several servers. It looks at nothing that passes.
type Balancer struct {
	l   net.Listener
	all sync.WaitGroup

	mu   sync.Mutex // for what follows
	to   []string   // addresses of the servers
	only string     // one of them, which gets all; empty: none does
	next int
	open map[net.Conn]bool // both ends of all connections; nil: it is closed
	of   map[string]int    // how many connections each server has
}

// Open listens at an address. Close must follow.
func Open(ctx context.Context, at string, to ...string) (*Balancer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", at)
	if err != nil {
		return nil, err
	}
	b := &Balancer{l: l, to: to, open: map[net.Conn]bool{}, of: map[string]int{}}
	b.all.Go(b.accept)
	return b, nil
}

// Addr is where clients connect.
func (b *Balancer) Addr() string { return b.l.Addr().String() }

// Over spreads new connections over these addresses.
func (b *Balancer) Over(to []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = slices.Clone(to)
}

// Only has all new connections go to one server, of an address; "": to all in turn.
func (b *Balancer) Only(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.only = addr
}

// Close ends all connections, and waits for that. Another Close does nothing.
func (b *Balancer) Close() {
	_ = b.l.Close() // once
	b.mu.Lock()
	for c := range b.open {
		_ = c.Close()
	}
	b.open = nil
	b.mu.Unlock()
	b.all.Wait()
}

func (b *Balancer) accept() {
	for {
		c, err := b.l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			b.all.Go(func() { b.serve(c) })
		}
	}
}

// keep notes a connection; false: the balancer is closed.
func (b *Balancer) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		_ = c.Close()
		return false
	}
	b.open[c] = true
	return true
}

func (b *Balancer) end(c net.Conn) {
	_ = c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

func (b *Balancer) serve(client net.Conn) {
	if !b.keep(client) {
		return
	}
	defer b.end(client)
	server := b.dial(client.RemoteAddr())
	if server == nil || !b.keep(server) {
		return
	}
	defer b.end(server)
	b.count(server, 1)
	defer b.count(server, -1)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // how it ends does not matter
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
}

func (b *Balancer) count(server net.Conn, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[server.RemoteAddr().String()] += n
}

// Has is how many connections a server has.
func (b *Balancer) Has(addr string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[addr]
}

// order are the addresses to try for a connection.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.only != "" || len(b.to) == 0 {
		return []string{b.only}
	}
	first := b.next % len(b.to)
	b.next++
	return slices.Concat(b.to[first:], b.to[:first])
}

// dial connects to the next server that answers; nil: none does.
func (b *Balancer) dial(client net.Addr) net.Conn {
	d := net.Dialer{Timeout: dialTime}
	if from, ok := client.(*net.TCPAddr); ok {
		d.LocalAddr = &net.TCPAddr{IP: from.IP}
	}
	for _, addr := range b.order() {
		if c, err := d.Dial("tcp4", addr); err == nil { //nolint:noctx // Timeout bounds it
			return c
		}
	}
	return nil
}
