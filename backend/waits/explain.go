package waits

import (
	"context"
	"errors"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/present"
	"github.com/skein-project/skein/scheduler"
)

// Explain implements status.JobControl: the holder says it.
func (w *Waits) Explain(ctx context.Context, id job.ID) (api.JobExplanation, error) {
	out, err := forward.AskHolder(ctx, w.o.Remote, forward.Explain, "", forward.JobName{Job: id})
	out.Header = api.Header{}
	return out, err
}

// ServeExplain says what keeps each worker from a job, by the scheduler of this host.
func (w *Waits) ServeExplain(ctx context.Context, _ forward.Asker, req forward.JobName) (api.JobExplanation, error) {
	j, err := w.o.Job(ctx, req.Job)
	if err != nil {
		return api.JobExplanation{}, err
	}
	if j.State.Final() {
		return explain(j, scheduler.Waiting{}), nil
	}
	why, err := w.o.Scheduler.Explain(ctx, req.Job)
	if err != nil && !errors.Is(err, scheduler.ErrJobOver) { // it is about to end
		return api.JobExplanation{}, err
	}
	return explain(j, why), nil
}

// explain joins what the scheduler says of the workers, and what the log says of them;
// w is nothing if the scheduler has nothing to do with the job.
func explain(j api.Job, w scheduler.Waiting) api.JobExplanation {
	out := api.JobExplanation{
		Job: j.ID, State: j.State, Holder: j.Holder, Term: j.Term, Reasons: []api.WaitReason{}, Workers: []api.ExplainedWorker{},
	}
	if w.Job == "" {
		return out
	}
	of := make(map[cluster.NodeID]api.JobWorker, len(j.Workers))
	for _, x := range j.Workers {
		of[x.Node] = x
	}
	why := convert.Waiting(w.Why, w.Since)
	out.Waits, out.Eligible, out.Reasons = present.Waiting(why), why.Eligible, why.Reasons
	if !w.Since.IsZero() {
		out.Since, out.Hint = &why.Since, why.Hint
	}
	rows := w.Why.Rows()
	out.Omitted = max(0, len(rows)-api.MaxWorkers)
	for _, r := range rows[:len(rows)-out.Omitted] {
		out.Workers = append(out.Workers, api.ExplainedWorker{
			Node: r.Node, Eligible: r.Eligible, Reason: string(r.Reason), Text: r.Text, Assigned: of[r.Node].Assigned, Accepted: of[r.Node].Accepted,
		})
	}
	return out
}
