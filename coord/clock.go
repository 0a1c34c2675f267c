package coord

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
)

// skewLife is how long a clock's offset counts after it was last seen.
const skewLife = 5 * time.Minute

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
	if s.o.OnLoop != nil {
		s.o.OnLoop()
	}
	// The two clocks cannot be read at once: a pause between the readings
	// must not look like sleep of the machine.
	var now, mono time.Duration
	for range 3 {
		before := s.o.Mono()
		now = s.now()
		if mono = s.o.Mono(); mono-before < 10*time.Millisecond {
			break
		}
	}
	wall := s.o.Wall()
	gap := (now - s.lastNow) - (mono - s.lastMono)
	jump := wall.Sub(s.lastWall).Round(0) - (now - s.lastNow)
	s.lastNow, s.lastMono, s.lastWall = now, mono, wall.Round(0)
	if gap > s.o.Timing.Lease/4 {
		s.m.suspends.Inc()
		s.log.Warn().Float64("dur_seconds", gap.Seconds()).Msg("machine was suspended")
		s.detector.Shift(gap)
		s.step(lease.Suspended{})
	}
	if time.Duration(math.Abs(float64(jump))) > s.tuned.Load().tolerance/2 {
		s.m.clockJumps.Inc()
		s.clock.Jumps, s.clock.LastJump, s.clock.JumpedAt, s.dirty = s.clock.Jumps+1, jump, now, true
		s.log.Warn().Float64("dur_seconds", jump.Seconds()).Msg("wall clock jumped")
	}
}
