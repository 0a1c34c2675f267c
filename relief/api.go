package relief

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// API is how loaded this host is, as people are told it.
func (r *Relief) API() api.Pressure {
	v := r.View()
	share := func(percent float64) *float64 {
		if percent < 0 {
			return nil
		}
		return new(percent / 100)
	}
	span := func(d time.Duration) float64 { return d.Seconds() }
	by := v.By
	if v.Level == overload.Normal {
		by = "" // which of them says most changes all the time
	}
	return api.Pressure{
		Level: v.Level.String(), Score: v.Score, Signal: string(by), CPU: share(v.CPU), Memory: share(v.Memory), IO: share(v.IO),
		MemoryLeft: share(v.MemoryLeft), DiskLeft: share(v.DiskLeft), DelaySeconds: span(v.Work), ControlDelaySeconds: span(v.Control),
		GoroutineSeconds: span(v.Goroutines), SyncSeconds: span(v.Syncs),
	}
}

// units are those of the signals that are no delays.
var units = map[overload.Signal]string{overload.SignalHealth: "points", overload.SignalWork: "seconds", overload.SignalControl: "seconds"}

// Overload is the same, with what follows from it, and which hosts are left alone.
func (r *Relief) Overload() api.Overload {
	v, set := r.View(), r.o.Setting()
	p := r.API()
	out := api.Overload{
		Level: p.Level, Score: p.Score, Signal: p.Signal, Enabled: set.Enabled,
		Signals: []api.OverloadSignal{}, Lanes: []api.OverloadLane{}, Silent: []api.SilentHost{}, Hosts: []api.LoadedHost{},
	}
	for _, w := range set.Weigh(v.Sample, v.UsualWork, v.UsualControl) {
		x := api.OverloadSignal{Signal: string(w.Signal), From: w.From, Unit: units[w.Signal], Score: w.Score}
		scale := 1.0
		if x.Unit == "" {
			x.Unit, scale = "share", 1.0/100
		}
		x.From *= scale
		if w.Value >= 0 {
			x.Value = new(w.Value * scale)
		}
		out.Signals = append(out.Signals, x)
	}
	for _, l := range r.Lanes() {
		x := api.OverloadLane{
			Lane: l.String(), Refuses: overload.Load{Level: v.Level, Strained: v.Strained}.Sheds(l.Lane), Places: l.Places, Running: l.Running, Waiting: l.Waiting,
			RefusedByLevel: l.ByLevel, RefusedByPlaces: l.ByPlaces,
		}
		if from, ok := l.ShedFrom(); ok {
			x.From = from.String()
		}
		out.Lanes = append(out.Lanes, x)
	}
	seen := r.o.Coord().View()
	for _, b := range r.breakers.set.List() {
		if m, ok := seen.Member(cluster.NodeID(b.Peer)); !ok || m.Health == cluster.Dead || m.Health == cluster.Left {
			continue // that it says nothing is no news
		}
		out.Silent = append(out.Silent, api.SilentHost{Node: cluster.NodeID(b.Peer), Kind: b.Kind, WaitSeconds: b.Wait.Seconds(), Trying: b.Trying})
	}
	for _, m := range seen.Members {
		level := LevelOf(m.Load)
		if m.Node == seen.Self {
			level = v.Level
		}
		if level > overload.Normal && m.Health != cluster.Dead && m.Health != cluster.Left {
			out.Hosts = append(out.Hosts, api.LoadedHost{Node: m.Node, Level: level.String()})
		}
	}
	return out
}

// Reason says why a host that is overloaded is degraded; empty: it is not.
func (r *Relief) Reason() string {
	v := r.View()
	if v.Level < overload.High {
		return ""
	}
	return fmt.Sprintf("overload: %s by %s", v.Level, v.By)
}
