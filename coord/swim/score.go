package swim

import "time"

// MaxScore is the worst local health score.
const MaxScore = 8

const (
	// lateness within lateSlack is that of any timer; from lateHalf and
	// lateFull on it says that this host is not well.
	lateSlack = 100 * time.Millisecond
	lateHalf  = 500 * time.Millisecond
	lateFull  = 2 * time.Second
)

// blame changes the score by n: only what this host did itself counts.
func (c *Core) blame(n int) { c.score = min(max(c.score+n, 0), MaxScore) }

// scaled is d, longer the less well this host is: up to three times as long.
func (c *Core) scaled(d time.Duration) time.Duration {
	return d + d*time.Duration(c.score)/4
}

// late compares now with when this host was to be called at the latest. By as
// much as it was late it could not hear others, so that all deadlines move.
func (c *Core) late(now time.Duration) {
	by := now - c.next
	if by <= lateSlack {
		return
	}
	switch {
	case by >= lateFull:
		c.blame(2)
	case by >= lateHalf:
		c.blame(1)
	}
	if by >= lateHalf {
		c.stats.Late++
	}
	c.shift(by)
}

// shift moves every deadline later, and what was missed with it.
func (c *Core) shift(by time.Duration) {
	if by <= 0 {
		return
	}
	for i := range c.probes {
		c.probes[i].due += by
	}
	for i := range c.relays {
		c.relays[i].due += by
	}
	for i := range c.suspects {
		c.suspects[i].at += by
	}
	for _, p := range c.list {
		if p.state == Suspect {
			p.since, p.until, p.again = p.since+by, p.until+by, p.again+by
		}
	}
	c.heardAny += by
	c.nextAt += by
	c.retryAt += by
}
