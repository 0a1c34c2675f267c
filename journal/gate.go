package journal

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/stamps"
)

const (
	// holdShown is how long a host waits for its clock before that is a fault: in
	// a start that goes well the others are heard sooner.
	holdShown = 5 * time.Second
	// tailEvery is the period of the look whether a chain that runs ahead can be
	// taken back, tailTry bounds it.
	tailEvery = 5 * time.Second
	tailTry   = 2 * time.Second
)

// Stamped is what Gate needs of the event log.
type Stamped interface {
	Newest() (ahead time.Duration, some bool)
	Ahead() []stamps.Chain
	Tail(ctx context.Context) (stamps.Tail, []audit.Cut, error)
}

// GateOptions are what a Gate needs.
type GateOptions struct {
	// Log is asked only once it is open.
	Log func() Stamped
	// View is the cluster as this host sees it, Tolerance how far clocks may
	// be apart.
	View      func() *coord.View
	Tolerance func() time.Duration
	// Boot is the boot-time clock; Synced the system's word that a time service
	// keeps the wall clock.
	Boot   func() time.Duration
	Synced func() bool
	// Opened is closed when the first events are written.
	Opened <-chan struct{}
	Logger zerolog.Logger
}

// Gate decides by this host's clock whether it may write events, and when it must
// take some back. Fault may be called by anyone, the rest belongs to the goroutine
// of Chain.Run.
type Gate struct {
	o GateOptions

	// On the boot-time clock: when the wait began, since when the clock agrees
	// with a majority (0: it does not), and when the tail was looked at last.
	began, agreed, looked time.Duration

	fault atomic.Pointer[string] // why the others take nothing of this host; nil: they do
}

// NewGate returns a Gate that waits from now on.
func NewGate(o GateOptions) *Gate { return &Gate{o: o, began: o.Boot()} }

// MayWrite says why nothing may be written yet, empty if it may.
func (g *Gate) MayWrite() (why string) {
	f := g.facts()
	if why = stamps.MayWrite(f); why == "" {
		why = g.ownAhead(f)
	}
	if why != "" && f.Waited < holdShown {
		g.say("")
	} else {
		g.say(why)
	}
	return why
}

func (g *Gate) say(fault string) {
	if fault == "" {
		g.fault.Store(nil)
		return
	}
	g.fault.Store(&fault)
}

// Fault is why the others take nothing of this host, empty if they do.
func (g *Gate) Fault() string {
	if fault := g.fault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// facts gathers what is known of the clock.
func (g *Gate) facts() stamps.Facts {
	now := g.o.Boot()
	f := poll(g.o.View(), g.o.Tolerance())
	f.Synced, f.Booted, f.Waited = g.o.Synced(), now, now-g.began
	last, some := g.o.Log().Newest()
	f.Last, f.Empty = last, !some
	return f
}

// poll counts the hosts whose clocks speak for the own one or against it: voters
// where a majority of them is needed, else all members.
func poll(v *coord.View, tolerance time.Duration) (f stamps.Facts) {
	cfg := v.Lease.Config
	if !cfg.IsZero() && cfg.Mode != cluster.ModeAvailable {
		if f.Need = cfg.Majority(); cfg.Has(v.Self) {
			f.Need--
		}
	}
	for _, m := range v.Members {
		if m.Node == v.Self || f.Need > 0 && !cfg.Has(m.Node) {
			continue
		}
		f.Others++
		switch {
		case !m.SkewKnown:
		case m.Skew.Abs() <= tolerance:
			f.Agree++
		default:
			f.Differ, f.Offset = f.Differ+1, m.Skew
		}
	}
	return f
}

// ownAhead says that the own chain runs ahead, where others must take it for
// anything to be stable.
func (g *Gate) ownAhead(f stamps.Facts) string {
	if f.Need > 0 {
		for _, c := range g.o.Log().Ahead() {
			if c.Own {
				return c.String()
			}
		}
	}
	return ""
}

// Watch returns a *TakeBackError once the own chain runs ahead, the clock is right
// and what runs ahead may be taken back.
func (g *Gate) Watch(ctx context.Context) error {
	now, f := g.o.Boot(), g.facts()
	f.Waited = 0 // patience is no agreement
	switch {
	case f.Agree == 0 || stamps.MayWrite(f) != "":
		g.agreed = 0
		return nil
	case g.agreed == 0:
		g.agreed = now
	}
	select {
	case <-g.o.Opened:
		g.say(g.ownAhead(f))
	default: // MayWrite does
	}
	if now-g.looked < tailEvery || !slices.ContainsFunc(g.o.Log().Ahead(), func(c stamps.Chain) bool { return c.Own }) {
		return nil
	}
	g.looked = now
	ctx, cancel := context.WithTimeout(ctx, tailTry)
	defer cancel()
	tail, cuts, err := g.o.Log().Tail(ctx)
	if err != nil {
		g.o.Logger.Warn().Err(err).Msg("own chain runs ahead and cannot be read")
		return nil
	}
	tail.Agreed = now - g.agreed
	if why := stamps.TakeBack(tail); why != "" || len(cuts) == 0 {
		g.o.Logger.Warn().Str("reason", why).Float64("ahead_seconds", tail.Ahead.Seconds()).Msg("own chain runs ahead, and is not taken back")
		return nil
	}
	return &TakeBackError{Cuts: cuts}
}

// TakeBackError ends a run of the daemon that has to take back what it wrote with
// a wrong clock.
type TakeBackError struct{ Cuts []audit.Cut }

func (*TakeBackError) Error() string {
	return "what was written with a wrong clock is to be taken back"
}
