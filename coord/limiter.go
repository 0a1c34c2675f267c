package coord

import (
	"maps"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
)

// rateKey names who shares a bucket: one member, or all senders of a class.
type rateKey struct {
	node  cluster.NodeID // empty: all of the class share a bucket
	class class
}

// class is a kind of senders with its own rate.
type class byte

const (
	classMember    class = iota // each member for itself
	classStranger               // hosts that are no members yet: by the member whose address they use, else together
	classOtherBoot              // each member, as long as it names another boot than the one heard
)

// rates are datagrams per second and at once, by class.
var rates = [...]struct{ rate, burst float64 }{
	classMember:    {50, 100},
	classStranger:  {20, 64},
	classOtherBoot: {5, 20},
}

// limiter holds one bucket per key. Keys are members and classes, never
// what a stranger wrote, so that it is bounded. It has one owner.
type limiter map[rateKey]*bucket

// take takes one token of key if there is one.
func (l limiter) take(key rateKey, now time.Duration) bool {
	b := l[key]
	if b == nil {
		b = &bucket{}
		l[key] = b
	}
	r := rates[key.class]
	return b.take(now, r.rate, r.burst)
}

// forget drops the buckets of hosts that are no members any more.
func (l limiter) forget(dir *directory) {
	maps.DeleteFunc(l, func(key rateKey, _ *bucket) bool {
		_, ok := dir.byNode[key.node]
		return key.node != "" && !ok
	})
}

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
