package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

const (
	// stopLapse is how long a job that is to end waits for a worker that it
	// cannot reach: by then the worker has fenced itself.
	stopLapse = 60 * time.Second
	// stopAgain is how often a worker is asked again to stop a job, and
	// stopSettles how old the order must be for a Status to answer it: one that
	// crossed it does not count.
	stopAgain   = 5 * time.Second
	stopSettles = time.Second
)

// stopping is a job that is to end and whose attempts may still run: its end is
// logged when every worker that had some confirmed that they stopped, or is
// fenced off.
type stopping struct {
	finish step.Finish
	waits  map[cluster.NodeID]*stopWait
	since  time.Duration
}

type stopWait struct {
	seq uint64        // of the last Cancel; 0: none was sent
	at  time.Duration // when it was sent
}

// stops is the jobs that are to end.
type stops map[job.ID]*stopping

// hold keeps an end back until the workers confirmed.
func (ss stops) hold(f step.Finish, workers []cluster.NodeID, now time.Duration) {
	s := &stopping{finish: f, waits: make(map[cluster.NodeID]*stopWait), since: now}
	for _, n := range workers {
		s.waits[n] = &stopWait{}
	}
	ss[f.Job] = s
}

// take returns the end of a job that was held back, and forgets it.
func (ss stops) take(id job.ID) step.Finish {
	f := ss[id].finish
	delete(ss, id)
	return f
}

// ordered takes in that a worker was ordered to stop a job, or a part of it.
func (ss stops) ordered(id job.ID, n cluster.NodeID, seq uint64, now time.Duration) {
	if s, ok := ss[id]; ok {
		if w, ok := s.waits[n]; ok {
			w.seq, w.at = seq, now
		}
	}
}

// stopped takes in that a worker says that it stopped what an order named, and
// reports that the job can end now.
func (ss stops) stopped(n cluster.NodeID, m stream.Stopped) (over bool) {
	if s, ok := ss[m.Job]; ok {
		if w, ok := s.waits[n]; ok && w.seq == m.Seq {
			return s.confirm(n)
		}
	}
	return false
}

// confirm takes in that a worker stopped, and reports that none is left.
func (s *stopping) confirm(n cluster.NodeID) (over bool) {
	delete(s.waits, n)
	return len(s.waits) == 0
}

// runs takes what a worker says that it runs, in its Welcome (whole) or in a
// Status, as an answer to the orders that it has had for long enough. It returns
// the jobs that can end now, and those that the worker has to be told to stop
// again.
func (ss stops) runs(n cluster.NodeID, refs []job.Attempt, whole bool, now time.Duration) (over, again []job.ID) {
	for _, id := range slices.Sorted(maps.Keys(ss)) {
		s := ss[id]
		w, ok := s.waits[n]
		if !ok || !whole && (w.seq == 0 || now-w.at < stopSettles) {
			continue
		}
		if !slices.ContainsFunc(refs, func(r job.Attempt) bool { return r.Job == id }) {
			if s.confirm(n) {
				over = append(over, id)
			}
		} else if whole {
			again = append(again, id)
		}
	}
	return over, again
}

// tend looks after one job that is to end: the workers that may not run it any
// more, or do not answer, are not waited for. It returns these, and the workers
// that have to be told again.
func (s *stopping) tend(now time.Duration, mayRun, connected func(cluster.NodeID) bool) (silent []string, again []cluster.NodeID) {
	lapsed := now-s.since >= stopLapse
	for _, n := range slices.Sorted(maps.Keys(s.waits)) {
		w := s.waits[n]
		switch {
		case lapsed, !mayRun(n):
			silent = append(silent, string(n))
			delete(s.waits, n)
		case connected(n) && now-w.at >= stopAgain:
			again = append(again, n)
		}
	}
	return silent, again
}

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
	t.stops.hold(f, workers, t.o.Now())
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
	t.stops.ordered(a.Job, a.Worker, t.s.orders, t.o.Now())
	t.links.push(a.Worker, stream.Frame{Cancel: &stream.Cancel{Term: t.id, Seq: t.s.orders, Job: a.Job, Chunks: onWire(a.Chunks)}})
}

// runs takes what a worker says that it runs.
func (t *term) runs(n cluster.NodeID, refs []job.Attempt, whole bool) {
	if len(t.stops) == 0 {
		return
	}
	over, again := t.stops.runs(n, refs, whole, t.o.Now())
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
	f := t.stops.take(id)
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
		silent, again := s.tend(now, t.mayRun, func(n cluster.NodeID) bool { return t.links.reach(n) != nil })
		for _, n := range again {
			t.cancel(step.Cancel{Worker: n, Job: id})
		}
		if len(s.waits) > 0 {
			continue
		}
		if len(silent) > 0 {
			s.finish.Reason = clipReason(fmt.Sprintf("%s; not confirmed by %s", s.finish.Reason, strings.Join(silent, ", ")))
			t.log.Warn().Str("job", string(id)).Strs("peers", silent).Msg("job ends without confirmation by some workers")
		}
		t.end(id)
	}
}

func clipReason(s string) string { return s[:min(len(s), cluster.MaxReason)] }
