package join

import (
	"net/netip"
	"sync"
	"time"
)

// Tries of one source: a burst of maxTries, refilled at maxTries a minute.
const (
	maxTries   = 5
	maxSources = 4096
)

// limiter counts tries per source. When it knows maxSources of them, further
// ones share the bucket of the zero address.
type limiter struct {
	mu      sync.Mutex
	buckets map[netip.Addr]*bucket // guarded by mu
}

type bucket struct {
	left float64
	at   time.Time
}

func newLimiter() *limiter { return &limiter{buckets: map[netip.Addr]*bucket{}} }

// take reports whether from may try at now.
func (l *limiter) take(from netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(from, now)
	b.refill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// giveBack undoes the take of a try that succeeded.
func (l *limiter) giveBack(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[from]; b != nil {
		b.left = min(b.left+1, maxTries)
	}
}

func (l *limiter) bucket(from netip.Addr, now time.Time) *bucket {
	if b := l.buckets[from]; b != nil {
		return b
	}
	if len(l.buckets) >= maxSources {
		for a, b := range l.buckets {
			if b.refill(now); b.left >= maxTries {
				delete(l.buckets, a)
			}
		}
	}
	if len(l.buckets) >= maxSources {
		from = netip.Addr{}
		if b := l.buckets[from]; b != nil {
			return b
		}
	}
	b := &bucket{left: maxTries, at: now}
	l.buckets[from] = b
	return b
}

func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.left = min(b.left+d.Minutes()*maxTries, maxTries)
	}
	b.at = now
}
