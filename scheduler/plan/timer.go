package plan

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/scheduler/plan/order"
)

// timer is a time at which something is looked at. It is part of what it is
// for, so that setting it takes no memory.
type timer struct {
	at    time.Duration
	pos   int // in the heap, see order.Element
	order uint64
	// One of these is set.
	try    *try
	worker *worker
	job    *openJob
	chunk  int // with job: a chunk that may be tried again, -1: the job itself
}

func (t *timer) Before(o *timer) bool {
	if t.at != o.at {
		return t.at < o.at
	}
	return t.order < o.order
}

func (t *timer) Place() *int { return &t.pos }

// timers are those that are set; at one time, the one that was set first comes
// first.
type timers struct {
	heap  order.Heap[*timer]
	armed uint64
}

// set arms t, or moves it.
func (h *timers) set(t *timer, at time.Duration) {
	h.armed++
	t.at, t.order = at, h.armed
	h.heap.Fix(t)
}

// stop disarms t, if it is armed.
func (h *timers) stop(t *timer) { h.heap.Remove(t) }

// due disarms and returns the first timer whose time has come, or nil.
func (h *timers) due(now time.Duration) *timer {
	t, ok := h.heap.Least()
	if !ok || t.at > now {
		return nil
	}
	h.heap.Remove(t)
	return t
}

// next is when the first timer is due; ok is false if none is set.
func (h *timers) next() (at time.Duration, ok bool) {
	if t, some := h.heap.Least(); some {
		return t.at, true
	}
	return 0, false
}

func (h *timers) check() error {
	if i := h.heap.Misplaced(); i >= 0 {
		return fmt.Errorf("timer %d is out of place", i)
	}
	return nil
}
