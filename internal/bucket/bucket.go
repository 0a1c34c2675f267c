package bucket

import (
	"math"
	"time"
)

// Rate allows Burst at once and PerSecond in the long run. PerSecond 0 is no
// limit where tokens may be owed.
type Rate struct{ PerSecond, Burst float64 }

// slack is what rounding may take from a token.
const slack = 1e-9

// Bucket is a token bucket. The zero value is full. All calls name the same
// Rate; a clock that goes back adds no tokens.
type Bucket struct {
	used float64 // of the burst; more than that is debt
	at   time.Duration
}

func (b *Bucket) refill(r Rate, now time.Duration) {
	b.used = max(0, b.used-max(0, (now-b.at).Seconds())*r.PerSecond)
	b.at = now
}

// Take takes one token if there is one.
func (b *Bucket) Take(r Rate, now time.Duration) bool {
	if b.Left(r, now) < 1-slack {
		return false
	}
	b.used++
	return true
}

// Left is how many tokens there are; it is negative while there is debt.
func (b *Bucket) Left(r Rate, now time.Duration) float64 {
	b.refill(r, now)
	return r.Burst - b.used
}

// Used is how much of the burst was taken when the bucket was last looked at;
// more than that is debt.
func (b *Bucket) Used() float64 { return b.used }

// Spend takes n tokens whether there are as many or not: what was done is done,
// and is waited for afterwards. It returns how long it takes until there is
// something again; 0: there is now. A rate of 0 is no limit.
func (b *Bucket) Spend(r Rate, n float64, now time.Duration) time.Duration {
	if r.PerSecond <= 0 {
		return 0
	}
	b.refill(r, now)
	b.used += n
	return r.earn(b.used - r.Burst)
}

// Wait returns how long it takes until n can be spent; 0: now. More than the
// burst can never be spent at once and needs a full bucket. A rate of 0 is no
// limit.
func (b *Bucket) Wait(r Rate, n float64, now time.Duration) time.Duration {
	if r.PerSecond <= 0 {
		return 0
	}
	b.refill(r, now)
	return r.earn(b.used + min(n, r.Burst) - r.Burst)
}

// owe has the next token come after wait at the earliest.
func (b *Bucket) owe(r Rate, wait, now time.Duration) {
	b.refill(r, now)
	b.used = max(b.used, r.Burst-1+wait.Seconds()*r.PerSecond)
}

// earn is how long it takes to earn n, at most a day.
func (r Rate) earn(n float64) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Duration(min(math.Ceil(n/r.PerSecond*1e9), float64(24*time.Hour)))
}
