package backend

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/backend/joblogs"
	"github.com/skein-project/skein/backend/joboutputs"
	"github.com/skein-project/skein/backend/loads"
	"github.com/skein-project/skein/backend/rates"
	"github.com/skein-project/skein/backend/spread"
	"github.com/skein-project/skein/backend/trial"
	"github.com/skein-project/skein/backend/waits"
	"github.com/skein-project/skein/backend/workflows"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/forward/jobwatch"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/status"
)

// fold is the event log as it is folded.
type fold interface {
	View(func(*state.State))
	Changed() <-chan struct{}
}

// jobScheduler changes jobs, on the holder.
type jobScheduler interface {
	Submit(ctx context.Context, spec job.Spec, owner string, wait scheduler.Wait, forWorker bool) (scheduler.Submission, error)
	Stop(ctx context.Context, id job.ID, actor, reason string) error
	Release(ctx context.Context, id job.ID, actor string) (int, error)
	waits.Scheduler
	Workers() []plan.WorkerView
}

// Artefacts are the modules and configs that this host keeps.
type Artefacts interface {
	joboutputs.Artefacts
	Read(h cluster.Hash, limit int64) ([]byte, error)
	Get(ctx context.Context, h cluster.Hash, limit int64) ([]byte, error)
	Put(r io.Reader, limit int64) (cluster.Hash, error)
	Spread(ctx context.Context, h cluster.Hash, to []cluster.NodeID) []cluster.NodeID
}

// jobs submits, shows and stops jobs.
type jobs struct {
	*waits.Waits
	*workflows.Runs
	*joblogs.Logs
	*joboutputs.Outputs
	*loads.Loads
	self      cluster.NodeID
	view      func() *coord.View
	log       fold
	artefacts Artefacts
	spread    *spread.Spreader
	trial     *trial.Trial
	sched     jobScheduler
	remote    *forward.Router
	rates     rates.Tracker
	watches   *jobwatch.Hub
}

// Jobs implements status.JobControl, newest first.
func (b *jobs) Jobs(context.Context) (api.Jobs, error) {
	var jobs []state.Job
	b.log.View(func(s *state.State) { jobs = s.Jobs() })
	out := api.Jobs{Jobs: make([]api.Job, 0, len(jobs))}
	running := rates.Of(b.sched.Workers())
	for _, j := range slices.Backward(jobs) {
		out.Jobs = append(out.Jobs, b.jobOf(j, running[j.ID]))
	}
	return out, nil
}

// Job implements status.JobControl. Why it waits only the holder knows.
func (b *jobs) Job(ctx context.Context, id job.ID) (api.Job, error) {
	j, err := b.jobHere(ctx, id)
	if err == nil && j.Holder != b.self {
		b.There(ctx, &j)
	}
	return j, err
}

// ChunkMap implements status.JobControl.
func (b *jobs) ChunkMap(id job.ID, most int) (api.ChunkRuns, error) {
	var m state.ChunkMap
	ok := false
	b.log.View(func(s *state.State) { m, ok = s.Map(id, most) })
	if !ok {
		return api.ChunkRuns{}, noJob(id)
	}
	return convert.ChunkRuns(m), nil
}

func noJob(id job.ID) error {
	return api.Errorf(api.CodeNotFound, "no job %s", id).WithHint("see `skein job ls`")
}

// jobHere is what this host knows of a job.
func (b *jobs) jobHere(_ context.Context, id job.ID) (api.Job, error) {
	var (
		job  state.Job
		open []state.OpenChunk
		ok   bool
	)
	b.log.View(func(s *state.State) {
		job, ok = s.Job(id)
		open = s.Open(id)
	})
	if !ok {
		return api.Job{}, noJob(id)
	}
	out := b.jobOf(job, rates.Of(b.sched.Workers())[id])
	convert.JobDetails(&out, job, open, b.view())
	b.Here(&out)
	return out, nil
}

// jobOf converts what the list of jobs shows.
func (b *jobs) jobOf(j state.Job, run rates.Running) api.Job {
	v := b.view()
	now := time.Now()
	rate := b.rates.Rate(j, run, now)
	out := convert.Job(j, rate, now)
	if eta := out.ETASeconds; eta != nil {
		*eta = max(0, *eta-float64(run.Done)/rate)
	}
	out.Holder, out.Term = v.Lease.Holder, v.Lease.Term
	return out
}

// WatchJob implements status.JobControl.
func (b *jobs) WatchJob(id job.ID) status.JobWatch { return b.watches.Watch(id) }

// FindJob implements status.JobControl.
func (b *jobs) FindJob(_ context.Context, text, owner string) (job.ID, error) {
	var list []state.Job
	b.log.View(func(s *state.State) { list = s.Jobs() })
	list = slices.DeleteFunc(list, func(j state.Job) bool { return owner != "" && j.Owner != owner })
	return convert.FindJob(list, text)
}

// JobOwner implements status.JobControl.
func (b *jobs) JobOwner(id job.ID) (owner string) {
	b.log.View(func(s *state.State) { j, _ := s.Job(id); owner = j.Owner })
	return owner
}

// Stop implements status.JobControl.
func (b *jobs) Stop(ctx context.Context, actor string, id job.ID, reason string) (api.Job, error) {
	if _, err := forward.AskHolder(ctx, b.remote, forward.Stop, forward.At(actor, b.self), forward.StopJob{Job: id, Reason: reason}); err != nil {
		return api.Job{}, err
	}
	// The holder has logged it; show it once it is here as well. Its end comes late if a host
	// that does not answer has chunks of it.
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		changed := b.log.Changed()
		job, err := b.Job(ctx, id)
		if err != nil || job.State.Final() {
			return job, err
		}
		select {
		case <-changed:
		case <-soon.Done():
			return job, nil
		}
	}
}

// Release implements status.JobControl.
func (b *jobs) Release(ctx context.Context, actor string, id job.ID) (api.Released, error) {
	released, err := forward.AskHolder(ctx, b.remote, forward.Release, forward.At(actor, b.self), forward.ReleaseJob{Job: id})
	return api.Released{Job: id, Chunks: released.Chunks}, err
}

// livingMembers lists the hosts that can be asked.
func livingMembers(v *coord.View) []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range v.Members {
		if m.Health != cluster.Dead && m.Health != cluster.Left {
			out = append(out, m.Node)
		}
	}
	return out
}
