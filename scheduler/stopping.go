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

// holdBack keeps the end of a job that was stopped until its workers confirmed.
// It reports false if there is nothing to wait for.
func (t *term) holdBack(f step.Finish, rest []step.Action) bool {
	if f.State != job.Cancelled && f.State != job.TimedOut {
		return false
	}
	s := &stopping{finish: f, waits: make(map[cluster.NodeID]*stopWait), since: t.o.Now()}
	t.o.Log.View(func(st *state.State) {
		for _, c := range st.Open(f.Job) {
			for _, try := range c.Open {
				if t.mayRun(try.Worker) {
					s.waits[try.Worker] = &stopWait{}
				}
			}
		}
	})
	for _, a := range rest {
		if c, ok := a.(step.Cancel); ok && c.Job == f.Job {
			s.waits[c.Worker] = &stopWait{}
		}
	}
	if len(s.waits) == 0 {
		return false
	}
	t.stopping[f.Job] = s
	return true
}

// mayRun reports whether what was assigned to a host may still run there.
func (t *term) mayRun(n cluster.NodeID) bool {
	h, ok := t.health[n]
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
	if s, ok := t.stopping[a.Job]; ok {
		if w, ok := s.waits[a.Worker]; ok {
			w.seq, w.at = t.s.orders, t.o.Now()
		}
	}
	t.push(a.Worker, stream.Frame{Cancel: &stream.Cancel{Term: t.id, Seq: t.s.orders, Job: a.Job, Chunks: onWire(a.Chunks)}})
}

// stopped takes a worker's word that it stopped what an order named.
func (t *term) stopped(n cluster.NodeID, m stream.Stopped) {
	if s, ok := t.stopping[m.Job]; ok {
		if w, ok := s.waits[n]; ok && w.seq == m.Seq {
			t.confirm(m.Job, n)
		}
	}
}

// runs takes what a worker says that it runs, in its Welcome or in a Status, as
// an answer to the orders that it has had for long enough.
func (t *term) runs(n cluster.NodeID, refs []job.Attempt, whole bool) {
	for _, id := range slices.Sorted(maps.Keys(t.stopping)) {
		w, ok := t.stopping[id].waits[n]
		if !ok || !whole && (w.seq == 0 || t.o.Now()-w.at < stopSettles) {
			continue
		}
		if !slices.ContainsFunc(refs, func(r job.Attempt) bool { return r.Job == id }) {
			t.confirm(id, n)
		} else if whole {
			t.cancel(step.Cancel{Worker: n, Job: id})
		}
	}
}

func (t *term) confirm(id job.ID, n cluster.NodeID) {
	s := t.stopping[id]
	if delete(s.waits, n); len(s.waits) == 0 {
		t.end(id)
	}
}

// end logs the end that was held back.
func (t *term) end(id job.ID) {
	if t.quiet {
		return // the next holder ends it
	}
	f := t.stopping[id].finish
	delete(t.stopping, id)
	if d, ok := draftOf(t.id, f); ok {
		t.batch.add(d)
	}
	t.batch.actions = append(t.batch.actions, f)
}

// tendStopping asks again, and waits no longer for who is fenced off.
func (t *term) tendStopping() {
	now := t.o.Now()
	for _, id := range slices.Sorted(maps.Keys(t.stopping)) {
		s := t.stopping[id]
		lapsed := now-s.since >= stopLapse
		var silent []string
		for _, n := range slices.Sorted(maps.Keys(s.waits)) {
			w := s.waits[n]
			switch l := t.links[n]; {
			case lapsed, !t.mayRun(n):
				silent = append(silent, string(n))
				delete(s.waits, n)
			case l != nil && l.sess != nil && now-w.at >= stopAgain:
				t.cancel(step.Cancel{Worker: n, Job: id})
			}
		}
		if len(s.waits) > 0 {
			continue
		}
		if len(silent) > 0 {
			s.finish.Reason = clipReason(fmt.Sprintf("%s; not confirmed by %s", s.finish.Reason, strings.Join(silent, ", ")))
			t.log.Warn().Str("job", string(id)).Strs("peers", silent).Msg("job ends without word of some workers")
		}
		t.end(id)
	}
}

func clipReason(s string) string { return s[:min(len(s), cluster.MaxReason)] }
