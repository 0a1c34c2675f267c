package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// holdBack keeps the end of a job that was stopped until its workers confirmed.
// It reports false if there is nothing to wait for.
func (t *term) holdBack(f step.Finish, rest []step.Action) bool {
	if f.State != job.Cancelled && f.State != job.TimedOut {
		return false
	}
	var workers []cluster.NodeID
	t.o.Log.View(func(st *state.State) {
		for _, c := range st.Open(f.Job) {
			for _, try := range c.Open {
				if t.mayRun(try.Worker) {
					workers = append(workers, try.Worker)
				}
			}
		}
	})
	for _, a := range rest {
		if c, ok := a.(step.Cancel); ok && c.Job == f.Job && (!cluster.IsOutside(c.Worker) || t.mayRun(c.Worker)) {
			workers = append(workers, c.Worker)
		}
	}
	if len(workers) == 0 {
		return false
	}
	t.stops.Hold(f, workers, t.o.Now())
	return true
}

// mayRun reports whether what was assigned to a worker may still run there, as far as
// anybody waits for it.
func (t *term) mayRun(n cluster.NodeID) bool {
	if cluster.IsOutside(n) {
		return t.links.seats.Awaited(n)
	}
	h, ok := t.links.health[n]
	if !ok {
		// Before the members are met, nobody is known.
		_, member := t.s.members()[n]
		return member
	}
	return h != cluster.Dead && h != cluster.Left
}

// cancel orders a worker to stop a job or some of its chunks.
func (t *term) cancel(a step.Cancel) {
	t.s.orders++
	t.stops.Ordered(a.Job, a.Worker, t.s.orders, t.o.Now())
	t.links.push(a.Worker, stream.Frame{Cancel: &stream.Cancel{Term: t.id, Seq: t.s.orders, Job: a.Job, Chunks: onWire(a.Chunks)}})
}

// runs takes what a worker says that it runs.
func (t *term) runs(n cluster.NodeID, refs []job.Attempt, whole bool) {
	if len(t.stops) == 0 {
		return
	}
	over, again := t.stops.Runs(n, refs, whole, t.o.Now())
	for _, id := range over {
		t.end(id)
	}
	for _, id := range again {
		t.cancel(step.Cancel{Worker: n, Job: id})
	}
}

// end logs the end that was held back.
func (t *term) end(id job.ID) {
	if t.quiet {
		return // the next holder ends it
	}
	f := t.stops.Take(id)
	if d, ok := draftOf(t.id, f); ok {
		t.batch.add(d)
	}
	t.batch.actions = append(t.batch.actions, f)
}

// tendStopping asks again, and waits no longer for who is fenced off.
func (t *term) tendStopping() {
	now := t.o.Now()
	for _, id := range slices.Sorted(maps.Keys(t.stops)) {
		s := t.stops[id]
		silent, again := s.Tend(now, t.mayRun, func(n cluster.NodeID) bool { return t.links.reach(n) != nil })
		for _, n := range again {
			t.cancel(step.Cancel{Worker: n, Job: id})
		}
		if !s.Over() {
			continue
		}
		if len(silent) > 0 {
			s.Finish.Reason = clipReason(fmt.Sprintf("%s; not confirmed by %s", s.Finish.Reason, strings.Join(silent, ", ")))
			t.log.Warn().Str("job", string(id)).Strs("peers", silent).Msg("job ends without confirmation by some workers")
		}
		t.end(id)
	}
}

func clipReason(s string) string { return s[:min(len(s), cluster.MaxReason)] }
