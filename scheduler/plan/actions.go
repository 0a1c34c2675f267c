package plan

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// actions is what one step leads to, in order. Assignments and cancels are
// gathered, so that one action says as much as it can.
type actions struct {
	list []step.Action // good until the next step
	step uint64        // counts the steps
}

// orders are the actions of one step that assign something to a worker.
type orders struct {
	step uint64
	at   []int // in actions.list
}

// begin forgets what the step before led to.
func (o *actions) begin() {
	clear(o.list)
	o.list = o.list[:0]
	o.step++
}

func (o *actions) emit(a step.Action) { o.list = append(o.list, a) }

// assign hands out an attempt to a worker whose orders are to.
func (o *actions) assign(to *orders, id job.ID, a job.Attempt, why step.Why) {
	copies := 0
	if why == step.WhyDoubt || why == step.WhyEnd {
		copies = 1
	}
	if to.step != o.step {
		to.step, to.at = o.step, to.at[:0]
	}
	for _, i := range to.at {
		if had := o.list[i].(step.Assign); had.Job == id && had.Why == why {
			had.Chunks = append(had.Chunks, a)
			had.Copies += copies
			o.list[i] = had
			return
		}
	}
	to.at = append(to.at, len(o.list))
	o.emit(step.Assign{Worker: a.Worker, Job: id, Why: why, Chunks: []job.Attempt{a}, Copies: copies})
}

// cancel stops one attempt at a worker; those of one job at one worker are
// gathered when they follow each other.
func (o *actions) cancel(w cluster.NodeID, r job.Attempt, reason string) {
	try := job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: w}
	if n := len(o.list); n > 0 {
		if last, ok := o.list[n-1].(step.Cancel); ok && last.Worker == w && last.Job == r.Job && len(last.Chunks) > 0 && last.Reason == reason {
			last.Chunks = append(last.Chunks, try)
			o.list[n-1] = last
			return
		}
	}
	o.emit(step.Cancel{Worker: w, Job: r.Job, Chunks: []job.Attempt{try}, Reason: reason})
}

func clip(reason string) string {
	if len(reason) > cluster.MaxReason {
		reason = reason[:cluster.MaxReason]
	}
	return reason
}
