package ends

import "time"

// MaxAsks is how many times an attempt that asks for more time is answered.
const MaxAsks = 32

// Ask is an attempt's request for more time.
type Ask struct {
	Number int           // rises with each request of an attempt, from 1
	For    time.Duration // how much more it wants
}

// Asks is what an attempt asked for. The zero value is ready.
type Asks struct {
	Until time.Duration // it said that it may be silent until then; 0: it did not

	seen    int // the latest request that was answered
	answers int
	grants  int
}

// Answer says how much more time an attempt gets that asks for it, or why it gets none;
// heard: the request was answered before, or there were too many. Each grant is at most
// half of the one before, the first half of timeout, but never needs to be less than a
// second, and all of them and the other extensions together are at most most. Work that
// made no progress since the last extension gets none.
func (d *Deadline) Answer(a *Asks, ask Ask, done bool, timeout, most, now time.Duration) (by time.Duration, denied string, heard bool) {
	if ask.Number <= a.seen || a.answers >= MaxAsks {
		return 0, "", true
	}
	a.seen, a.answers = ask.Number, a.answers+1
	left := most - d.Extended
	switch {
	case most <= 0:
		return 0, "the job has no hard_timeout_seconds above its timeout_seconds", false
	case !done:
		return 0, "it has shown no progress", false
	case d.Granted > 0:
		return 0, "it has shown no progress since the last extension", false
	case left < MinExtension:
		return 0, "hard_timeout_seconds leaves no more", false
	}
	a.grants++
	by = min(ask.For, max(MinExtension, timeout>>a.grants), left)
	d.Extend(by)
	a.Until = max(a.Until, now+by)
	return by, "", false
}

// Quiet reports that an attempt asked for time in which nothing is to be heard of it.
func (a *Asks) Quiet(now time.Duration) bool { return now < a.Until }
