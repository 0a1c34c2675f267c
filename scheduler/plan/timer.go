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
	if len(h.heap.Items()) == 0 || h.heap.Items()[0].at > now {
		return nil
	}
	t := h.heap.Items()[0]
	h.heap.Remove(t)
	return t
}

// next is when the first timer is due; ok is false if none is set.
func (h *timers) next() (at time.Duration, ok bool) {
	if len(h.heap.Items()) == 0 {
		return 0, false
	}
	return h.heap.Items()[0].at, true
}

func (h *timers) check() error {
	for i, t := range h.heap.Items() {
		if t.pos != i+1 || i > 0 && t.Before(h.heap.Items()[(i-1)/2]) {
			return fmt.Errorf("timer %d is out of place", i)
		}
	}
	return nil
}
