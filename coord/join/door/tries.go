package door

import (
	"net/netip"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/bucket"
)

// Failed tries of one source: a burst of MaxTries, refilled at MaxTries a
// minute. Tries that succeed are free, so that a rack of hosts behind one
// address can join at once; maxFlying bounds those whose end is not known yet,
// and what they overdraw is refilled before the next one.
const (
	MaxTries   = 5
	maxFlying  = 32
	maxSources = 4096
)

// Limiter counts failed tries per source. When it knows maxSources of them,
// further ones share the bucket of the zero address.
type Limiter struct {
	mu      sync.Mutex
	buckets map[Try]*tries // guarded by mu
	pruned  time.Time      // guarded by mu: last search for full buckets
	start   time.Time      // guarded by mu: of the first try
}

// Try is what shares a bucket: a source, see Source, or, of those that come without one as
// through Tor, who asks by one of this host's invites. A flood of guesses must
// not keep out who has a token.
type Try struct {
	From   netip.Addr
	Invite string
}

// tries are those of one source.
type tries struct {
	failed bucket.Bucket
	flying int
}

// tryRate is how many failures a source is allowed.
func tryRate() bucket.Rate { return bucket.Rate{PerSecond: MaxTries / 60.0, Burst: MaxTries} }

// NewLimiter returns a Limiter that has seen no try.
func NewLimiter() *Limiter { return &Limiter{buckets: map[Try]*tries{}} }

// Take reports whether from may try at now. Whoever may calls done, which says
// how the try ended.
func (l *Limiter) Take(from Try, now time.Time) (done func(failed bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(from, now)
	if b.failed.Left(tryRate(), l.since(now)) < 1 || b.flying >= maxFlying {
		return nil, false
	}
	b.flying++
	return func(failed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		b.flying--
		if failed {
			b.failed.Spend(tryRate(), 1, l.since(now))
		}
	}, true
}

func (l *Limiter) bucket(from Try, now time.Time) *tries {
	if b := l.buckets[from]; b != nil {
		return b
	}
	if age := now.Sub(l.pruned); len(l.buckets) >= maxSources && (age < 0 || age >= time.Second) {
		l.pruned = now
		for a, b := range l.buckets {
			if b.flying == 0 && b.failed.Left(tryRate(), l.since(now)) >= MaxTries {
				delete(l.buckets, a)
			}
		}
	}
	if len(l.buckets) >= maxSources {
		from = Try{}
		if b := l.buckets[from]; b != nil {
			return b
		}
	}
	b := &tries{}
	l.buckets[from] = b
	return b
}

// since is the time that buckets go by.
func (l *Limiter) since(now time.Time) time.Duration {
	if l.start.IsZero() {
		l.start = now
	}
	return now.Sub(l.start)
}
