package workerlist

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// Of lists all, the hosts first.
func Of(all []plan.WorkerView, now time.Duration) []api.Worker {
	hosts, outside := make([]api.Worker, 0, len(all)), []api.Worker{}
	for _, v := range all {
		x := api.Worker{
			Node: v.Worker, Kind: kindOf(v), Via: v.Via, Live: v.Health, Connected: v.Connected, Ready: v.Ready && v.Slots > 0, Draining: v.Draining,
			Progress: v.Signal.String(), Verdict: string(v.Verdict), Slots: v.Slots, Assigned: v.Tries, Window: v.Window,
			Owner: v.Owner, Accept: string(cmp.Or(v.Accept.Accept, job.AcceptPublic)), AcceptNames: v.Accept.Names, BacklogIterations: v.Backlog, DrainSeconds: v.Drain.Seconds(), Trusted: v.Trusted,
		}
		if v.Rate > 0 {
			x.RatePerSecond = &v.Rate
		}
		if left := v.Until - now; v.Until > 0 && left > time.Duration(0) {
			x.ExcludedSeconds = new(left.Seconds())
		}
		if x.Kind == api.WorkerHost {
			hosts = append(hosts, x)
		} else {
			outside = append(outside, x)
		}
	}
	return append(hosts, outside...)
}

func kindOf(v plan.WorkerView) api.WorkerKind {
	switch {
	case !cluster.IsOutside(v.Worker):
		return api.WorkerHost
	case !v.Stranger:
		return api.WorkerTrusted
	case strings.HasPrefix(v.Owner, "visitor:"):
		return api.WorkerVisitor
	}
	return api.WorkerNamed
}

// Grouped puts the outside workers of each gateway into one, behind the hosts.
func Grouped(all []api.Worker) []api.Worker {
	out := slices.DeleteFunc(slices.Clone(all), func(x api.Worker) bool { return cluster.IsOutside(x.Node) })
	hosts := len(out)
	at := map[cluster.NodeID]int{} // where the group of a gateway stands in out
	owners := map[cluster.NodeID]map[api.WorkerOwner]int{}
	for _, x := range all {
		if !cluster.IsOutside(x.Node) {
			continue
		}
		i, ok := at[x.Via]
		if !ok {
			i = len(out)
			at[x.Via], owners[x.Via] = i, map[api.WorkerOwner]int{}
			out = append(out, api.Worker{
				Node: "outside@" + x.Via, Via: x.Via, Kind: api.WorkerGroup, Live: cluster.Dead, Progress: vital.Idle.String(), Verdict: x.Verdict, Accept: x.Accept,
			})
		}
		owners[x.Via][api.WorkerOwner{Owner: x.Owner, Kind: x.Kind}]++
		addTo(&out[i], x)
	}
	slices.SortFunc(out[hosts:], func(a, b api.Worker) int { return cmp.Compare(a.Node, b.Node) })
	for i := range out[hosts:] {
		out[hosts+i].Owners = ownersOf(owners[out[hosts+i].Via])
	}
	return out
}

// addTo adds a worker to a group.
func addTo(g *api.Worker, x api.Worker) {
	g.Workers++
	if x.Live == cluster.Alive || g.Live == cluster.Dead {
		g.Live = x.Live
	}
	if x.Assigned > 0 {
		g.Progress = x.Progress
	}
	g.Connected, g.Ready = g.Connected || x.Connected, g.Ready || x.Ready
	g.Slots, g.Assigned, g.Window = g.Slots+x.Slots, g.Assigned+x.Assigned, g.Window+x.Window
	g.BacklogIterations += x.BacklogIterations
	g.DrainSeconds = max(g.DrainSeconds, x.DrainSeconds)
	if x.RatePerSecond != nil {
		if g.RatePerSecond == nil {
			g.RatePerSecond = new(float64)
		}
		*g.RatePerSecond += *x.RatePerSecond
	}
}

// ownersOf lists those that have most workers; the others are one without a name.
func ownersOf(of map[api.WorkerOwner]int) []api.WorkerOwner {
	list := make([]api.WorkerOwner, 0, len(of))
	for o, n := range of {
		o.Workers = n
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b api.WorkerOwner) int {
		return cmp.Or(cmp.Compare(b.Workers, a.Workers), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind))
	})
	if len(list) > api.MaxWorkerOwners {
		rest := api.WorkerOwner{}
		for _, o := range list[api.MaxWorkerOwners-1:] {
			rest.Workers += o.Workers
		}
		list = append(list[:api.MaxWorkerOwners-1], rest)
	}
	return list
}
