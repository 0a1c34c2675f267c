package backend

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/worker/runner"
)

// Limits of what a submit waits for.
const (
	awaitHolderTime = 10 * time.Second
	awaitJobTime    = 5 * time.Second
	// holderPause is the time between two looks for a holder.
	holderPause = 100 * time.Millisecond
)

// Submit implements status.JobControl: the artefacts go to the voters, so that the
// job survives the loss of this host, then the job goes to the holder. One that runs in
// each of several zones goes there as a run of a workflow.
func (b *jobs) Submit(ctx context.Context, actor string, req api.SubmitRequest) (api.SubmitResponse, error) {
	zoned, err := req.Zoned()
	if err != nil {
		return api.SubmitResponse{}, err
	}
	if req.Spread = ""; zoned != nil {
		req.Wait = api.WaitStable // a run is acknowledged then, and not before
	}
	if err := b.isKnown(req); err != nil {
		return api.SubmitResponse{}, err
	}
	if err := b.checkModule(ctx, req.Spec); err != nil {
		return api.SubmitResponse{}, err
	}
	uploads, err := b.CheckFiles(ctx, req.Spec, actor)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	if err := b.trial.Check(ctx, req.Spec); err != nil {
		return api.SubmitResponse{}, err
	}
	if err := b.awaitHolder(ctx); err != nil {
		return api.SubmitResponse{}, err
	}
	if req.Wait != api.WaitLocal { // which needs to be on the holder's disk only
		if err := b.spread.To(ctx, append(req.Spec.Hashes(), uploads...)); err != nil {
			return api.SubmitResponse{}, err
		}
	}
	if zoned != nil {
		return b.submitZoned(ctx, actor, req.Spec, *zoned)
	}
	out, err := forward.AskHolder(ctx, b.remote, forward.Submit, actor, req)
	if err != nil {
		return out, err
	}
	b.Await(ctx, func(st *state.State) bool { _, known := st.Job(out.Job); return known })
	return out, nil
}

// submitZoned submits a job that runs in each of several zones, which the holder chooses.
func (b *jobs) submitZoned(ctx context.Context, actor string, spec job.Spec, q flow.Zoned) (api.SubmitResponse, error) {
	run, err := b.Runs.SubmitZoned(ctx, actor, spec.Key, q)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	spec.Zones = run.Zones
	return api.SubmitResponse{Run: run.Run, Created: run.Created, Spec: spec, Ack: api.WaitStable, StableVoters: b.view().Lease.Config.Majority()}, nil
}

// isKnown refuses a job that waits for others, is for outside workers or has its zones
// chosen while a member that lives does not know what that is: it would be another job.
func (b *jobs) isKnown(req api.SubmitRequest) (err error) {
	what := "after"
	if len(req.Spec.After) > 0 {
		err = aware(b.view(), event.KindScheduleSet) // of the same version
	}
	if err == nil && req.Spec.Permission.Outside {
		what, err = "permission.outside", aware(b.view(), event.KindWorkerEnrolled)
	}
	if err == nil && req.ZoneCount > 0 {
		what, err = "zone_count", aware(b.view(), event.KindZoneHealth) // of the same version
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		p.Detail = what + ": " + p.Detail
	}
	return err
}

// aware refuses events of a kind that a member which lives does not know.
func aware(v *coord.View, kind event.Kind) error {
	if who := v.Unaware(kind); len(who) > 0 {
		return ProblemOf(&scheduler.UnawareError{Kind: kind, Nodes: who})
	}
	return nil
}

// checkModule refuses a job that cannot run, before anything is logged.
func (b *jobs) checkModule(ctx context.Context, spec job.Spec) error {
	for _, h := range spec.Hashes() {
		if _, ok := b.artefacts.Has(h); ok {
			continue
		}
		if err := b.artefacts.Fetch(ctx, h, nil); err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s is not in the cluster: %v", h, err).
				WithHint("upload it first: PUT /v1/artefacts, or `skein job run --wasm FILE`")
		}
	}
	if spec.Executor == job.ExecutorWASM {
		module, err := b.artefacts.Read(spec.Artefact, job.MaxModuleBytes)
		if err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s: %v", spec.Artefact, err)
		}
		if err := runner.CheckModule(module); err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s: %v", spec.Artefact, err).
				WithHint("compile a WASI command, e.g. GOOS=wasip1 GOARCH=wasm go build")
		}
	}
	if !spec.Config.IsZero() {
		if _, err := b.artefacts.Read(spec.Config, job.MaxConfigBytes); err != nil {
			return api.Errorf(api.CodeInvalidJob, "config %s: %v", spec.Config, err)
		}
	}
	return nil
}

// awaitHolder waits for a short time until a holder is known.
func (b *jobs) awaitHolder(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, awaitHolderTime)
	defer cancel()
	for b.view().Lease.Holder == "" {
		if wait.For(ctx, holderPause) != nil {
			return api.Errorf(api.CodeNoHolder, "no holder is known: nobody may schedule without a majority of the voters").
				WithHint("see `skein lease`; `skein wait --for holder` waits for one")
		}
	}
	return nil
}

// submitHere gives a job to this host's scheduler; this host is the holder.
func (b *jobs) submitHere(ctx context.Context, by forward.Asker, req api.SubmitRequest) (api.SubmitResponse, error) {
	if err := b.isKnown(req); err != nil {
		return api.SubmitResponse{}, err
	}
	if err := b.checkModule(ctx, req.Spec); err != nil {
		return api.SubmitResponse{}, err
	}
	if _, err := b.CheckFiles(ctx, req.Spec, by.Actor); err != nil {
		return api.SubmitResponse{}, err
	}
	until := scheduler.Wait(cmp.Or(req.Wait, api.WaitStable))
	sub, err := b.sched.Submit(ctx, req.Spec, by.Actor, until, req.WaitForWorker)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	return api.SubmitResponse{
		Job: sub.Job, Created: sub.Created, Spec: sub.Spec, Ack: api.Wait(until), StableVoters: sub.Voters,
	}, nil
}

// stopJob has this host's scheduler end a job; this host is the holder.
func (b *jobs) stopJob(ctx context.Context, by forward.Asker, req forward.StopJob) (forward.None, error) {
	return forward.None{}, b.sched.Stop(ctx, req.Job, by.Actor, req.Reason)
}

// release has this host's scheduler try the chunks again that were given up; this
// host is the holder.
func (b *jobs) release(ctx context.Context, by forward.Asker, req forward.ReleaseJob) (forward.Released, error) {
	chunks, err := b.sched.Release(ctx, req.Job, by.Actor)
	return forward.Released{Chunks: chunks}, err
}
