package backend

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/workerlist"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/forward"
)

// Workers implements status.JobControl.
func (w *workers) Workers(ctx context.Context) (api.Workers, error) {
	out, err := forward.AskHolder(ctx, w.remote, forward.Workers, "", forward.None{})
	out.Header = api.Header{}
	return out, err
}

// workerGroups asks the holder. One that is too old for the question is asked for all
// workers.
func workerGroups(ctx context.Context, r *forward.Router) (api.Workers, error) {
	out, err := forward.AskHolder(ctx, r, forward.WorkerGroups, "", forward.None{})
	if !api.IsCode(err, api.CodeConflict) {
		return out, err
	}
	if out, err = forward.AskHolder(ctx, r, forward.Workers, "", forward.None{}); err == nil {
		out.Workers = workerlist.Grouped(out.Workers)
	}
	return out, err
}

// workersHere lists what the scheduler of this host knows of the workers.
func (w *workers) workersHere(context.Context, forward.Asker, forward.None) (api.Workers, error) {
	return w.list(func(all []api.Worker) []api.Worker { return all }), nil
}

// workerGroupsHere is the same, with the outside workers of each gateway as one.
func (w *workers) workerGroupsHere(context.Context, forward.Asker, forward.None) (api.Workers, error) {
	return w.list(workerlist.Grouped), nil
}

// list lists what made makes of all workers.
func (w *workers) list(made func([]api.Worker) []api.Worker) api.Workers {
	v := w.view()
	out := firstOf(w.self, v.Lease.Term, made(workerlist.Of(w.sched.Workers(), w.now())))
	for i, x := range out.Workers {
		m, _ := v.Member(x.Node)
		out.Workers[i].Stopped = m.Stopped
	}
	return out
}

// firstOf has the first api.MaxWorkers of all: more do not fit in a message between hosts.
func firstOf(holder cluster.NodeID, term cluster.Term, all []api.Worker) api.Workers {
	return api.Workers{Holder: holder, Term: term, Workers: all[:min(len(all), api.MaxWorkers)], Omitted: max(0, len(all)-api.MaxWorkers)}
}
