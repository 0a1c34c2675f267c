package clocks

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/coord/clockwatch"
)

// Check is the self-check that fails while the clocks cannot be trusted to time a
// lease.
const Check = "clock"

// View is what a host knows of its own wall clock.
type View struct {
	// Jumps counts how often it was set by more than half the tolerance, or a
	// quarter of the lease if that is less; LastJump is by how much and JumpedAt
	// the local time of the last one.
	Jumps    uint64
	LastJump time.Duration
	JumpedAt time.Duration
	// Suspends counts how often the machine slept; LastSuspend is for how long
	// and SuspendedAt the local time when that was seen. Stalls are times when
	// the machine ran but this process did not, or not well.
	Suspends    uint64
	LastSuspend time.Duration
	SuspendedAt time.Duration
	Stalls      uint64
	LastStall   time.Duration
	StalledAt   time.Duration
	// Offset is the median of how far the clocks of Peers other hosts are
	// ahead of this one: if many agree on minutes, it is this clock that is
	// wrong.
	Offset time.Duration
	Peers  int
}

// Options are what Clocks is made of. Fields without "optional" must be
// set.
type Options struct {
	// Now is the local clock that goes on in suspend, Mono one that does not, Wall
	// the time of day.
	Now, Mono func() time.Duration
	Wall      func() time.Time
	Lease     time.Duration        // for which a holder holds without renewal
	Tolerance func() time.Duration // of timestamps

	// Read is called at every turn, once the clocks are read; optional.
	Read func()
	// Deaf is called with the time for which this host could hear nobody, Suspended
	// when no lease may be counted across this turn, Failing with the outcome of the
	// self-check, which is good if reason is empty, Changed when View has changed.
	Deaf      func(time.Duration)
	Suspended func()
	Failing   func(check, reason string)
	Changed   func()

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // optional
}

// Clocks are this host's clocks. They have one owner.
type Clocks struct {
	o     Options
	watch *clockwatch.Watch
	seen  View // without Offset and Peers

	suspends, stalls, jumps prometheus.Counter
}

// New registers the metrics.
func New(o Options) (*Clocks, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := &Clocks{
		o: o, watch: clockwatch.New(o.Lease),
		suspends: counter("skein_coord_suspends_total", "Times the machine was found to have slept."),
		jumps:    counter("skein_coord_clock_jumps_total", "Jumps of the wall clock."),
		stalls:   counter("skein_coord_stalls_total", "Times the loop ran later than a quarter of a lease after it should have."),
	}
	if r := o.Registerer; r != nil {
		if err := errors.Join(r.Register(c.suspends), r.Register(c.stalls), r.Register(c.jumps)); err != nil {
			return nil, fmt.Errorf("register metrics of clocks: %w", err)
		}
	}
	return c, nil
}

// Start begins to compare the clocks.
func (c *Clocks) Start() { c.watch.Start(c.read()) }

// Waits ends a turn of the loop, which means to wait that long.
func (c *Clocks) Waits(planned time.Duration) { c.watch.Waits(c.o.Now(), planned) }

// Turn begins a turn of the loop and compares the clocks with those of the last.
// While they are distrusted the self-check fails: a holder gives its term up, and
// what it had in hand is fenced off.
func (c *Clocks) Turn() {
	r := c.read()
	f := c.watch.Turn(r, c.o.Tolerance())
	if c.o.Read != nil {
		c.o.Read()
	}
	seen := &c.seen
	if f.Slept != 0 {
		c.suspends.Inc()
		seen.Suspends, seen.LastSuspend, seen.SuspendedAt = seen.Suspends+1, f.Slept, r.Now
		c.o.Logger.Warn().Float64("dur_seconds", f.Slept.Seconds()).Msg("machine was suspended")
		c.o.Deaf(f.Slept)
		c.o.Suspended()
	}
	if f.Late != 0 {
		c.stalls.Inc()
		seen.Stalls, seen.LastStall, seen.StalledAt = seen.Stalls+1, f.Late, r.Now
		c.o.Logger.Warn().Float64("dur_seconds", f.Late.Seconds()).Msg("this process stood still")
		c.o.Deaf(f.Late)
	}
	if f.Jump != 0 {
		c.jumps.Inc()
		seen.Jumps, seen.LastJump, seen.JumpedAt = seen.Jumps+1, f.Jump, r.Now
		c.o.Logger.Warn().Float64("dur_seconds", f.Jump.Seconds()).Msg("wall clock jumped")
	}
	if f.Slept != 0 || f.Late != 0 || f.Jump != 0 {
		c.o.Changed()
	}
	if f.Expired {
		c.o.Suspended()
	}
	if f.Distrust != "" || f.Trusted {
		c.o.Failing(Check, f.Distrust)
	}
}

// View is what this host can say of its own clock, given how far ahead those of
// others are.
func (c *Clocks) View(offsets []time.Duration) View {
	v := c.seen
	if v.Peers = len(offsets); v.Peers > 0 {
		slices.Sort(offsets)
		// Of the two in the middle the lesser: one of two peers is no majority.
		v.Offset = offsets[(v.Peers-1)/2]
		if o := offsets[v.Peers/2]; o.Abs() < v.Offset.Abs() {
			v.Offset = o
		}
	}
	return v
}

// read reads all clocks as of one moment: a pause between two readings must look
// neither like sleep of the machine nor like a jump.
func (c *Clocks) read() (r clockwatch.Reading) {
	for range 3 {
		before := c.o.Mono()
		r.Now = c.o.Now()
		r.Wall = c.o.Wall().Round(0)
		if r.Mono = c.o.Mono(); r.Mono-before < 10*time.Millisecond {
			break
		}
	}
	return r
}
