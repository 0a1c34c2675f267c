package stops

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

const (
	// Lapse is how long a job that is to end waits for a worker that it
	// cannot reach: by then the worker has fenced itself.
	Lapse = 60 * time.Second
	// Again is how often a worker is asked again to stop a job.
	Again = 5 * time.Second
	// Settles is how old the order must be for a Status to answer it: one that crossed it
	// does not count.
	Settles = time.Second
)

// Stopping is a job that is to end and whose attempts may still run: its end is
// logged when every worker that had some confirmed that they stopped, or is
// fenced off.
type Stopping struct {
	Finish step.Finish
	waits  map[cluster.NodeID]*wait
	since  time.Duration
}

type wait struct {
	seq uint64        // of the last Cancel; 0: none was sent
	at  time.Duration // when it was sent
}

// Jobs are those that are to end.
type Jobs map[job.ID]*Stopping

// Hold keeps an end back until the workers confirmed.
func (ss Jobs) Hold(f step.Finish, workers []cluster.NodeID, now time.Duration) {
	s := &Stopping{Finish: f, waits: make(map[cluster.NodeID]*wait), since: now}
	for _, n := range workers {
		s.waits[n] = &wait{}
	}
	ss[f.Job] = s
}

// Take returns the end of a job that was held back, and forgets it.
func (ss Jobs) Take(id job.ID) step.Finish {
	f := ss[id].Finish
	delete(ss, id)
	return f
}

// Ordered takes in that a worker was ordered to stop a job, or a part of it.
func (ss Jobs) Ordered(id job.ID, n cluster.NodeID, seq uint64, now time.Duration) {
	if s, ok := ss[id]; ok {
		if w, ok := s.waits[n]; ok {
			w.seq, w.at = seq, now
		}
	}
}

// Stopped takes in that a worker says that it stopped what an order named, and
// reports that the job can end now.
func (ss Jobs) Stopped(n cluster.NodeID, m stream.Stopped) (over bool) {
	if s, ok := ss[m.Job]; ok {
		if w, ok := s.waits[n]; ok && w.seq == m.Seq {
			return s.confirm(n)
		}
	}
	return false
}

// confirm takes in that a worker stopped, and reports that none is left.
func (s *Stopping) confirm(n cluster.NodeID) (over bool) {
	delete(s.waits, n)
	return len(s.waits) == 0
}

// Runs takes what a worker says that it runs, in its Welcome (whole) or in a
// Status, as an answer to the orders that it has had for long enough. It returns
// the jobs that can end now, and those that the worker has to be told to stop
// again.
func (ss Jobs) Runs(n cluster.NodeID, refs []job.Attempt, whole bool, now time.Duration) (over, again []job.ID) {
	for _, id := range slices.Sorted(maps.Keys(ss)) {
		s := ss[id]
		w, ok := s.waits[n]
		if !ok || !whole && (w.seq == 0 || now-w.at < Settles) {
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

// Tend looks after one job that is to end: the workers that may not run it any
// more, or do not answer, are not waited for. It returns these, and the workers
// that have to be told again.
func (s *Stopping) Tend(now time.Duration, mayRun, connected func(cluster.NodeID) bool) (silent []string, again []cluster.NodeID) {
	lapsed := now-s.since >= Lapse
	for _, n := range slices.Sorted(maps.Keys(s.waits)) {
		w := s.waits[n]
		switch {
		case lapsed, !mayRun(n):
			silent = append(silent, string(n))
			delete(s.waits, n)
		case connected(n) && now-w.at >= Again:
			again = append(again, n)
		}
	}
	return silent, again
}

// Over reports that no worker is waited for any more.
func (s *Stopping) Over() bool { return len(s.waits) == 0 }
