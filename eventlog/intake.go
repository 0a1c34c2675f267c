package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

const (
	groupBytes   = 1 << 20
	groupRecords = 1000
	maxQueued    = 10000
	// minWeight is what a request counts at least.
	minWeight = 64
)

// class says which part of the intake a request may use.
type class uint8

const (
	ordinary class = iota // this host's own
	foreign               // runs of other hosts' chains
	urgent                // with an essential draft
	classes
)

// request is one thing for the writer to do: append drafts to the own chain,
// store a run of another chain, start a new incarnation, or let somebody else
// change the store.
type request struct {
	drafts []event.Draft
	bodies [][]byte // of the drafts, encoded in room
	room   []byte
	run    *wire.Run
	renew  *renewal // new incarnation of the own chain
	// exclusive runs with nothing staged or in flight. refused is the answer;
	// failed poisons the log.
	exclusive func(*store.Writer) (refused, failed error)

	class   class
	began   time.Time // when it was put, if nothing else was queued, or there was no room
	weight  int64
	records int
	taken   bool // by the writer; guarded by intake.mu
	did     bool // the writer's: exclusive was called

	// The writer sets events and err, then sends on done, once.
	done   chan struct{} // capacity 1: never full
	events []event.Event
	err    error
}

// renewal asks for a new incarnation of the own chain.
type renewal struct {
	inc    uint64
	reason string
}

// onlyStages says that r only adds to chains.
func (r *request) onlyStages() bool { return r.exclusive == nil && r.renew == nil }

// newAppend returns the request to append drafts, without their bodies.
func (q *intake) newAppend(drafts []event.Draft) *request {
	r, ok := q.spare.Get().(*request)
	if !ok {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.drafts, r.records = append(r.drafts, drafts...), len(drafts)
	return r
}

// recycle takes back a request of newAppend whose answer was read, for another
// one, unless it was a large one.
func (q *intake) recycle(r *request) {
	if cap(r.room) > maxSpare {
		return
	}
	r.drafts, r.bodies, r.room = r.drafts[:0], r.bodies[:0], r.room[:0]
	r.class, r.began, r.weight, r.taken, r.did, r.events = ordinary, time.Time{}, 0, false, false, nil
	q.spare.Put(r)
}

// maxSpare is the most room that a request keeps for the next one, in bytes.
const maxSpare = 64 << 10

// intake is the bounded queue before the writer. What it admits keeps its
// weight until it is durable or refused, so memory is bounded by the budget.
type intake struct {
	spare sync.Pool     // requests whose answer was read
	wake  chan struct{} // capacity 1; a token means "look"; full: drop, one is enough

	mu     sync.Mutex
	urgent []*request // before all others
	queue  []*request
	used   [classes]int64
	budget int64
	closed bool
	taken  int           // by the writer, and not answered
	room   chan struct{} // closed and replaced when weight is returned
}

func newIntake(budget int64) *intake {
	return &intake{budget: budget, wake: make(chan struct{}, 1), room: make(chan struct{})}
}

// bytes is the weight of all that was admitted and is not answered.
func (q *intake) bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total()
}

func (q *intake) total() (n int64) {
	for _, used := range q.used {
		n += used
	}
	return n
}

// limits returns what requests of one class may use, and what all may use
// together when one of that class is admitted. An eighth of the budget is left
// to urgent ones; neither this host nor the others can take all of the rest.
func (q *intake) limits(c class) (own, all int64) {
	eighth := q.budget / 8
	switch c {
	case urgent:
		return q.budget, q.budget
	case foreign:
		return 4 * eighth, 7 * eighth
	}
	return 6 * eighth, 7 * eighth
}

// put admits r, waiting for room until ctx ends.
func (q *intake) put(ctx context.Context, r *request) error {
	own, all := q.limits(r.class)
	r.weight = min(max(r.weight, minWeight), own)
	for {
		q.mu.Lock()
		if r.began.IsZero() && len(q.urgent)+len(q.queue) == 0 {
			r.began = time.Now() // not each one's: that would cost more than the queue
		}
		if q.closed {
			q.mu.Unlock()
			return ErrClosed
		}
		if q.used[r.class]+r.weight <= own && q.total()+r.weight <= all && (r.class == urgent || len(q.queue) < maxQueued) {
			q.used[r.class] += r.weight
			if r.class == urgent {
				q.urgent = append(q.urgent, r)
			} else {
				q.queue = append(q.queue, r)
			}
			q.mu.Unlock()
			q.poke()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		if r.began.IsZero() {
			r.began = time.Now()
		}
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

// take removes what fits into one commit group and appends it to batch, urgent
// requests first. It takes at least one of each queue, so that neither can
// starve the other.
func (q *intake) take(batch []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var bytes int64
	records := 0
	grab := func(queue *[]*request) {
		n := 0
		for _, r := range *queue {
			if n > 0 && (bytes+r.weight > groupBytes || records+r.records > groupRecords) {
				break
			}
			bytes += r.weight
			records += r.records
			r.taken = true
			q.taken++
			n++
		}
		batch = append(batch, (*queue)[:n]...)
		rest := copy(*queue, (*queue)[n:])
		clear((*queue)[rest:])
		*queue = (*queue)[:rest]
	}
	grab(&q.urgent)
	grab(&q.queue)
	return batch
}

// empty says that nothing is queued.
func (q *intake) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.urgent)+len(q.queue) == 0
}

// cancel removes r if the writer has not taken it yet.
func (q *intake) cancel(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.taken {
		return false
	}
	queue := &q.queue
	if r.class == urgent {
		queue = &q.urgent
	}
	for i, x := range *queue {
		if x == r {
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
			q.used[r.class] -= r.weight
			q.freedLocked()
			return true
		}
	}
	return false
}

// giveBack returns the weight of finished requests.
func (q *intake) giveBack(batch []*request) {
	q.mu.Lock()
	for _, r := range batch {
		q.used[r.class] -= r.weight
	}
	q.taken -= len(batch)
	q.freedLocked()
	q.mu.Unlock()
}

func (q *intake) freedLocked() {
	close(q.room)
	q.room = make(chan struct{})
}

// close refuses everything from now on, until open. What is queued stays.
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

// open admits again after close.
func (q *intake) open() {
	q.mu.Lock()
	q.closed = false
	q.mu.Unlock()
}
