package daemon

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/scheduler/plan"
)

// Workers implements status.JobControl.
func (b backend) Workers(ctx context.Context) (api.Workers, error) {
	reply, err := b.toHolder(ctx, remoteRequest{Workers: &struct{}{}})
	if err != nil {
		return api.Workers{}, err
	}
	out := *reply.Workers
	out.Header = api.Header{}
	return out, nil
}

// workersHere tells what the scheduler of this host knows of the workers.
func (n *node) workersHere(v *coord.View) api.Workers {
	return listWorkers(n.id.Node, v.Lease.Term, n.sched.Workers(), n.now())
}

// listWorkers tells of the first api.MaxWorkers of all; more fit no message
// between hosts.
func listWorkers(holder cluster.NodeID, term cluster.Term, all []plan.WorkerView, now time.Duration) api.Workers {
	list := all[:min(len(all), api.MaxWorkers)]
	out := api.Workers{Holder: holder, Term: term, Workers: make([]api.Worker, 0, len(list)), Omitted: len(all) - len(list)}
	for _, w := range list {
		x := api.Worker{
			Node: w.Worker, Live: w.Health, Connected: w.Connected, Ready: w.Ready && w.Slots > 0, Draining: w.Draining,
			Progress: w.Signal.String(), Verdict: string(w.Verdict), Slots: w.Slots, Assigned: w.Tries, Window: w.Window,
			BacklogIterations: w.Backlog, DrainSeconds: w.Drain.Seconds(), Trusted: w.Trusted,
		}
		if w.Rate > 0 {
			x.RatePerSecond = &w.Rate
		}
		if left := w.Until - now; w.Until > 0 && left > time.Duration(0) {
			x.ExcludedSeconds = new(left.Seconds())
		}
		out.Workers = append(out.Workers, x)
	}
	return out
}
