package scheduler

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/after"
	"github.com/skein-project/skein/scheduler/left"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/scheduler/waits"
)

const (
	// sweepEvery is how often ended jobs are looked through, maxSweep how many
	// one event forgets. A job is not kept for longer than forgetLatest after its time.
	sweepEvery   = 10 * time.Second
	maxSweep     = 256
	forgetLatest = 7 * 24 * time.Hour
)

// jobs is which jobs there are: the open ones, and with the log all that were
// submitted and are not forgotten.
type jobs struct {
	log     Log
	specs   map[job.ID]owned        // of open jobs
	created map[job.ID]cluster.Hash // fingerprints of jobs submitted in this run
	swept   time.Duration           // when ended jobs were looked through; 0: never
	looked  time.Duration           // when those that wait were; 0: never
	waits   waits.Log               // what the log was told of them
	flows   *runs.Runs              // of workflows, whose steps are jobs
	left    *left.Results           // by attempts, beside their results
	reserved
	after after.Jobs // those that wait for others, which the plan does not have
}

// owned is a job that somebody owns.
type owned struct {
	spec  job.Spec
	owner string
}

func newJobs(log Log, unaware func(event.Kind) []cluster.NodeID) *jobs {
	return &jobs{log: log, specs: make(map[job.ID]owned), created: make(map[job.ID]cluster.Hash), left: left.New(left.Log{
		Unaware: unaware,
		Logged:  func(id job.ID) (n int) { log.View(func(s *state.State) { n = len(s.JobLogs(id)) }); return n },
		Bytes:   func(id job.ID) (n int64) { log.View(func(s *state.State) { n = s.OutputBytes(id) }); return n },
	})}
}

// load takes over the open jobs of the log and returns them, with their ages at
// now.
func (js *jobs) load(now time.Time) []step.JobAdded {
	var open []step.JobAdded
	js.log.View(func(st *state.State) {
		for _, j := range st.Jobs() {
			if j.State.Final() {
				continue
			}
			a := addedOf(st, j.ID)
			a.Age = max(0, now.Sub(j.Submitted.Time()))
			open = append(open, a)
		}
	})
	for _, j := range open {
		js.specs[j.Job] = owned{j.Spec, j.Owner}
	}
	return open
}

// add takes in a job that was submitted.
func (js *jobs) add(id job.ID, j owned, fingerprint cluster.Hash) {
	js.created[id] = fingerprint
	js.specs[id] = j
}

// end takes in that a job has ended.
func (js *jobs) end(id job.ID) {
	delete(js.specs, id)
	js.after.Ended(id)
}

// open reports that a job has not ended.
func (js *jobs) open(id job.ID) bool {
	_, ok := js.specs[id]
	return ok
}

// fingerprint is that of the spec of a job, if there is one.
func (js *jobs) fingerprint(id job.ID) (f cluster.Hash, ok bool) {
	if f, ok = js.created[id]; ok {
		return f, true
	}
	js.log.View(func(st *state.State) {
		var j state.Job
		if j, ok = st.Job(id); ok {
			f = j.Spec.Fingerprint()
		}
	})
	return f, ok
}

// spec is that of a job as it was logged, or else asked.
func (js *jobs) spec(id job.ID, asked job.Spec) job.Spec {
	if j, ok := js.specs[id]; ok {
		return j.spec
	}
	js.log.View(func(st *state.State) {
		if j, ok := st.Job(id); ok {
			asked = j.Spec
		}
	})
	return asked
}

// notOpen says why a job cannot be changed: ErrJobOver, with how it ended if the log
// has that here, or ErrUnknownJob.
func (js *jobs) notOpen(id job.ID) error {
	var j state.Job
	_, created := js.created[id]
	known := false
	js.log.View(func(st *state.State) { j, known = st.Job(id) })
	switch {
	case known && j.State.Final():
		return fmt.Errorf("%w: it is %s", ErrJobOver, j.State)
	case known, created:
		return ErrJobOver
	}
	return ErrUnknownJob
}

// expire returns jobs whose time is over and forgets them. It returns none if it
// did that less than sweepEvery ago.
func (js *jobs) expire(now time.Duration, wall time.Time, may func(job.ID) bool) []job.ID {
	if js.swept != 0 && now-js.swept < sweepEvery {
		return nil
	}
	js.swept = max(now, 1)
	var over []job.ID
	js.log.View(func(st *state.State) {
		latest := st.Expired(cluster.NewHLC(wall.Add(-forgetLatest), 0), math.MaxInt)
		over = slices.DeleteFunc(st.Expired(cluster.NewHLC(wall, 0), math.MaxInt), func(id job.ID) bool {
			_, late := slices.BinarySearch(latest, id)
			return !late && !may(id)
		})
	})
	over = over[:min(len(over), maxSweep)]
	for _, id := range over {
		delete(js.created, id)
	}
	return over
}

// resume are the checkpoints from which new attempts may go on. One that checks what
// another host computed does it alone.
func (js *jobs) resume(spec job.Spec, a step.Assign) (out []stream.Resume) {
	if !spec.Checkpoint || a.Why == step.WhyFirst || a.Why == step.WhyCheck || cluster.IsOutside(a.Worker) {
		return nil
	}
	js.log.View(func(st *state.State) {
		for _, c := range a.Chunks {
			if s, ok := st.Checkpoint(a.Job, c.Chunk); ok && (!spec.Replication.On() || s.Worker == a.Worker) {
				out = append(out, stream.Resume{Chunk: c.Chunk, Checkpoint: s.Checkpoint})
			}
		}
	})
	return out
}
