package scheduler

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// settlement is an attempt whose worker may forget it once seq is stable.
type settlement struct {
	seq     uint64
	attempt job.Attempt
}

// settling is the attempts that wait for stability, of which a settler has the
// first.
type settling struct {
	by       *settler
	waiting  []settlement // for the settler, in order
	inFlight int          // at the settler
}

// add lets an attempt wait until seq is stable.
func (s *settling) add(a job.Attempt, seq uint64) {
	s.waiting = append(s.waiting, settlement{seq: seq, attempt: a})
}

// open is how many attempts wait.
func (s *settling) open() int { return len(s.waiting) + s.inFlight }

// give is where the waiting attempts can be sent now; nil: nowhere. After that,
// given must be called.
func (s *settling) give() chan<- []settlement {
	if len(s.waiting) == 0 || s.inFlight > 0 {
		return nil
	}
	return s.by.in
}

func (s *settling) given() { s.inFlight, s.waiting = len(s.waiting), nil }

// back takes in that the settler is done with what it had.
func (s *settling) back() { s.inFlight = 0 }

// Times of the settler.
const (
	stableTimeout = 10 * time.Second
	stableRetry   = 100 * time.Millisecond
)

// settler waits for stability beside the loop, one batch at a time.
type settler struct {
	log Log
	in  chan []settlement // unbuffered; the loop gives when the last batch is back
	out chan []settlement // unbuffered; the loop always takes
}

func newSettler(log Log) *settler {
	return &settler{log: log, in: make(chan []settlement), out: make(chan []settlement)}
}

func (s *settler) run(ctx context.Context) {
	for {
		var batch []settlement
		select {
		case <-ctx.Done():
			return
		case batch = <-s.in:
		}
		if !s.wait(ctx, batch[len(batch)-1].seq) {
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
		_, err := s.log.WaitStable(try, seq)
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
