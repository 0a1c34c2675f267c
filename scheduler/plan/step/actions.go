package step

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Actions is what one step leads to, in order. Assignments and cancels are
// gathered, so that one action says as much as it can.
type Actions struct {
	List []Action // good until the next step
	step uint64   // counts the steps
}

// Orders are the actions of one step that assign something to a worker.
type Orders struct {
	step uint64
	at   []int // in Actions.List
}

// Begin forgets what the step before led to.
func (o *Actions) Begin() {
	clear(o.List)
	o.List = o.List[:0]
	o.step++
}

// Emit adds an action.
func (o *Actions) Emit(a Action) { o.List = append(o.List, a) }

// Assign hands out an attempt to a worker whose orders are to.
func (o *Actions) Assign(to *Orders, id job.ID, a job.Attempt, why Why) {
	copies := 0
	if why == WhyDoubt || why == WhyEnd {
		copies = 1
	}
	if to.step != o.step {
		to.step, to.at = o.step, to.at[:0]
	}
	for _, i := range to.at {
		if had := o.List[i].(Assign); had.Job == id && had.Why == why {
			had.Chunks = append(had.Chunks, a)
			had.Copies += copies
			o.List[i] = had
			return
		}
	}
	to.at = append(to.at, len(o.List))
	o.Emit(Assign{Worker: a.Worker, Job: id, Why: why, Chunks: []job.Attempt{a}, Copies: copies})
}

// Cancel stops one attempt at a worker; those of one job at one worker are
// gathered when they follow each other.
func (o *Actions) Cancel(w cluster.NodeID, r job.Attempt, reason string) {
	try := job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: w}
	if n := len(o.List); n > 0 {
		if last, ok := o.List[n-1].(Cancel); ok && last.Worker == w && last.Job == r.Job && len(last.Chunks) > 0 && last.Reason == reason {
			last.Chunks = append(last.Chunks, try)
			o.List[n-1] = last
			return
		}
	}
	o.Emit(Cancel{Worker: w, Job: r.Job, Chunks: []job.Attempt{try}, Reason: reason})
}

// Clip bounds the reason of an action.
func Clip(reason string) string {
	if len(reason) > cluster.MaxReason {
		reason = reason[:cluster.MaxReason]
	}
	return reason
}
