package coord

import (
	"sync"
	"time"
)

// Rates of datagrams.
const (
	peerRate  = 50  // per second and peer
	peerBurst = 100 // of one peer
)

// bucket is a token bucket; the zero value is full.
type bucket struct {
	used float64
	at   time.Duration
}

// take takes one token if there is one.
func (b *bucket) take(now time.Duration, rate, burst float64) bool {
	b.used = max(0, b.used-max(0, (now-b.at).Seconds())*rate)
	b.at = now
	if b.used+1 > burst {
		return false
	}
	b.used++
	return true
}

// logGate lets one line per key and interval through: a flood of bad input
// must not become a flood of log lines. Counters tell the rest.
type logGate struct {
	now      func() time.Duration
	interval time.Duration

	mu   sync.Mutex
	last map[string]time.Duration
}

// maxGateKeys bounds the memory of a logGate; keys carry names of members and
// reasons, so more means something is wrong, and all start afresh.
const maxGateKeys = 4096

func newLogGate(now func() time.Duration, interval time.Duration) *logGate {
	return &logGate{now: now, interval: interval, last: make(map[string]time.Duration)}
}

func (g *logGate) pass(key string) bool {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, ok := g.last[key]; ok && now-at < g.interval {
		return false
	}
	if len(g.last) >= maxGateKeys {
		clear(g.last)
	}
	g.last[key] = now
	return true
}
