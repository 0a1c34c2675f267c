package clockwatch

import (
	"fmt"
	"time"
)

// Reading is all clocks as of one moment.
type Reading struct {
	Now  time.Duration // goes on in suspend
	Mono time.Duration // does not
	Wall time.Time     // without a monotonic part
}

// Watch remembers the last turn. Start it before the first.
type Watch struct {
	limit   time.Duration // a quarter of the lease
	last    Reading
	ended   time.Duration // when the last turn did
	planned time.Duration // how long the loop meant to wait after it
	// distrusted says that the clocks are, until until.
	distrusted bool
	until      time.Duration
}

// Found is what one turn found; zero durations mean nothing.
type Found struct {
	Slept time.Duration // the machine did
	Late  time.Duration // the process stood still
	Jump  time.Duration // of the time of day
	// Expired says that a lease must not be counted across this turn, although
	// the machine was not seen to sleep.
	Expired bool
	// Distrust says why the clocks are distrusted from now on, Trusted that they
	// no longer are.
	Distrust string
	Trusted  bool
}

// New returns a Watch for leases of that length.
func New(lease time.Duration) *Watch { return &Watch{limit: lease / 4} }

// Start begins at r.
func (w *Watch) Start(r Reading) { w.last, w.ended = r, r.Now }

// Waits notes that the turn is over, and for how long the loop means to wait.
func (w *Watch) Waits(now, planned time.Duration) { w.ended, w.planned = now, planned }

// Turn compares r with the last turn. Jumps of the time of day count from half
// the tolerance of timestamps, or a quarter of the lease if that is less.
func (w *Watch) Turn(r Reading, tolerance time.Duration) Found {
	ran := r.Now - w.last.Now
	asleep := ran - (r.Mono - w.last.Mono)
	jump := r.Wall.Sub(w.last.Wall) - ran
	// The last turn may have taken long, and this one may come late.
	late := (w.ended - w.last.Now) + max(0, r.Now-w.ended-w.planned) - asleep
	w.last, w.ended, w.planned = r, r.Now, 0
	var f Found
	if asleep > w.limit {
		f.Slept = asleep
	}
	if late > w.limit {
		f.Late = late
		f.Distrust = fmt.Sprintf("stood still for %s", late.Round(time.Millisecond))
	}
	if jump.Abs() > min(tolerance/2, w.limit) {
		f.Jump = jump
	}
	if jump.Abs() > w.limit {
		f.Expired = jump > 0
		f.Distrust = fmt.Sprintf("time of day jumped by %s", jump.Round(time.Millisecond))
	}
	switch {
	case f.Distrust != "":
		w.distrusted, w.until = true, r.Now+w.limit
	case w.distrusted && r.Now >= w.until:
		w.distrusted, f.Trusted = false, true
	}
	return f
}
