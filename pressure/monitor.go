package pressure

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/overload"
)

// lookEvery is between two looks: in half a second a queue that only has bursts is
// empty once.
const lookEvery = 500 * time.Millisecond

// Setting is what an operator may change while the daemon runs.
type Setting struct {
	// Enabled lets what is measured have consequences.
	Enabled bool
	overload.Config
}

// Of is what is configured: whether, and from which delay on.
func Of(enabled bool, delay time.Duration) Setting {
	return Setting{Enabled: enabled, Config: overload.Config{Delay: delay}}
}

// Options of a Monitor. Only Now and Loops must be set.
type Options struct {
	// Setting is what is configured now; nil: enabled, with the defaults.
	Setting func() Setting
	// Now is a monotonic clock.
	Now func() time.Duration
	// Loops are what is pinged.
	Loops []Loop
	// Queued is the least time that a request waited in the queues of this daemon since
	// the last call; nil: there are none.
	Queued func() time.Duration
	// Health is how unwell this host finds itself as a member; nil: well.
	Health func() int
	// Dir lies on the disk that counts; empty: none does.
	Dir string
	// Syncs is the histogram of the event log's syncs; nil: not known.
	Syncs prometheus.Metric
	// Root is where the kernel says how the machine is; nil: it says nothing.
	Root fs.FS
	// Changed hears of each change of level, in order, by the goroutine of Run.
	Changed    func(from, to overload.Level, v View)
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: metrics are not shown
}

// View is what was measured last. It is never changed.
type View struct {
	Level overload.Level
	// Strained says that what is refused at high is more: see overload.Load.
	Strained bool
	Score    float64
	By       overload.Signal
	overload.Sample
	// DiskLeft is what of the disk is left in percent, -1: not known.
	DiskLeft float64
	// Goroutines and Syncs are the p99 of how long a goroutine waits to run, and of a
	// sync of the event log; 0: there was none.
	Goroutines, Syncs time.Duration
	// UsualWork and UsualControl are the delays that this host has while it is normal.
	UsualWork, UsualControl time.Duration
}

// Monitor measures. Its methods but Run may be called from any goroutine.
type Monitor struct {
	o      Options
	m      *gauges
	files  files
	probes []*probe
	view   atomic.Pointer[View]
}

// New returns a Monitor that has measured nothing.
func New(o Options) (*Monitor, error) {
	if o.Now == nil || len(o.Loops) == 0 {
		return nil, errors.New("pressure: a clock and something to ping are needed")
	}
	if o.Setting == nil {
		o.Setting = func() Setting { return Setting{Enabled: true} }
	}
	if o.Queued == nil {
		o.Queued = func() time.Duration { return 0 }
	}
	if o.Health == nil {
		o.Health = func() int { return 0 }
	}
	if o.Changed == nil {
		o.Changed = func(overload.Level, overload.Level, View) {}
	}
	m, err := newGauges(o.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Monitor{o: o, m: m, files: files{root: o.Root, refused: func(source string) { m.refused.WithLabelValues(source).Inc() }}}
	p.files.locate()
	for _, l := range o.Loops {
		p.probes = append(p.probes, &probe{Loop: l, now: o.Now})
	}
	p.view.Store(&View{Sample: overload.Sample{CPU: -1, Memory: -1, IO: -1, MemoryLeft: -1}, DiskLeft: -1})
	return p, nil
}

// View is what was measured last.
func (p *Monitor) View() View { return *p.view.Load() }

// Level is how loaded this host is.
func (p *Monitor) Level() overload.Level { return p.view.Load().Level }

// Strained says that it refuses more than others at high do.
func (p *Monitor) Strained() bool { return p.view.Load().Strained }

// Run measures until ctx ends.
func (p *Monitor) Run(ctx context.Context) error {
	var pings sync.WaitGroup
	defer pings.Wait()
	for _, probe := range p.probes {
		pings.Go(func() { probe.run(ctx) })
	}
	tick := wait.NewTicker(lookEvery)
	defer tick.Stop()
	l := look{syncs: syncs{of: p.o.Syncs}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
		}
		p.look(&l)
	}
}

// look is what one look knows of those before.
type look struct {
	state      overload.State
	goroutines goroutines
	syncs      syncs
}

// look measures once.
func (p *Monitor) look(l *look) {
	now := p.o.Now()
	v := View{DiskLeft: -1, Goroutines: l.goroutines.p99(), Syncs: l.syncs.p99()}
	for i, dest := range []*float64{&v.CPU, &v.Memory, &v.IO} {
		*dest, _ = p.files.stalls(resources[i], now)
	}
	v.MemoryLeft, v.Health = p.files.memory(), p.o.Health()
	if p.o.Dir != "" {
		v.DiskLeft = diskLeft(p.o.Dir)
	}
	v.Work = p.o.Queued()
	for _, probe := range p.probes {
		d := probe.take()
		p.m.loops.WithLabelValues(probe.Name).Set(d.Seconds())
		if probe.Control {
			v.Control = max(v.Control, d)
		} else {
			v.Work = max(v.Work, d)
		}
	}
	set := p.o.Setting()
	before := p.Level()
	if set.Enabled {
		l.state = set.Step(l.state, v.Sample, now)
	} else {
		l.state = overload.State{}
	}
	v.Level, v.Strained, v.Score, v.By = l.state.Level(), l.state.Load().Strained, l.state.Score(), l.state.By()
	v.UsualWork, v.UsualControl = l.state.Usual()
	p.view.Store(&v)
	p.m.show(v)
	if v.Level != before {
		p.o.Logger.Info().Stringer("from", before).Stringer("to", v.Level).Str("signal", string(v.By)).Float64("score", v.Score).Msg("load of this host changed")
		p.o.Changed(before, v.Level, v)
	}
}
