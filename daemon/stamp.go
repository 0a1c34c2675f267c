package daemon

import (
	"time"

	"github.com/skein-project/skein/lease"
)

// stamps is the clock that stamps this host's events. The others refuse events
// from the future, and with them all that follows in the chain: a clock that
// was ahead for a moment would shut this host's log out for as long as it was
// ahead. So a jump ahead is followed only once it has lasted and the other
// hosts' clocks agree with it; until then time goes on from where it was. What
// lags does no harm: stamps never go back behind those of events known here.
//
// It belongs to one goroutine, the log's writer.
type stamps struct {
	wall func() time.Time
	boot func() time.Duration
	// agreed reports whether the other hosts' clocks say what this one says.
	agreed func() bool
	// settle is how long it takes at most until agreed knows of a jump.
	settle time.Duration

	at      time.Time     // last reading that was followed, and when that was
	atBoot  time.Duration // on the boot-time clock
	jumped  bool          // ahead, not followed yet
	noticed time.Duration
}

// A clock that is being slewed drifts by a few hundredths of a percent.
const (
	stampSlack = time.Second
	slewPart   = 1000
)

func (s *stamps) now() time.Time {
	wall, boot := s.wall().Round(0), s.boot()
	gone := boot - s.atBoot
	due := s.at.Add(gone)
	if !s.at.IsZero() && wall.Sub(due) > stampSlack+gone/slewPart {
		if !s.jumped {
			s.jumped, s.noticed = true, boot
		}
		if boot-s.noticed < s.settle || !s.agreed() {
			return due
		}
	}
	s.at, s.atBoot, s.jumped = wall, boot, false
	return wall
}

// settleTime is how long a jump of the clock must have lasted: the others were
// heard after it, and what was refused of theirs was noted.
func settleTime(t lease.Timing) time.Duration { return max(15*time.Second, 3*t.Heartbeat) }

// stamper makes the clock of the own events.
func (n *node) stamper() *stamps {
	wall := n.wall
	if wall == nil {
		wall = time.Now
	}
	return &stamps{wall: wall, boot: n.now, agreed: n.clockAgreed, settle: settleTime(n.timing)}
}

// clockAgreed reports whether the clocks of most other hosts that are heard say
// what this one does. A host that is alone has nobody to ask.
func (n *node) clockAgreed() bool {
	v := n.coord.View()
	return len(v.Members) < 2 || v.Clock.Peers > 0 && v.Clock.Offset.Abs() <= n.conf().Clock.Tolerance
}
