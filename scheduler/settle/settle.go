package settle

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// Settlement is an attempt whose worker may forget it once Seq is stable.
type Settlement struct {
	Seq     uint64
	Attempt job.Attempt
}

// Stable waits until the own event seq survives this host's loss.
type Stable func(ctx context.Context, seq uint64) (voters int, err error)

// Settling is the attempts that wait for stability, of which a settler has the first. Its
// methods belong to the loop of the term, but for Run.
type Settling struct {
	by       *settler
	waiting  []Settlement // for the settler, in order
	inFlight int          // at the settler
}

// New returns a Settling without any.
func New(stable Stable) *Settling {
	return &Settling{by: &settler{stable: stable, in: make(chan []Settlement), out: make(chan []Settlement)}}
}

// Run waits for stability until ctx ends.
func (s *Settling) Run(ctx context.Context) { s.by.run(ctx) }

// Done yields attempts that are stable; after that, Back must be called.
func (s *Settling) Done() <-chan []Settlement { return s.by.out }

// Waiting are the attempts for Give.
func (s *Settling) Waiting() []Settlement { return s.waiting }

// Add lets an attempt wait until seq is stable.
func (s *Settling) Add(a job.Attempt, seq uint64) {
	s.waiting = append(s.waiting, Settlement{Seq: seq, Attempt: a})
}

// Open is how many attempts wait.
func (s *Settling) Open() int { return len(s.waiting) + s.inFlight }

// Give is where the waiting attempts can be sent now; nil: nowhere. After that, Given must
// be called.
func (s *Settling) Give() chan<- []Settlement {
	if len(s.waiting) == 0 || s.inFlight > 0 {
		return nil
	}
	return s.by.in
}

// Given takes in that they were sent.
func (s *Settling) Given() { s.inFlight, s.waiting = len(s.waiting), nil }

// Back takes in that the settler is done with what it had.
func (s *Settling) Back() { s.inFlight = 0 }

// Times of the settler.
const (
	stableTimeout = 10 * time.Second
	stableRetry   = 100 * time.Millisecond
)

// settler waits for stability beside the loop, one batch at a time.
type settler struct {
	stable Stable
	in     chan []Settlement // unbuffered; the loop gives when the last batch is back
	out    chan []Settlement // unbuffered; the loop always takes
}

func (s *settler) run(ctx context.Context) {
	for {
		var batch []Settlement
		select {
		case <-ctx.Done():
			return
		case batch = <-s.in:
		}
		if !s.wait(ctx, batch[len(batch)-1].Seq) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case s.out <- batch:
		}
	}
}

// wait tries until seq is stable or ctx ends: the lease bounds how long that
// can take.
func (s *settler) wait(ctx context.Context, seq uint64) bool {
	for seq > 0 {
		try, cancel := context.WithTimeout(ctx, stableTimeout)
		_, err := s.stable(try, seq)
		cancel()
		if err == nil {
			break
		}
		timer := time.NewTimer(stableRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
	return ctx.Err() == nil
}
