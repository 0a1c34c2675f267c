package zones

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/vital"
	"github.com/skein-project/skein/scheduler/zone"
)

const (
	// askTime bounds the question to the holder: what this host sees by itself has to
	// do then.
	askTime = 2 * time.Second
	// settleTime is how long a new holder counts workers as reached while it waits for
	// them.
	settleTime = 15 * time.Second
)

// Options of a Board. All must be set.
type Options struct {
	View    func() *coord.View
	Workers func() []plan.WorkerView // as the scheduler of this host knows them
	Log     Log
	// Set has the scheduler of this host log what a register is to say.
	Set    func(ctx context.Context, b event.Register) error
	Remote *forward.Router
	// Watched is what the holder says of the zones, told to this host's zone once; it is not
	// changed.
	Watched func(context.Context) (api.Zones, error)
	// Note has an event logged.
	Note       func(ctx context.Context, kind event.Kind, body any)
	Now        func() time.Duration
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Board tells how zones are. Its methods may be called from any goroutine.
type Board struct {
	o   Options
	log zerolog.Logger

	mu    sync.Mutex
	term  cluster.Term  // in which the others were judged; 0: this host does not hold
	since time.Duration // it does
	state map[string]zone.State
	given []given       // what was chosen lately
	moved time.Duration // when jobs were last moved
}

// New returns a Board.
func New(o Options) *Board {
	z := &Board{o: o, log: o.Logger.With().Str("component", "zones").Logger()}
	o.Registerer.MustRegister(z)
	return z
}

// Handle registers what this host carries out for others.
func (z *Board) Handle(r *forward.Router) { forward.Handle(r, forward.Zones, z.serve) }

// Run judges the zones while this host holds, until ctx ends.
func (z *Board) Run(ctx context.Context) error {
	tick := wait.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
		}
		for _, b := range z.look() {
			z.tell(ctx, b)
		}
		z.move(ctx)
	}
}

// tell has the log hear of a zone.
func (z *Board) tell(ctx context.Context, b event.ZoneHealth) {
	if who := z.o.View().Unaware(event.KindZoneHealth); len(who) > 0 {
		z.log.Debug().Str("node", string(slices.Min(who))).Msg("not logged: a member does not know this kind of event")
		return
	}
	z.o.Note(ctx, event.KindZoneHealth, b)
}

// told reports whether the log hears of a zone that is so, or was.
func told(h zone.Health) bool { return h >= zone.Degraded }

// look judges all zones once, and returns what the log is to hear.
func (z *Board) look() (out []event.ZoneHealth) {
	v, now := z.o.View(), z.o.Now()
	z.mu.Lock()
	defer z.mu.Unlock()
	if v.Lease.Role != cluster.RoleHolder || !v.Lease.Ready {
		z.term, z.state = 0, nil
		return nil
	}
	if z.term != v.Lease.Term {
		z.term, z.since, z.state = v.Lease.Term, now, map[string]zone.State{}
	}
	facts := gather(v, z.o.Workers(), now-z.since < settleTime)
	for name := range z.state {
		if _, ok := facts[name]; !ok {
			facts[name] = zone.Facts{} // its last member has left
		}
	}
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		f, was := facts[name], z.state[name]
		is, changed := zone.Step(was, f, now)
		if z.state[name] = is; len(f.Hosts) == 0 {
			delete(z.state, name)
		}
		if changed && (told(is.Health) || told(was.Health)) {
			b := event.ZoneHealth{Zone: name, Health: is.Health.String(), Was: cmp.Or(was.Health.String(), "unknown"), Why: is.Why}
			b.Hosts, b.Alive = f.Count()
			out = append(out, b)
		}
	}
	return out
}

// gather is what is known of each zone that members name. While the scheduler settles and
// has reached none of a zone's workers yet, nothing is known of its workers.
func gather(v *coord.View, workers []plan.WorkerView, settles bool) map[string]zone.Facts {
	of := make(map[cluster.NodeID]plan.WorkerView, len(workers))
	for _, w := range workers {
		of[w.Worker] = w
	}
	out := map[string]zone.Facts{}
	for _, m := range v.Members {
		if m.Zone == "" {
			continue
		}
		w := of[m.Node]
		f := out[m.Zone]
		f.Blind = f.Blind || settles && !w.Connected
		f.Hosts = append(f.Hosts, zone.Host{
			Node: m.Node, Alive: m.Health == cluster.Alive, Drained: w.Draining, Connected: w.Connected, Ready: w.Ready, Stuck: w.Signal == vital.Stuck,
			Overloaded: m.Load != nil && overload.Level(min(m.Load[wire.LoadLevel], uint32(overload.MaxLevel))) >= overload.High,
			Slots:      w.Slots, Free: w.Window - w.Tries, Assigned: w.Tries,
		})
		out[m.Zone] = f
	}
	return out
}

