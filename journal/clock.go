package journal

import (
	"time"

	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// Clock stamps this host's events. The others refuse events from the future,
// and with them all that follows in the chain: a clock that was ahead for a
// moment would lock this host's log out for as long as it was ahead. So a jump
// ahead is followed only once it has lasted and the other hosts' clocks agree
// with it; until then time goes on from where it was. A clock that lags does no
// harm: stamps never fall below those of events known here.
//
// It belongs to one goroutine, the log's writer.
type Clock struct {
	wall func() time.Time
	boot func() time.Duration
	// agreed reports whether the other hosts' clocks show the same time.
	agreed func() bool
	// settle is how long it takes at most until agreed knows of a jump.
	settle time.Duration

	at      time.Time     // last reading that was followed
	atBoot  time.Duration // when that was, on the boot-time clock
	jumped  bool          // ahead, not followed yet
	noticed time.Duration // when the jump was noticed
}

// NewClock returns a Clock that follows wall; boot is the boot-time clock, and
// agreed reports whether the other hosts' clocks show the same time.
func NewClock(wall func() time.Time, boot func() time.Duration, agreed func() bool, t lease.Timing) *Clock {
	return &Clock{wall: wall, boot: boot, agreed: agreed, settle: max(minSettle, settleBeats*t.Heartbeat)}
}

const (
	// A jump of the clock must have lasted for minSettle and settleBeats
	// heartbeats: by then the others were heard after it, and what was refused
	// of theirs was noted.
	minSettle   = 15 * time.Second
	settleBeats = 3
	// A clock that is being slewed drifts by a few hundredths of a percent.
	stampSlack = time.Second
	slewPart   = 1000
)

// Agreed reports whether the clocks of most other hosts that are heard show the
// same time as this one. A host that is alone has nobody to ask.
func Agreed(v *coord.View, tolerance time.Duration) bool {
	return len(v.Members) < 2 || v.Clock.Peers > 0 && v.Clock.Offset.Abs() <= tolerance
}

// Now is the time for the next event.
func (c *Clock) Now() time.Time {
	wall, boot := c.wall().Round(0), c.boot()
	gone := boot - c.atBoot
	due := c.at.Add(gone)
	if !c.at.IsZero() && wall.Sub(due) > stampSlack+gone/slewPart {
		if !c.jumped {
			c.jumped, c.noticed = true, boot
		}
		if boot-c.noticed < c.settle || !c.agreed() {
			return due
		}
	}
	c.at, c.atBoot, c.jumped = wall, boot, false
	return wall
}
