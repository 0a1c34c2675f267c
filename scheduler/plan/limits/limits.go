package limits

import (
	"cmp"
	"time"

	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// Config holds the plan's times and limits. Zero fields take the default.
type Config struct {
	// Grace is how long a worker may be without a stream before its attempts
	// are copied elsewhere; default 1 s.
	Grace time.Duration
	// Recover is how long a worker that came back has to send the results of
	// attempts that it no longer runs, beside the time of a round trip; default 2 s.
	Recover time.Duration
	// MinDeadline is the shortest time for an attempt; default 60 s.
	MinDeadline time.Duration
	// Overrun is added to the job's own limit; default 30 s.
	Overrun time.Duration
	// Starve is how long a job may wait without an eligible worker before that
	// is reported; default 30 s.
	Starve time.Duration
	// Stuck is how long work that gets on may stand still; default 120 s.
	Stuck time.Duration
	// RTT is the round trip to a worker that was not measured, the log
	// included; default 5 ms.
	RTT time.Duration
	// Ageing is how much longer a job waits per step of priority; default 1 s.
	Ageing time.Duration
	// Owner bounds what one owner may submit.
	Owner fair.Limits
	// MaxJobs bounds the open jobs; 0: no limit.
	MaxJobs int
	// Completions bounds how many results per second one worker is given work
	// for; zero: no limit.
	Completions bucket.Rate
	// Salt hides which results are checked; random in each term.
	Salt trust.Salt
}

// WithDefaults fills what was left out.
func (c Config) WithDefaults() Config {
	c.Grace = cmp.Or(c.Grace, time.Second)
	c.Recover = cmp.Or(c.Recover, 2*time.Second)
	c.MinDeadline = cmp.Or(c.MinDeadline, time.Minute)
	c.Overrun = cmp.Or(c.Overrun, 30*time.Second)
	c.Starve = cmp.Or(c.Starve, 30*time.Second)
	c.Stuck = cmp.Or(c.Stuck, 2*time.Minute)
	c.RTT = cmp.Or(c.RTT, 5*time.Millisecond)
	c.Ageing = cmp.Or(c.Ageing, time.Second)
	return c
}
