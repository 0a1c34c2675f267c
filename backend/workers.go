package backend

import (
	"cmp"
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/plan"
)

// Workers implements status.JobControl.
func (w *workers) Workers(ctx context.Context) (api.Workers, error) {
	out, err := forward.AskHolder(ctx, w.remote, forward.Workers, "", forward.None{})
	out.Header = api.Header{}
	return out, err
}

// workersHere lists what the scheduler of this host knows of the workers.
func (w *workers) workersHere(context.Context, forward.Asker, forward.None) (api.Workers, error) {
	v := w.view()
	out := listWorkers(w.self, v.Lease.Term, w.sched.Workers(), w.now())
	for i, x := range out.Workers {
		m, _ := v.Member(x.Node)
		out.Workers[i].Stopped = m.Stopped
	}
	return out, nil
}

// listWorkers lists the first api.MaxWorkers of all; more do not fit in a message
// between hosts.
func listWorkers(holder cluster.NodeID, term cluster.Term, all []plan.WorkerView, now time.Duration) api.Workers {
	list := all[:min(len(all), api.MaxWorkers)]
	out := api.Workers{Holder: holder, Term: term, Workers: make([]api.Worker, 0, len(list)), Omitted: len(all) - len(list)}
	for _, v := range list {
		x := api.Worker{
			Node: v.Worker, Live: v.Health, Connected: v.Connected, Ready: v.Ready && v.Slots > 0, Draining: v.Draining,
			Progress: v.Signal.String(), Verdict: string(v.Verdict), Slots: v.Slots, Assigned: v.Tries, Window: v.Window,
			Owner: v.Owner, Accept: string(cmp.Or(v.Accept.Accept, job.AcceptPublic)), AcceptNames: v.Accept.Names, BacklogIterations: v.Backlog, DrainSeconds: v.Drain.Seconds(), Trusted: v.Trusted,
		}
		if v.Rate > 0 {
			x.RatePerSecond = &v.Rate
		}
		if left := v.Until - now; v.Until > 0 && left > time.Duration(0) {
			x.ExcludedSeconds = new(left.Seconds())
		}
		out.Workers = append(out.Workers, x)
	}
	return out
}
