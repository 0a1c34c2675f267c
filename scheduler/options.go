package scheduler

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/lives"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/stream"
)

// Proto is the mesh protocol between scheduler and worker, CrewProto that with the
// outside workers of a host.
const (
	Proto     = stream.Proto
	CrewProto = stream.CrewProto
)

// Log is what the scheduler needs of the event log.
type Log interface {
	// Append makes drafts durable on this host and folds them before it
	// returns, all or none.
	Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error)
	// TakesWork says whether there is room for new work: for jobs and
	// assignments. Without it Append refuses them.
	TakesWork() bool
	// WaitStable waits until the own event seq survives this host's loss.
	WaitStable(ctx context.Context, seq uint64) (voters int, err error)
	// View shows the fold of all durable events.
	View(f func(*state.State))
}

// Options configures a Scheduler.
type Options struct {
	Self cluster.NodeID
	Log  Log
	// MayAct reports whether this host holds the lease in term right now.
	MayAct func(term cluster.Term) bool
	// Dial opens a stream of protocol Proto to a host's worker, this host's
	// included.
	Dial func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// RTT is the round trip to a host, by which its worker is waited for longer; 0: not known.
	// nil: never known.
	RTT func(cluster.NodeID) time.Duration
	// DialCrew opens one of protocol CrewProto to a host that lets outside workers in.
	// nil: they are left alone.
	DialCrew func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// Now is a clock that goes on in suspend.
	Now func() time.Duration
	// Wall is the time of the day; default time.Now.
	Wall func() time.Time
	// Plan holds the times and limits of the decisions; zero: the defaults, and
	// no limits.
	Plan plan.Config
	// Salt makes the plan's Salt of one term; default random.
	Salt func() trust.Salt
	// Trial runs some iterations of a job on this host and says how many one slot does
	// per second, 0: it cannot tell. It is asked about work that was not measured yet,
	// if this host's worker may run the job. May be nil.
	Trial func(ctx context.Context, spec job.Spec) float64
	// Keep stores a config document so that the loss of this host does not lose it; default
	// none can be stored, and steps of workflows with inputs wait.
	Keep runs.Store
	// Find says which files that steps of workflows are given are on no host any more;
	// nil: none is ever lost.
	Find runs.Find
	// Read reads what providers of such steps left; nil: they wait.
	Read runs.Read
	// Unaware lists the members that live and do not know events of a kind. May be nil.
	Unaware func(event.Kind) []cluster.NodeID
	// MayForget says whether an ended job whose time is over may be forgotten now, though
	// not when it is over for longer than forgetLatest. nil: any may.
	MayForget func(job.ID) bool
	// LogStarts says which starts of chunks are logged: lives.StartsAuto, the default,
	// or another of that package.
	LogStarts string
	// Tick is how often deadlines are looked at while there are any; default 100 ms.
	Tick time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.LogStarts == "" {
		o.LogStarts = lives.StartsAuto
	}
	if o.RTT == nil {
		o.RTT = func(cluster.NodeID) time.Duration { return 0 }
	}
	if o.Unaware == nil {
		o.Unaware = func(event.Kind) []cluster.NodeID { return nil }
	}
	if o.MayForget == nil {
		o.MayForget = func(job.ID) bool { return true }
	}
	if o.Keep == nil {
		o.Keep = func(context.Context, []byte) (cluster.Hash, error) {
			return cluster.Hash{}, errors.New("this host stores nothing")
		}
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Salt == nil {
		o.Salt = randomSalt
	}
	if _, err := cluster.ParseNodeID(string(o.Self)); err != nil {
		return o, err
	}
	switch {
	case o.Log == nil:
		return o, errors.New("no log")
	case o.MayAct == nil:
		return o, errors.New("no lease check")
	case o.Dial == nil:
		return o, errors.New("no dialer")
	case o.Now == nil:
		return o, errors.New("no clock")
	case o.Tick < 0:
		return o, errors.New("tick is negative")
	}
	return o, nil
}

func randomSalt() (s trust.Salt) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}
