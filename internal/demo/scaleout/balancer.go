package scaleout

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// dialTime bounds how long a gateway is waited for before the next one is asked.
const dialTime = 2 * time.Second

// balancer is one address for several gateways: each connection goes to the next one that
// answers. It looks at nothing that passes, and comes from the address that the client has.
type balancer struct {
	l   net.Listener
	to  []string // addresses of the gateways
	all sync.WaitGroup

	mu   sync.Mutex
	next int
	open map[net.Conn]bool // both ends of all connections; nil: it is closed
	of   map[string]int    // how many connections each gateway has
}

// newBalancer listens at an address.
func newBalancer(ctx context.Context, at string, to []string) (*balancer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", at)
	if err != nil {
		return nil, err
	}
	b := &balancer{l: l, to: to, open: map[net.Conn]bool{}, of: map[string]int{}}
	b.all.Go(b.accept)
	return b, nil
}

// close ends all connections, and waits for that.
func (b *balancer) close() {
	_ = b.l.Close() // once
	b.mu.Lock()
	for c := range b.open {
		_ = c.Close()
	}
	b.open = nil
	b.mu.Unlock()
	b.all.Wait()
}

func (b *balancer) accept() {
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
func (b *balancer) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		_ = c.Close()
		return false
	}
	b.open[c] = true
	return true
}

func (b *balancer) end(c net.Conn) {
	_ = c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

func (b *balancer) serve(client net.Conn) {
	if !b.keep(client) {
		return
	}
	defer b.end(client)
	gateway := b.dial(client.RemoteAddr())
	if gateway == nil || !b.keep(gateway) {
		return
	}
	defer b.end(gateway)
	b.count(gateway, 1)
	defer b.count(gateway, -1)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, gateway}, {gateway, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // how it ends does not matter
			_ = client.Close()
			_ = gateway.Close()
		})
	}
	both.Wait()
}

func (b *balancer) count(gateway net.Conn, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[gateway.RemoteAddr().String()] += n
}

// has is how many connections a gateway has.
func (b *balancer) has(gateway string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[gateway]
}

// dial connects to the next gateway that answers; nil: none does.
func (b *balancer) dial(client net.Addr) net.Conn {
	b.mu.Lock()
	first := b.next
	b.next++
	b.mu.Unlock()
	d := net.Dialer{Timeout: dialTime}
	if from, ok := client.(*net.TCPAddr); ok {
		d.LocalAddr = &net.TCPAddr{IP: from.IP}
	}
	for i := range b.to {
		if c, err := d.Dial("tcp4", b.to[(first+i)%len(b.to)]); err == nil { //nolint:noctx // Timeout bounds it
			return c
		}
	}
	return nil
}
