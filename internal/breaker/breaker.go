package breaker

import "time"

// When a breaker opens, for how long, and when it closes.
const (
	inARow      = 5
	recent      = 10 // of so many streams half failed,
	window      = 30 * time.Second
	firstPause  = 10 * time.Second
	lastPause   = time.Minute
	jitterShare = 0.2
	goodToClose = 3
	// busyPause is when who was not let in because others try the host may come again.
	busyPause = time.Second
)

// State is how a breaker is.
type State uint8

// States.
const (
	Closed State = iota
	Open
	HalfOpen
)

type outcome struct {
	at     time.Duration
	failed bool
}

// breaker decides for one host and kind of stream. The zero value is closed.
type breaker struct {
	state State
	until time.Duration // of the pause
	opens int           // in a row, without closing between
	row   int           // failures in a row
	last  [recent]outcome
	count int // of outcomes
	tries int // of a half-open one that have no outcome
	good  int // of a half-open one
	life  uint64
	used  time.Duration
}

// allow says whether a stream may be opened, or when it may be. A life of the host other
// than the one with which the breaker opened ends the pause.
func (b *breaker) allow(life uint64, now time.Duration) (ok bool, wait time.Duration) {
	b.used = now
	if b.state == Open && (now >= b.until || life != b.life) {
		b.state, b.tries, b.good = HalfOpen, 0, 0
	}
	switch {
	case b.state == Open:
		return false, b.until - now
	case b.state == HalfOpen && b.tries >= goodToClose:
		return false, busyPause
	}
	b.begin()
	return true, 0
}

// begin counts a stream that is opened, allowed or not.
func (b *breaker) begin() {
	if b.state == HalfOpen {
		b.tries++
	}
}

// pass takes in that a stream came to nothing that says anything of the host.
func (b *breaker) pass() { b.tries = max(0, b.tries-1) }

// record takes in how a stream went. jitter is from 0 to 1; life is that of the host.
func (b *breaker) record(failed bool, life uint64, jitter float64, now time.Duration) {
	b.used = now
	b.last[b.count%recent] = outcome{at: now, failed: failed}
	b.count++
	b.row++
	if !failed {
		b.row = 0
	}
	switch {
	case b.state == HalfOpen && failed:
		b.open(life, jitter, now)
	case b.state == Open && failed: // it was opened before the pause began
	case b.state == Open: // it had to be tried, and was answered
		b.state, b.tries, b.good = HalfOpen, 0, 1
	case b.state == HalfOpen:
		b.pass()
		if b.good++; b.good >= goodToClose {
			*b = breaker{used: now}
		}
	case b.row >= inARow || b.half(now):
		b.open(life, jitter, now)
	}
}

// half reports that half of the last streams failed, all of them lately.
func (b *breaker) half(now time.Duration) bool {
	if b.count < recent || now-b.last[b.count%recent].at > window {
		return false
	}
	failed := 0
	for _, o := range b.last {
		if o.failed {
			failed++
		}
	}
	return 2*failed >= recent
}

func (b *breaker) open(life uint64, jitter float64, now time.Duration) {
	pause := min(lastPause, firstPause<<min(b.opens, 8))
	pause += time.Duration(jitterShare * (2*jitter - 1) * float64(pause))
	*b = breaker{state: Open, until: now + pause, opens: b.opens + 1, life: life, used: now}
}
