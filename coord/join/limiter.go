package join

import (
	"net/netip"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/bucket"
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
	buckets map[try]*tries // guarded by mu
	pruned  time.Time      // guarded by mu: last search for full buckets
	start   time.Time      // guarded by mu: of the first try
}

// try is what shares a bucket: a source, or, of those that come without one as
// through Tor, who asks by one of this host's invites. A flood of guesses must
// not keep out who has a token.
type try struct {
	from   netip.Addr
	invite string
}

// tries are those of one source.
type tries struct {
	failed bucket.Bucket
	flying int
}

// tryRate is how many failures a source is allowed.
func tryRate() bucket.Rate { return bucket.Rate{PerSecond: maxTries / 60.0, Burst: maxTries} }

func newLimiter() *limiter { return &limiter{buckets: map[try]*tries{}} }

// take reports whether from may try at now. Whoever may calls done, which says
// how the try ended.
func (l *limiter) take(from try, now time.Time) (done func(failed bool), ok bool) {
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

func (l *limiter) bucket(from try, now time.Time) *tries {
	if b := l.buckets[from]; b != nil {
		return b
	}
	if age := now.Sub(l.pruned); len(l.buckets) >= maxSources && (age < 0 || age >= time.Second) {
		l.pruned = now
		for a, b := range l.buckets {
			if b.flying == 0 && b.failed.Left(tryRate(), l.since(now)) >= maxTries {
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
	b := &tries{}
	l.buckets[from] = b
	return b
}

// since is the time that buckets go by.
func (l *limiter) since(now time.Time) time.Duration {
	if l.start.IsZero() {
		l.start = now
	}
	return now.Sub(l.start)
}
