package zone

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Health says how a zone is. The zero value is none.
type Health uint8

// Values of Health, the worst last.
const (
	_         Health = iota
	Healthy          // what should be there is
	Busy             // all of it is taken
	Degraded         // half of it and more is not what it should be
	Unhealthy        // nothing of it can be used
)

// Healths are the names of Health, from Healthy on.
var Healths = []string{"healthy", "busy", "degraded", "unhealthy"}

// String implements fmt.Stringer.
func (h Health) String() string {
	if h < Healthy || h > Unhealthy {
		return ""
	}
	return Healths[h-Healthy]
}

// Host is what is known of a host that a zone should have.
type Host struct {
	Node       cluster.NodeID
	Alive      bool // it is heard
	Drained    bool // it takes no work because somebody said so
	Connected  bool // the scheduler reaches its worker
	Ready      bool // which takes work
	Stuck      bool // which has work, and nothing comes
	Overloaded bool
	Slots      int
	Free       int // attempts that it may have more
	Assigned   int
}

// Facts are what is known of a zone.
type Facts struct {
	Hosts []Host // its members
	// Blind says that nothing is known of the workers: there is no scheduler to ask.
	Blind bool
}

// expected are the hosts that count: those that nobody drained.
func (f Facts) expected() (out []Host) {
	for _, h := range f.Hosts {
		if !h.Drained {
			out = append(out, h)
		}
	}
	return out
}

// verdict is what one look at a zone says. A zone without room is busy once it is for
// a while.
type verdict struct {
	health Health
	why    string
	full   bool
}

// judge looks at a zone once.
func judge(f Facts) verdict {
	hosts := f.expected()
	n := len(hosts)
	var alive, connected, ill, stuck, unready, overloaded, slots, free int
	for _, h := range hosts {
		if h.Alive {
			alive++
		}
		if !h.Alive || !h.Connected {
			continue
		}
		connected++
		slots, free = slots+h.Slots, free+max(0, h.Free)
		switch {
		case h.Stuck:
			stuck++
		case h.Overloaded:
			overloaded++
		case !h.Ready:
			unready++
		default:
			continue
		}
		ill++
	}
	switch {
	case len(f.Hosts) == 0:
		return verdict{health: Unhealthy, why: "it has no hosts"}
	case n == 0:
		return verdict{health: Unhealthy, why: fmt.Sprintf("all of its %d hosts are drained", len(f.Hosts))}
	case alive == 0:
		return verdict{health: Unhealthy, why: fmt.Sprintf("none of %d hosts is alive", n)}
	case !f.Blind && connected == 0:
		return verdict{health: Unhealthy, why: fmt.Sprintf("no worker of %d hosts is reached", n)}
	case 2*alive < n:
		return verdict{health: Degraded, why: fmt.Sprintf("%d of %d hosts alive", alive, n)}
	case f.Blind:
		return verdict{health: Healthy}
	case 2*ill >= connected:
		return verdict{health: Degraded, why: illness(connected, stuck, unready, overloaded)}
	case slots == 0:
		return verdict{health: Busy, why: "its workers have no slots"}
	case free == 0:
		return verdict{health: Healthy, full: true}
	}
	return verdict{health: Healthy}
}

// illness says in words what is wrong with workers.
func illness(of, stuck, unready, overloaded int) string {
	text := ""
	for _, x := range []struct {
		n    int
		what string
	}{{stuck, "stuck"}, {unready, "not ready"}, {overloaded, "overloaded"}} {
		if x.n > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", x.n, x.what)
		}
	}
	return fmt.Sprintf("of %d workers: %s", of, text)
}

// Times of a zone.
const (
	// FullTime is how long a zone has no room before it is busy.
	FullTime = 5 * time.Second
	// BetterTime is how long a zone is better before that counts.
	BetterTime = 10 * time.Second
)

// State is how a zone is, and was. The zero value knows nothing.
type State struct {
	Health Health
	Why    string        // empty: it is healthy
	Since  time.Duration // it is so

	full   time.Duration // it has had no room since; with isFull
	isFull bool
	better time.Duration // it would be better since; with mends
	mends  bool
}

// Step looks at a zone at now. It reports whether its health is another one.
func Step(s State, f Facts, now time.Duration) (State, bool) {
	v := judge(f)
	if !v.full {
		s.isFull = false
	} else {
		if !s.isFull {
			s.isFull, s.full = true, now
		}
		if now-s.full >= FullTime {
			v.health, v.why = Busy, "its workers have no room"
		}
	}
	was := s.Health
	switch {
	case was == 0 || v.health > was:
		s.Health, s.Why, s.Since, s.mends = v.health, v.why, now, false
	case v.health == was:
		s.Why, s.mends = v.why, false
	case !s.mends:
		s.mends, s.better = true, now
	case now-s.better >= BetterTime:
		s.Health, s.Why, s.Since, s.mends = v.health, v.why, now, false
	}
	return s, s.Health != was
}

// Count is how many hosts a zone should have, and how many of them live.
func (f Facts) Count() (hosts, alive int) {
	for _, h := range f.expected() {
		if hosts++; h.Alive {
			alive++
		}
	}
	return hosts, alive
}

// Room is what a zone has to run attempts: slots of workers that take work, those that
// are free, and what waits for one.
func (f Facts) Room() (slots, free, queued int) {
	for _, h := range f.expected() {
		if h.Alive && h.Connected && h.Ready {
			slots, free, queued = slots+h.Slots, free+max(0, h.Slots-h.Assigned), queued+max(0, h.Assigned-h.Slots)
		}
	}
	return slots, free, queued
}
