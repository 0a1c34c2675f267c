package runs

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
)

const (
	// holdFor is how long jobs that failed in part wait for a retry of their run, maxHolds how
	// many of all runs that have ended.
	holdFor  = 24 * time.Hour
	maxHolds = 1000
)

// endsOfRuns are when runs ended; those that have not are zero.
type endsOfRuns map[flow.RunID]time.Time

func (e endsOfRuns) add(run flows.Run) {
	e[run.Run] = time.Time{}
	if !run.Open() {
		e[run.Run] = run.Ended.Time()
	}
}

// concludeHeld ends jobs that waited for long enough for a retry of their run, or are too
// many: what they came to stays as it is.
func (r *Runs) concludeHeld(runs endsOfRuns) {
	type one struct {
		id    job.ID
		ended time.Time
	}
	var waiting []one
	for id := range r.holds.why {
		var key string
		r.t.View(func(st *state.State) { j, _ := st.Job(id); key = j.Spec.Key })
		of, ok := flow.RunOf(key)
		ended, known := runs[of]
		switch {
		case !ok:
		case !known:
			waiting = append(waiting, one{id: id}) // it was forgotten
		case !ended.IsZero():
			waiting = append(waiting, one{id, ended})
		}
	}
	slices.SortFunc(waiting, func(a, b one) int { return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.id, b.id)) })
	before := r.t.Wall().Add(-holdFor)
	for i, w := range waiting {
		if w.ended.Before(before) || len(waiting)-i > maxHolds {
			r.t.Conclude(w.id)
		}
	}
}
