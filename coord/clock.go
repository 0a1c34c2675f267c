package coord

import (
	"slices"
	"time"

	"github.com/skein-project/skein/coord/clockwatch"
	"github.com/skein-project/skein/lease"
)

// skewLife is how long a clock's offset counts after it was last seen.
const skewLife = 5 * time.Minute

// clockCheck is the self-check that fails after the clocks did what a lease
// cannot be counted by.
const clockCheck = "clock"

// skewed returns the latest known offset of p's clock.
func (s *Service) skewed(p *peerState, now time.Duration) (time.Duration, bool) {
	if refused, ok := s.net.Skew(p.node); ok && refused.At > p.beatAt && now-refused.At < skewLife {
		return refused.Offset, true
	}
	return p.skew, p.beatAt > 0 && now-p.beatAt < skewLife
}

// clockView is what this host can say of its own clock.
func (s *Service) clockView(now time.Duration) Clock {
	c := s.clock
	var offsets []time.Duration
	for _, p := range s.peers {
		if off, ok := s.skewed(p, now); ok {
			offsets = append(offsets, off)
		}
	}
	if c.Peers = len(offsets); c.Peers > 0 {
		slices.Sort(offsets)
		// Of the two in the middle the lesser: one of two peers is no majority.
		c.Offset = offsets[(c.Peers-1)/2]
		if o := offsets[c.Peers/2]; o.Abs() < c.Offset.Abs() {
			c.Offset = o
		}
	}
	return c
}

// turn begins a turn of the loop: it feeds the watchdog and compares the
// clocks. While they are distrusted the self-check fails: a holder gives its term
// up, and what it had in hand is fenced off.
func (s *Service) turn() {
	r := s.readClocks()
	f := s.watch.Turn(r, s.net.Tolerance())
	if s.o.OnLoop != nil {
		s.o.OnLoop()
	}
	c := &s.clock
	if f.Slept != 0 {
		s.m.suspends.Inc()
		c.Suspends, c.LastSuspend, c.SuspendedAt, s.dirty = c.Suspends+1, f.Slept, r.Now, true
		s.log.Warn().Float64("dur_seconds", f.Slept.Seconds()).Msg("machine was suspended")
		s.detector.Shift(f.Slept)
		s.elector.Step(lease.Suspended{})
	}
	if f.Late != 0 {
		s.m.stalls.Inc()
		c.Stalls, c.LastStall, c.StalledAt, s.dirty = c.Stalls+1, f.Late, r.Now, true
		s.log.Warn().Float64("dur_seconds", f.Late.Seconds()).Msg("this process stood still")
		s.detector.Shift(f.Late) // it could hear nobody
	}
	if f.Jump != 0 {
		s.m.clockJumps.Inc()
		c.Jumps, c.LastJump, c.JumpedAt, s.dirty = c.Jumps+1, f.Jump, r.Now, true
		s.log.Warn().Float64("dur_seconds", f.Jump.Seconds()).Msg("wall clock jumped")
	}
	if f.Expired {
		s.elector.Step(lease.Suspended{})
	}
	if f.Distrust != "" || f.Trusted {
		s.elector.SetFailing(clockCheck, f.Distrust)
	}
}

// readClocks reads all clocks as of one moment: a pause between two readings
// must look neither like sleep of the machine nor like a jump.
func (s *Service) readClocks() (r clockwatch.Reading) {
	for range 3 {
		before := s.o.Mono()
		r.Now = s.now()
		r.Wall = s.o.Wall().Round(0)
		if r.Mono = s.o.Mono(); r.Mono-before < 10*time.Millisecond {
			break
		}
	}
	return r
}
