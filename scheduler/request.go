package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/trials"
	"github.com/skein-project/skein/scheduler/weight"
)

const (
	maxRequests = 64
)

// request is what a caller asks of the loop; exactly one of its fields
// before reply is set. The loop answers every request that it was given once.
type request struct {
	submit  *submission
	stop    *event.JobStopped
	set     event.Register
	release *step.JobReleased
	flow    *runs.Request
	explain job.ID
	quiesce bool
	reply   chan reply // capacity 1
}

type reply struct {
	created bool
	spec    job.Spec // of a submission, as it is logged
	chunks  int
	why     Waiting
	flow    runs.Answer
	seq     uint64 // own event after which the answer is stable, 0: it is already
	err     error
}

// submission is a job to be made. One that no worker can run is refused unless
// it is to wait for a worker.
type submission struct {
	event.JobSubmitted
	waits bool
	tried bool    // there was a trial, or there is to be none
	rate  float64 // that it gave, 0: none
}

// ask hands r to the loop and waits for its answer.
func (s *Scheduler) ask(ctx context.Context, r request) (reply, error) {
	r.reply = make(chan reply, 1)
	s.mu.Lock()
	t := s.term
	if t == nil {
		s.mu.Unlock()
		return reply{}, ErrNotHolder
	}
	taken := t.inbox.put(r) // the term is not over while it is s.term
	s.mu.Unlock()
	if !taken {
		s.m.busy.Inc()
		return reply{}, ErrBusy
	}
	select {
	case a := <-r.reply:
		return a, a.err
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
}

// settle waits until the answer survives the loss of this host.
func (s *Scheduler) settle(ctx context.Context, seq uint64) (voters int, err error) {
	voters, err = s.o.Log.WaitStable(ctx, seq)
	if err != nil && seq > 0 {
		return voters, fmt.Errorf("%w: durable here, not known to be stable: %w", ErrUnknownOutcome, err)
	}
	return max(1, voters), nil
}

// Submit creates the job that owner asks for under spec.Key, or finds it: the
// same key and the same spec name the same job, for ever. Zero fields of spec
// take their defaults. It answers when wait is true. A job that no worker may ever run
// is refused by a *NoWorkerError, unless forWorker says that it is to wait for one.
// Errors wrap job.ErrSpec, ErrNoWorker, ErrKeyReused, ErrNotHolder, ErrBusy, ErrNoRoom
// (then nothing was logged) or ErrUnknownOutcome.
func (s *Scheduler) Submit(ctx context.Context, spec job.Spec, owner string, wait Wait, forWorker bool) (Submission, error) {
	spec = spec.WithDefaults()
	out := Submission{Job: job.NewID(owner, spec.Key)}
	wrap := func(err error) (Submission, error) {
		return Submission{}, fmt.Errorf("submit job %s: %w", out.Job, err)
	}
	if err := checkSubmit(spec, owner, wait); err != nil {
		return wrap(err)
	}
	b := submission{JobSubmitted: event.JobSubmitted{Job: out.Job, Spec: spec, Owner: owner, Chunks: spec.Chunks()}, waits: forWorker}
	a, err := s.ask(ctx, request{submit: &b})
	if errors.Is(err, errUnmeasured) {
		a, err = s.tryAndAsk(ctx, b)
	}
	if err != nil {
		return wrap(err)
	}
	out.Spec = a.spec
	out.Created, out.Voters = a.created, 1
	if wait == WaitStable {
		if out.Voters, err = s.settle(ctx, a.seq); err != nil {
			return wrap(err)
		}
	}
	return out, nil
}

// tryAndAsk measures the work of a job before it is submitted. There is one trial at a
// time, of the owners in turn; what others measured meanwhile needs none.
func (s *Scheduler) tryAndAsk(ctx context.Context, b submission) (reply, error) {
	waiting, cancel := context.WithTimeout(ctx, trials.Time)
	defer cancel()
	if trying, leave, ok := s.trials.Begin(waiting, b.Owner); ok {
		defer leave()
		if a, err := s.ask(ctx, request{submit: &b}); !errors.Is(err, errUnmeasured) {
			return a, err
		}
		b.rate = s.o.Trial(trying, b.Spec)
	}
	b.tried = true
	return s.ask(ctx, request{submit: &b})
}

func checkSubmit(spec job.Spec, owner string, wait Wait) error {
	if owner == "" || len(owner) > weight.MaxOwner {
		return fmt.Errorf("%w: owner has %d bytes, want 1-%d", job.ErrSpec, len(owner), weight.MaxOwner)
	}
	if wait != WaitLocal && wait != WaitStable {
		return fmt.Errorf("%w: wait is %q, want %s or %s", job.ErrSpec, wait, WaitLocal, WaitStable)
	}
	if strings.HasPrefix(spec.Key, flow.KeyPrefix) {
		return fmt.Errorf("%w: key begins with %s, as those of workflows do", job.ErrSpec, flow.KeyPrefix)
	}
	return spec.Validate()
}

// Stop ends a job that actor wants to end, and answers when that is stable.
// Errors wrap ErrUnknownJob, ErrJobOver, ErrNotHolder, ErrBusy or
// ErrUnknownOutcome.
func (s *Scheduler) Stop(ctx context.Context, id job.ID, actor, reason string) error {
	a, err := s.ask(ctx, request{stop: &event.JobStopped{
		Job: id, Actor: actor[:min(len(actor), weight.MaxOwner)], Reason: reason[:min(len(reason), cluster.MaxReason/2)],
	}})
	if err == nil {
		_, err = s.settle(ctx, a.seq)
	}
	if err != nil {
		return fmt.Errorf("stop job %s: %w", id, err)
	}
	return nil
}

// Release lets the chunks of an open job that were given up be tried again, and
// answers how many these are when that is stable. Errors wrap ErrUnknownJob,
// ErrJobOver, ErrNotHolder, ErrBusy or ErrUnknownOutcome; then it may be
// repeated.
func (s *Scheduler) Release(ctx context.Context, id job.ID, actor string) (chunks int, err error) {
	a, err := s.ask(ctx, request{release: &step.JobReleased{Job: id, Actor: actor[:min(len(actor), weight.MaxOwner)]}})
	if err == nil {
		_, err = s.settle(ctx, a.seq)
	}
	if err != nil {
		return 0, fmt.Errorf("release chunks of job %s: %w", id, err)
	}
	return a.chunks, nil
}

// Explain says what keeps each worker from an open job now; Since is zero if something
// of it runs, or nothing is to be done. Errors wrap ErrUnknownJob, ErrJobOver,
// ErrNotHolder or ErrBusy.
func (s *Scheduler) Explain(ctx context.Context, id job.ID) (Waiting, error) {
	a, err := s.ask(ctx, request{explain: id})
	if err != nil {
		return Waiting{}, fmt.Errorf("explain job %s: %w", id, err)
	}
	return a.why, nil
}

// Set logs what a register is to say: a group, a user, whose a host is. It answers
// when that is stable. Errors wrap job.ErrSpec, ErrMany, *UnawareError, ErrNoRoom,
// ErrNotHolder, ErrBusy or ErrUnknownOutcome; then it may be repeated.
func (s *Scheduler) Set(ctx context.Context, b event.Register) error {
	err := b.Check()
	if err != nil {
		err = fmt.Errorf("%w: %w", job.ErrSpec, err)
	} else {
		var a reply
		if a, err = s.ask(ctx, request{set: b}); err == nil {
			_, err = s.settle(ctx, a.seq)
		}
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", b.Subject(), err)
	}
	return nil
}

// Quiesce makes the running term decide nothing more, and answers when all
// that it decided is stable. Workers keep what they finish for the next
// holder. Run goes on until its context ends. Errors wrap ErrNotHolder,
// ErrBusy or ErrUnknownOutcome.
func (s *Scheduler) Quiesce(ctx context.Context) error {
	a, err := s.ask(ctx, request{quiesce: true})
	if err == nil && a.seq > 0 {
		_, err = s.settle(ctx, a.seq)
	}
	if err != nil {
		return fmt.Errorf("quiesce scheduler: %w", err)
	}
	return nil
}
