package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/runs"
)

// Flow submits, stops or retries a run of a workflow, and answers when that is stable.
// Errors wrap those of package runs, *UnawareError, ErrNoRoom, ErrNotHolder, ErrBusy or
// ErrUnknownOutcome; then it may be repeated.
func (s *Scheduler) Flow(ctx context.Context, q runs.Request) (runs.Answer, error) {
	a, err := s.ask(ctx, request{flow: &q})
	if err == nil {
		_, err = s.settle(ctx, a.seq)
	}
	return a.flow, err
}

// flowHost is a term as its runs see it.
type flowHost struct{ *term }

func (h flowHost) ask(q runs.Request) (runs.Answer, error) {
	if who := h.o.Unaware(q.Kind()); len(who) > 0 {
		return runs.Answer{}, &UnawareError{Kind: q.Kind(), Nodes: who}
	}
	if h.lookForRoom(); h.held && !q.Kind().Essential() {
		return runs.Answer{}, ErrNoRoom
	}
	return h.jobs.flows.Ask(q)
}

func (h flowHost) ID() cluster.Term             { return h.id }
func (h flowHost) Draft(d event.Draft)          { h.batch.add(d) }
func (h flowHost) View(f func(st *state.State)) { h.o.Log.View(f) }
func (h flowHost) Now() time.Duration           { return h.o.Now() }
func (h flowHost) Wall() time.Time              { return h.o.Wall() }
func (h flowHost) Begins() bool                 { return h.tells(event.KindScheduleFired) }
func (h flowHost) Keeps() bool                  { return len(h.o.Unaware(event.KeptJobs())) == 0 }
func (h flowHost) Holds() bool                  { return len(h.o.Unaware(event.HeldJobs())) == 0 }
func (h flowHost) Conclude(id job.ID)           { h.step(step.JobConcluded{Job: id}) }

func (h flowHost) Release(id job.ID) {
	_, _ = h.release(step.JobReleased{Job: id, Actor: holderActor}) // or it has ended
}

func (h flowHost) Released(id job.ID, since time.Duration) {
	h.m.service.Released(id, time.Now().Add(since-h.o.Now()))
}

func (h flowHost) StopJob(id job.ID) {
	_ = h.stopJob(event.JobStopped{Job: id, Actor: holderActor, Reason: "its workflow ends"}) // or it has ended
}

func (h flowHost) Submit(b event.JobSubmitted) error {
	_, _, err := h.submit(submission{JobSubmitted: b, waits: true, tried: true})
	if r, ok := errors.AsType[*fair.Refusal](err); ok {
		return r
	}
	if errors.Is(err, ErrNoRoom) {
		return fmt.Errorf("%w: %w", runs.ErrLater, err)
	}
	return err
}
