package wait

import "time"

// Ticker ticks at whole multiples of its period, by the time of day: those that
// have the same period, or parts of it, tick at the same moment. A process with
// nothing else to do then wakes once for all of them, and waking costs more than
// what most of them do.
//
// The first tick comes after at most a period. Whoever takes a tick calls Next.
type Ticker struct {
	C <-chan time.Time

	timer *time.Timer
	every time.Duration
}

// NewTicker returns a Ticker with a period above 0. The caller stops it.
func NewTicker(every time.Duration) *Ticker {
	t := time.NewTimer(Until(time.Now(), every))
	return &Ticker{C: t.C, timer: t, every: every}
}

// Next has the next tick come.
func (t *Ticker) Next() { t.timer.Reset(Until(time.Now(), t.every)) }

// Stop ends the ticks.
func (t *Ticker) Stop() { t.timer.Stop() }

// Until is how long it is from now to the next multiple of every.
func Until(now time.Time, every time.Duration) time.Duration {
	return now.Truncate(every).Add(every).Sub(now)
}
