package relief

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/pressure"
	"github.com/skein-project/skein/pressure/gate"
	"github.com/skein-project/skein/scheduler"
)

// Coord is the coordination service.
type Coord interface {
	View() *coord.View
	WithTable(ctx context.Context, f func(*member.Table)) error
	SelfCheck(name, reason string)
	StepDown(ctx context.Context, to cluster.NodeID, reason string, leaving bool) error
}

// Scheduler answers whatever it is asked once its loop gets to it.
type Scheduler interface {
	Explain(ctx context.Context, id job.ID) (scheduler.Waiting, error)
}

// Log is the event log.
type Log interface {
	View(f func(*state.State))
	Syncs() prometheus.Metric
}

// Options of a Relief. All but Root and Registerer must be set; Coord and Scheduler are
// called once Run is, so that what they return may be made later.
type Options struct {
	Coord     func() Coord
	Scheduler func() Scheduler
	Log       Log
	Setting   func() pressure.Setting
	// Dir lies on the disk of the log, Root is where the kernel tells of the machine.
	Dir  string
	Root fs.FS
	// MinTenure is how long a holder keeps the lease before it goes to a better host.
	MinTenure time.Duration
	// Note has an event logged.
	Note       func(kind event.Kind, body any)
	Now        func() time.Duration
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Relief is how loaded this host is, and what follows. Its methods but Run may be called
// from any goroutine.
type Relief struct {
	*pressure.Monitor
	*gate.Gate
	o        Options
	log      zerolog.Logger
	breakers breakers

	// Of Run's goroutine.
	seat  overload.Seat
	stood string // the last outcome of the self-check; empty: good
}

// checkName is the self-check by which an overloaded host leaves the lease to others.
const checkName = "overload"

// New returns a Relief that has measured nothing.
func New(o Options) (*Relief, error) {
	r := &Relief{o: o, log: o.Logger.With().Str("component", "overload").Logger()}
	r.seat.MinTenure = o.MinTenure
	err := r.newBreakers()
	if err != nil {
		return nil, fmt.Errorf("register breakers: %w", err)
	}
	if r.Gate, err = gate.New(gate.Options{
		Level: func() overload.Level { return r.Level() }, Strained: func() bool { return r.Strained() }, Enabled: func() bool { return o.Setting().Enabled }, Registerer: o.Registerer,
	}); err != nil {
		return nil, err
	}
	r.Monitor, err = pressure.New(pressure.Options{
		Setting: o.Setting, Now: o.Now, Dir: o.Dir, Root: o.Root, Syncs: o.Log.Syncs(), Changed: r.changed, Logger: r.log, Registerer: o.Registerer,
		Health: func() int { return o.Coord().View().LocalHealth }, Queued: r.Gate.Queued,
		Loops: []pressure.Loop{
			{Name: "coord", Control: true, Ping: func(ctx context.Context) { _ = o.Coord().WithTable(ctx, func(*member.Table) {}) }},
			{Name: "log", Ping: func(context.Context) { o.Log.View(func(*state.State) {}) }},
			{Name: "scheduler", Ping: r.askScheduler},
		},
	})
	return r, err
}

// nobody is the id of a job that does not exist.
const nobody job.ID = "-"

// askScheduler waits until the loop of the scheduler gets to a question; where this host
// does not hold that is at once. A full queue is as bad as one that does not move.
func (r *Relief) askScheduler(ctx context.Context) {
	if _, err := r.o.Scheduler().Explain(ctx, nobody); errors.Is(err, scheduler.ErrBusy) {
		<-ctx.Done()
	}
}

// Run measures and acts until ctx ends.
func (r *Relief) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var monitor sync.WaitGroup
	monitor.Go(func() { _ = r.Monitor.Run(ctx) }) // it ends with ctx alone
	defer monitor.Wait()
	defer cancel()
	tick := wait.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
		}
		r.act(ctx)
	}
}

// giveTime bounds a hand-over.
const giveTime = 10 * time.Second

// act has the lease where it belongs.
func (r *Relief) act(ctx context.Context) {
	c := r.o.Coord()
	v, now := c.View(), r.o.Now()
	r.seat.Level, r.seat.Holding = r.Level(), v.Lease.Role == cluster.RoleHolder
	voters := votersOf(v)
	reason := ""
	if !r.seat.Stands(voters) {
		reason = fmt.Sprintf("this host is overloaded (%s) and others are not", r.seat.Level)
	}
	if reason != r.stood {
		r.stood = reason
		c.SelfCheck(checkName, reason)
	}
	to, ok := r.seat.HandTo(voters, now)
	if !ok {
		return
	}
	r.log.Warn().Str("node", string(to)).Stringer("level", r.seat.Level).Msg("overloaded: the lease goes to a calmer host")
	r.seat.Gave, r.seat.GaveEver = now, true
	limited, cancel := context.WithTimeout(ctx, giveTime)
	defer cancel()
	if err := c.StepDown(limited, to, "overload: "+r.seat.Level.String(), false); err != nil && ctx.Err() == nil {
		r.log.Warn().Err(err).Msg("lease not handed over")
	}
}

// votersOf are the other voters as this host sees them.
func votersOf(v *coord.View) []overload.Voter {
	var out []overload.Voter
	for _, m := range v.Members {
		if m.Node == v.Self || !v.Lease.Config.Has(m.Node) {
			continue
		}
		out = append(out, overload.Voter{
			Node: m.Node, Level: LevelOf(m.Load),
			Fit: m.Health == cluster.Alive && m.Eligible && m.CaughtUp && !m.Witness && m.Incompatible == "",
		})
	}
	return out
}

// LevelOf is the level that a host tells; one that tells none, as older ones do not, is
// taken for normal.
func LevelOf(l *wire.Load) overload.Level {
	if l == nil {
		return overload.Normal
	}
	return overload.Level(min(l[wire.LoadLevel], uint32(overload.MaxLevel)))
}

// Load is what other hosts hear.
func (r *Relief) Load() *wire.Load {
	v := r.View()
	whole := func(share float64) uint32 { return uint32(max(0, share) + 0.5) }
	return &wire.Load{
		wire.LoadLevel: uint32(v.Level), wire.LoadCPU: whole(v.CPU), wire.LoadMemory: whole(v.Memory), wire.LoadIO: whole(v.IO),
		wire.LoadDelayMS: uint32(min(max(v.Work, v.Control), time.Hour).Milliseconds()), //nolint:gosec // bounded
	}
}

// changed has the log hear of levels that are worth it.
func (r *Relief) changed(from, to overload.Level, v pressure.View) {
	if !from.Told() && !to.Told() {
		return
	}
	if who := r.o.Coord().View().Unaware(event.KindHostLoad); len(who) > 0 {
		r.log.Debug().Str("node", string(slices.Min(who))).Msg("not logged: a member does not know this kind of event")
		return
	}
	r.o.Note(event.KindHostLoad, event.HostLoad{Level: to.String(), Was: from.String(), Signal: string(v.By), Score: v.Score})
}

// Slows says that watches are told less often.
func (r *Relief) Slows() bool { return r.Level().Slows() }

// Pauses says that what can wait does; a nil Relief knows of nothing.
func (r *Relief) Pauses() bool { return r != nil && r.Level().Pauses() }
