package join

import (
	"net/netip"
	"sync"
	"time"
)

// Failed tries of one source: a burst of maxTries, refilled at maxTries a
// minute. Tries that succeed are free, so that a rack of hosts behind one
// address can join at once; maxFlying bounds those whose end is not known yet,
// and what they overdraw is refilled before the next one.
const (
	maxTries   = 5
	maxFlying  = 32
	maxSources = 4096
)

// limiter counts failed tries per source. When it knows maxSources of them,
// further ones share the bucket of the zero address.
type limiter struct {
	mu      sync.Mutex
	buckets map[try]*bucket // guarded by mu
	pruned  time.Time       // guarded by mu: last search for full buckets
}

// try is what shares a bucket: a source, or, of those that come without one as
// through Tor, who asks by one of this host's invites. A flood of guesses must
// not keep out who has a token.
type try struct {
	from   netip.Addr
	invite string
}

type bucket struct {
	left   float64
	flying int
	at     time.Time
}

func newLimiter() *limiter { return &limiter{buckets: map[try]*bucket{}} }

// take reports whether from may try at now. Whoever may calls done, which says
// how the try ended.
func (l *limiter) take(from try, now time.Time) (done func(failed bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(from, now)
	b.refill(now)
	if b.left < 1 || b.flying >= maxFlying {
		return nil, false
	}
	b.flying++
	return func(failed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		b.flying--
		if failed {
			b.left--
		}
	}, true
}

func (l *limiter) bucket(from try, now time.Time) *bucket {
	if b := l.buckets[from]; b != nil {
		return b
	}
	if age := now.Sub(l.pruned); len(l.buckets) >= maxSources && (age < 0 || age >= time.Second) {
		l.pruned = now
		for a, b := range l.buckets {
			if b.refill(now); b.left >= maxTries && b.flying == 0 {
				delete(l.buckets, a)
			}
		}
	}
	if len(l.buckets) >= maxSources {
		from = try{}
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
