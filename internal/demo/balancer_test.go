package demo

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// balancer spreads connections over gateways, in turn, past those that do not answer; or has
// all go to one.
type balancer struct {
	url string

	mu    sync.Mutex
	to    []string // addresses
	only  string   // of to; "": all
	turn  int
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

func startBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{url: "http://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	b.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.all.Go(func() { b.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.cut()
		b.all.Wait()
	})
	return b
}

// over spreads new connections over these addresses.
func (b *balancer) over(to []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = slices.Clone(to)
}

// send has all new connections go to one gateway, of an address; "": to all in turn.
func (b *balancer) send(only string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.only = only
}

func (b *balancer) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Close()
	}
}

// next are the addresses to try for a connection, in this order.
func (b *balancer) next() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.only != "" {
		return []string{b.only}
	}
	b.turn++
	at := b.turn % len(b.to)
	return append(append([]string{}, b.to[at:]...), b.to[:at]...)
}

func (b *balancer) carry(from net.Conn) {
	defer from.Close()
	for _, addr := range b.next() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		to, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		cancel()
		if err != nil {
			continue
		}
		defer to.Close()
		b.mu.Lock()
		b.conns[from], b.conns[to] = true, true
		b.mu.Unlock()
		var both sync.WaitGroup
		for _, c := range [][2]net.Conn{{from, to}, {to, from}} {
			both.Go(func() {
				_, _ = io.Copy(c[0], c[1]) // either end closes
				_ = c[0].Close()
			})
		}
		both.Wait()
		b.mu.Lock()
		delete(b.conns, from)
		delete(b.conns, to)
		b.mu.Unlock()
		return
	}
}