// serve tells how the zones are by the scheduler of this host.
func (z *Board) serve(context.Context, forward.Asker, forward.None) (api.Zones, error) {
	v, now := z.o.View(), z.o.Now()
	z.mu.Lock()
	state, settles := maps.Clone(z.state), z.term == 0 || now-z.since < settleTime
	z.mu.Unlock()
	out := list(v, gather(v, z.o.Workers(), settles), state, now)
	out.Holder, out.Term = v.Self, v.Lease.Term
	return out, nil
}

// Zones implements status.JobControl.
func (z *Board) Zones(ctx context.Context) (api.Zones, error) {
	limited, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := forward.AskHolderOnce(limited, z.o.Remote, forward.Zones, "", forward.None{})
	return z.shown(ctx, out, err)
}

// WatchedZones implements realtime.Source.
func (z *Board) WatchedZones(ctx context.Context) (api.Zones, error) {
	out, err := z.o.Watched(ctx)
	out.Zones = slices.Clone(out.Zones)
	return z.shown(ctx, out, err)
}

// shown adds how far the zones are to what the holder says of them. Without an answer it is
// what this host sees by itself.
func (z *Board) shown(ctx context.Context, out api.Zones, err error) (api.Zones, error) {
	v := z.o.View()
	if err != nil {
		if ctx.Err() != nil {
			return out, err
		}
		facts := gather(v, nil, true)
		for name, f := range facts {
			f.Blind = true
			facts[name] = f
		}
		out = list(v, facts, nil, z.o.Now())
	}
	out.Header = api.Header{}
	measure(v, &out)
	return out, nil
}

// measure says how far the zones are from this host.
func measure(v *coord.View, out *api.Zones) {
	for i := range out.Zones {
		if far, ok := v.Zones[out.Zones[i].Zone]; ok {
			out.Zones[i].RTTSeconds, out.Zones[i].RTTFrom = new(far.RTT.Seconds()), string(far.From)
		} else if self, ok := v.Member(v.Self); ok && self.Zone == out.Zones[i].Zone {
			out.Zones[i].RTTSeconds = new(float64) // it is alone there
		}
	}
}

// list shows the zones by name; a zone without a state is judged by one look.
func list(v *coord.View, facts map[string]zone.Facts, state map[string]zone.State, now time.Duration) api.Zones {
	out := api.Zones{Zones: []api.Zone{}}
	voters := map[string]int{}
	for _, m := range v.Members {
		if m.Zone == "" {
			out.Unzoned++
		} else if v.Lease.Config.Has(m.Node) {
			voters[m.Zone]++
		}
	}
	names := slices.Sorted(maps.Keys(facts))
	out.Omitted = max(0, len(names)-api.MaxZones)
	for _, name := range names[:len(names)-out.Omitted] {
		f := facts[name]
		s, ok := state[name]
		if !ok {
			s, _ = zone.Step(s, f, now)
		}
		x := api.Zone{Zone: name, Health: s.Health.String(), Why: s.Why, ForSeconds: (now - s.Since).Seconds(), Voters: voters[name]}
		x.Hosts, x.Alive = f.Count()
		x.Drained = len(f.Hosts) - x.Hosts
		x.Slots, x.Free, x.Queued = f.Room()
		out.Zones = append(out.Zones, x)
	}
	return out
}

// Named reports whether a member names that zone.
func Named(v *coord.View, name string) bool {
	return slices.ContainsFunc(v.Members, func(m coord.MemberView) bool { return m.Zone == name && m.Health != cluster.Left })
}

// Lost says of which zones with two hosts and more no host lives.
func Lost(v *coord.View) (out []string) {
	facts := gather(v, nil, true)
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if hosts, alive := facts[name].Count(); hosts > 1 && alive == 0 {
			out = append(out, fmt.Sprintf("zone %s: none of %d hosts is alive", name, hosts))
		}
	}
	return out
}
