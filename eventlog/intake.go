package eventlog

import (
	"context"
	"fmt"
	"sync"

	"github.com/skein-project/skein/cluster"
)

const (
	groupBytes   = 1 << 20
	groupRecords = 1000
	maxQueued    = 10000
)

// request is one thing for the writer to do: append drafts to the own chain,
// store a run of another chain, take in a fork, or start a new incarnation.
type request struct {
	drafts []cluster.Draft
	bodies [][]byte
	run    *run
	fork   *provenFork
	renew  uint64                            // new incarnation of the own chain
	swap   *swap                             // go on from a snapshot
	trim   map[cluster.SourceID]cluster.Mark // forget the segments up to here

	weight  int64
	records int
	taken   bool // by the writer; guarded by intake.mu

	// The writer sets events and err, then closes done.
	done   chan struct{}
	events []cluster.Event
	err    error
}

// intake is the bounded queue before the writer. What it admits keeps its
// weight until it is durable or refused, so memory is bounded by the budget.
type intake struct {
	wake chan struct{} // capacity 1; a token means "look"; full: drop, one is enough

	mu     sync.Mutex
	queue  []*request
	used   int64
	budget int64
	closed bool
	room   chan struct{} // closed and replaced when weight is returned
	note   func(used int64)
}

func newIntake(budget int64, note func(int64)) *intake {
	return &intake{budget: budget, wake: make(chan struct{}, 1), room: make(chan struct{}), note: note}
}

// put admits r, waiting for room until ctx ends. Urgent requests may use the
// whole budget, others seven eighths.
func (q *intake) put(ctx context.Context, r *request, urgent bool) error {
	limit := q.budget
	if !urgent {
		limit -= q.budget / 8
	}
	r.weight = min(r.weight, limit)
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return ErrClosed
		}
		if q.used+r.weight <= limit && (urgent || len(q.queue) < maxQueued) {
			q.used += r.weight
			q.queue = append(q.queue, r)
			q.note(q.used)
			q.mu.Unlock()
			q.poke()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrFull, context.Cause(ctx))
		}
	}
}

func (q *intake) poke() {
	select {
	case q.wake <- struct{}{}:
	default: // a token is already there
	}
}

// take removes what fits into one commit group: everything queued, up to
// groupBytes and groupRecords, at least one request.
func (q *intake) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var bytes int64
	records, n := 0, 0
	for _, r := range q.queue {
		if n > 0 && (bytes+r.weight > groupBytes || records+r.records > groupRecords) {
			break
		}
		bytes += r.weight
		records += r.records
		r.taken = true
		n++
	}
	batch := append([]*request(nil), q.queue[:n]...)
	rest := copy(q.queue, q.queue[n:])
	clear(q.queue[rest:])
	q.queue = q.queue[:rest]
	return batch
}

// cancel removes r if the writer has not taken it yet.
func (q *intake) cancel(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.taken {
		return false
	}
	for i, x := range q.queue {
		if x == r {
			q.queue = append(q.queue[:i], q.queue[i+1:]...)
			q.returnLocked(r.weight)
			return true
		}
	}
	return false
}

// giveBack returns the weight of finished requests.
func (q *intake) giveBack(weight int64) {
	q.mu.Lock()
	q.returnLocked(weight)
	q.mu.Unlock()
}

func (q *intake) returnLocked(weight int64) {
	q.used -= weight
	q.note(q.used)
	close(q.room)
	q.room = make(chan struct{})
}

// close refuses everything from now on. What is queued stays.
func (q *intake) close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.room)
		q.room = make(chan struct{})
	}
	q.mu.Unlock()
	q.poke()
}
