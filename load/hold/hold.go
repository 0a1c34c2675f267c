package hold

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Gate is closed while nothing may be sent. Its zero value is open.
type Gate struct {
	closed atomic.Bool
	mu     sync.Mutex
	opened chan struct{} // closed when it is open again
	since  time.Time
	sum    time.Duration // of the times that are over
}

// Set closes the gate, or opens it.
func (g *Gate) Set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() == closed {
		return
	}
	g.closed.Store(closed)
	if closed {
		g.opened, g.since = make(chan struct{}), time.Now()
		return
	}
	close(g.opened)
	g.sum += time.Since(g.since)
}

// Closed reports that nothing may be sent now.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Wait waits until it is open or done is closed; waited says that it was closed.
func (g *Gate) Wait(done <-chan struct{}) (waited bool) {
	for g.Closed() {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-done:
			return true
		}
		waited = true
	}
	return waited
}

// Text says for how long nothing was sent; empty: that never was.
func (g *Gate) Text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := g.sum
	if g.Closed() {
		sum += time.Since(g.since)
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("it sent nothing for %s, as no holder heard of it", sum.Round(time.Millisecond))
}
