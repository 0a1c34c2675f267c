package backend

import (
	"context"
	"errors"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan/fair"
)

// ProblemOf turns an error of the scheduler into one that a submitter can act on.
func ProblemOf(err error) *api.Problem {
	var p *api.Problem
	if none, ok := errors.AsType[*scheduler.NoWorkerError](err); ok {
		return api.Errorf(api.CodeInvalidJob, "%v", err).
			WithHint("%s. Or let it wait for a worker: --wait-for-worker, wait_for_worker", convert.WaitHint(none.Why))
	}
	if old, ok := errors.AsType[*scheduler.UnawareError](err); ok {
		return api.Errorf(api.CodeConflict, "%v", old).WithHint("upgrade them, see `skein members -o wide`")
	}
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, job.ErrSpec):
		return api.Errorf(api.CodeInvalidJob, "%v", err)
	case errors.Is(err, scheduler.ErrNotHolder), errors.Is(err, scheduler.ErrLeaseLost):
		return api.Errorf(api.CodeNoHolder, "%v", err)
	case errors.Is(err, scheduler.ErrBusy):
		p = api.Errorf(api.CodeOverloaded, "%v", err)
		after := scheduler.RetryAfter
		if refused, ok := errors.AsType[*fair.Refusal](err); ok {
			after = refused.After // the owner's own limit
		}
		p.RetryAfterSeconds = new(after.Seconds())
		return p
	case errors.Is(err, scheduler.ErrNoRoom):
		return api.Errorf(api.CodeOverloaded, "%v", err).WithHint("make room on the holder's disk: `skein doctor` there")
	case errors.Is(err, scheduler.ErrKeyReused):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("choose another --key")
	case errors.Is(err, scheduler.ErrMany):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("set a group without members to end it")
	case errors.Is(err, scheduler.ErrJobOver):
		return api.Errorf(api.CodeConflict, "%v", err)
	case errors.Is(err, scheduler.ErrUnknownJob):
		return api.Errorf(api.CodeNotFound, "%v", err).WithHint("see `skein job ls`")
	case errors.Is(err, scheduler.ErrUnknownOutcome):
		return api.Errorf(api.CodeNotStable, "%v", err).WithHint("retry with the same key: it is the same job")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeTimeout, "%v", err)
	}
	return api.Errorf(api.CodeInternal, "%v", err)
}

// known refuses who is no member.
func known(r Roster) func(cluster.NodeID) error {
	return func(id cluster.NodeID) error {
		if _, ok := r.Member(id); !ok {
			return api.NoMember(id)
		}
		return nil
	}
}
