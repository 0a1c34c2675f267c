package plan

import (
	"math"
	"time"
)

// Rate allows Burst at once and PerSecond in the long run. PerSecond 0 is no
// limit.
type Rate struct{ PerSecond, Burst float64 }

// tokens is a token bucket that may go into debt: what was done is done, and
// is waited for afterwards. The zero value is full.
type tokens struct {
	used float64 // of the burst
	at   time.Duration
}

// refill lets time pass.
func (t *tokens) refill(r Rate, now time.Duration) {
	if now > t.at {
		t.used = max(0, t.used-r.PerSecond*(now-t.at).Seconds())
		t.at = now
	}
}

// take spends n, whatever there is, and returns how long it takes until there
// is something again; 0: there is now.
func (t *tokens) take(r Rate, n float64, now time.Duration) time.Duration {
	if r.PerSecond <= 0 {
		return 0
	}
	t.refill(r, now)
	t.used += n
	return r.wait(t.used - r.Burst)
}

// may returns how long it takes until n can be spent; 0: now. More than the
// burst can never be spent at once and needs a full bucket.
func (t *tokens) may(r Rate, n float64, now time.Duration) time.Duration {
	if r.PerSecond <= 0 {
		return 0
	}
	t.refill(r, now)
	return r.wait(t.used + min(n, r.Burst) - r.Burst)
}

// wait is how long it takes to earn n.
func (r Rate) wait(n float64) time.Duration {
	if n <= 0 {
		return 0
	}
	seconds := n / r.PerSecond
	return time.Duration(min(math.Ceil(seconds*1e9), float64(24*time.Hour)))
}
