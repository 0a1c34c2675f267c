package scheduler

import (
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// batch is what one round of the loop decided and has not carried out. Results
// and assignments of one job are gathered in one event each: what becomes of a
// job does not depend on the order of its events.
type batch struct {
	drafts  []event.Draft
	actions []step.Action
	replies []pendingReply
	logging bool      // an append was tried
	began   time.Time // when the plan got its first event; zero: none

	accepts, assigns map[job.ID]int // drafts that take more of the job
}

// maxEntries bounds the results or assignments in one event, maxCells the metrics
// and files of the results.
const (
	maxEntries = 512
	maxCells   = 4096
)

// add gathers d.
func (b *batch) add(d event.Draft) {
	switch body := d.Body.(type) {
	case event.ChunksAccepted:
		if i, ok := b.accepts[body.Job]; ok {
			have := b.drafts[i].Body.(event.ChunksAccepted)
			if len(have.Accepts)+len(body.Accepts) <= maxEntries && cells(body.Accepts[0].Result)*len(have.Accepts) < maxCells {
				have.Accepts = append(have.Accepts, body.Accepts...)
				b.drafts[i].Body = have
				return
			}
		}
		if b.accepts == nil {
			b.accepts = make(map[job.ID]int)
		}
		b.accepts[body.Job] = len(b.drafts)
	case event.ChunksAssigned:
		if i, ok := b.assigns[body.Job]; ok {
			have := b.drafts[i].Body.(event.ChunksAssigned)
			if len(have.Assignments)+len(body.Assignments) <= maxEntries {
				have.Assignments = append(have.Assignments, body.Assignments...)
				b.drafts[i].Body = have
				return
			}
		}
		if b.assigns == nil {
			b.assigns = make(map[job.ID]int)
		}
		b.assigns[body.Job] = len(b.drafts)
	case event.JobDone:
		// Nothing of the job may follow its end.
		delete(b.accepts, body.Job)
		delete(b.assigns, body.Job)
	}
	b.drafts = append(b.drafts, d)
}

func cells(r job.ChunkResult) int { return len(r.Metrics) + len(r.Outputs) }
