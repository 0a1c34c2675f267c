package scheduler

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/after"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
)

const (
	// fullAfter is when a job that waits for others is submitted again, where too many do;
	// maxShown bounds how many of them are shown.
	fullAfter = 10 * time.Second
	maxShown  = 256
)

// heldHost is a term as the jobs see it that wait for others.
type heldHost struct{ *term }

func (h heldHost) State(id job.ID) (s job.State, known bool) {
	h.o.Log.View(func(st *state.State) {
		var j state.Job
		j, known = st.Job(id)
		s = j.State
	})
	if _, created := h.jobs.created[id]; !known && created {
		return job.Pending, true
	}
	return s, known
}

func (h heldHost) Now() time.Duration { return h.o.Now() }

func (h heldHost) Add(a step.JobAdded) { h.step(a) }

func (h heldHost) Hold(id job.ID, why string) {
	h.batch.add(event.Draft{Term: h.id, Kind: event.KindJobQueued, Body: event.JobWaiting{Job: id, Reason: why}})
}

func (h heldHost) End(id job.ID, s job.State, why string) {
	f := step.Finish{Job: id, State: s, Reason: why[:min(len(why), cluster.MaxReason)]}
	d, _ := draftOf(h.id, f)
	h.batch.add(d)
	h.batch.actions = append(h.batch.actions, f)
}

// stopHeld stops a job that waits for others, if it is one.
func (h heldHost) stopHeld(b event.JobStopped, why string) bool {
	_, ok := h.jobs.after.Take(b.Job)
	if ok {
		h.batch.add(event.Draft{Term: h.id, Kind: event.KindJobStopped, Body: b})
		h.End(b.Job, b.Cause.State(), why)
	}
	return ok
}

// tendHeld ends jobs whose deadline comes while they wait for others.
func (h heldHost) tendHeld() {
	if h.jobs.after.Len() == 0 {
		return
	}
	for _, id := range h.jobs.after.Late(h.o.Now()) {
		h.stopHeld(event.JobStopped{Job: id, Actor: holderActor, Reason: "deadline", Cause: job.StopDeadline}, "deadline")
	}
}

func (h heldHost) heldJob(one after.Held, why string) Waiting {
	return Waiting{
		Job: one.Job, Since: wallOf(one.Since, h.o.Now(), h.o.Wall()), Why: eligible.Explanation{Job: eligible.Obstacle{Reason: eligible.After, Text: why}},
	}
}

// heldJobs are the jobs that wait for others, as those that wait for workers are shown.
func (h heldHost) heldJobs() (out []Waiting) {
	if h.jobs.after.Len() > 0 {
		for _, one := range h.jobs.after.All() {
			if len(out) < maxShown {
				out = append(out, h.heldJob(one, fmt.Sprintf("waits for %d other jobs", len(one.Spec.After))))
			}
		}
	}
	return out
}
