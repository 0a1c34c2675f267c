package coord

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// skewLife is how long a clock's offset counts after it was last seen.
const skewLife = 5 * time.Minute

// clockCheck is the self-check that fails after the clocks did what a lease
// cannot be counted by.
const clockCheck = "clock"

// skews are the offsets of clocks that are too far off for their messages to
// count. The reader of datagrams notes them, the loop reads them.
type skews struct {
	mu sync.Mutex
	m  map[cluster.NodeID]skew
}

type skew struct {
	offset time.Duration // ahead of this host
	at     time.Duration
}

func (k *skews) set(node cluster.NodeID, v skew) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[node] = v
}

func (k *skews) get(node cluster.NodeID) (skew, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.m[node]
	return v, ok
}

func (k *skews) forget(node cluster.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, node)
}

// skewOf is how far a sender's clock is ahead, to the second that a message
// names.
func skewOf(sent int64, wall time.Time) time.Duration {
	return time.Duration(sent-wall.Unix()) * time.Second
}

// skewed returns the latest known offset of p's clock.
func (s *Service) skewed(p *peerState, now time.Duration) (time.Duration, bool) {
	if refused, ok := s.skews.get(p.node); ok && refused.at > p.beatAt && now-refused.at < skewLife {
		return refused.offset, true
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
// clocks.
func (s *Service) turn() {
	now, mono, wall := s.readClocks()
	ran := now - s.lastNow
	asleep := ran - (mono - s.lastMono)
	jump := wall.Sub(s.lastWall) - ran
	// The last turn may have taken long, and this one may come late.
	late := (s.waits - s.lastNow) + max(0, now-s.waits-s.slept) - asleep
	s.lastNow, s.lastMono, s.lastWall, s.waits, s.slept = now, mono, wall, now, 0
	if s.o.OnLoop != nil {
		s.o.OnLoop()
	}
	limit := s.o.Timing.Lease / 4
	if asleep > limit {
		s.m.suspends.Inc()
		s.clock.Suspends, s.clock.LastSuspend, s.clock.SuspendedAt, s.dirty = s.clock.Suspends+1, asleep, now, true
		s.log.Warn().Float64("dur_seconds", asleep.Seconds()).Msg("machine was suspended")
		s.detector.Shift(asleep)
		s.step(lease.Suspended{})
	}
	if late > limit {
		s.m.stalls.Inc()
		s.clock.Stalls, s.clock.LastStall, s.clock.StalledAt, s.dirty = s.clock.Stalls+1, late, now, true
		s.log.Warn().Float64("dur_seconds", late.Seconds()).Msg("this process stood still")
		s.detector.Shift(late) // it could hear nobody
		s.distrust(now, fmt.Sprintf("stood still for %s", late.Round(time.Millisecond)))
	}
	if jump.Abs() > min(s.tuned.Load().tolerance/2, limit) {
		s.m.clockJumps.Inc()
		s.clock.Jumps, s.clock.LastJump, s.clock.JumpedAt, s.dirty = s.clock.Jumps+1, jump, now, true
		s.log.Warn().Float64("dur_seconds", jump.Seconds()).Msg("wall clock jumped")
	}
	if jump.Abs() > limit {
		if jump > 0 {
			// Nothing tells this from a machine that was stopped from outside
			// together with the clock that leases go by.
			s.step(lease.Suspended{})
		}
		s.distrust(now, fmt.Sprintf("time of day jumped by %s", jump.Round(time.Millisecond)))
	}
	if s.distrusts && now >= s.distrustTill {
		s.distrusts = false
		s.setFailing(clockCheck, "")
	}
}

// readClocks reads all clocks as of one moment: a pause between two readings
// must look neither like sleep of the machine nor like a jump.
func (s *Service) readClocks() (now, mono time.Duration, wall time.Time) {
	for range 3 {
		before := s.o.Mono()
		now = s.now()
		wall = s.o.Wall().Round(0)
		if mono = s.o.Mono(); mono-before < 10*time.Millisecond {
			break
		}
	}
	return now, mono, wall
}

// distrust makes the self-check of the clock fail for a quarter of a lease: a
// holder gives its term up, and what it had in hand is fenced off.
func (s *Service) distrust(now time.Duration, why string) {
	s.distrusts, s.distrustTill = true, now+s.o.Timing.Lease/4
	s.setFailing(clockCheck, why)
}
