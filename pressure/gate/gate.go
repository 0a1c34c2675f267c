package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// Places of a lane.
const (
	controlPlaces = 16
	leastPlaces   = 4
	firstPlaces   = 20
	mostPlaces    = 500
	// maxWait bounds how long a request waits for a place.
	maxWait = time.Second
	// From the first of these multiples of the places on, some of those that would queue
	// are refused; from the second on, all.
	rejectSome, rejectAll = 2, 3
)

// Options of a Gate.
type Options struct {
	// Level is how loaded this host is.
	Level func() overload.Level
	// Strained says that it is so at high; nil: it is not.
	Strained func() bool
	// Enabled says whether more is refused than control beyond its places; nil: always.
	Enabled    func() bool
	Registerer prometheus.Registerer // nil: metrics are not shown
}

// Gate lets requests in. Its methods may be called from any goroutine.
type Gate struct {
	o       Options
	m       *counts
	lanes   map[overload.Lane]*lane
	control chan struct{} // capacity controlPlaces; full: the places are taken
	refused refusals      // of control

	mu    sync.Mutex
	least time.Duration // that a request waited for its place since the last call of Queued
	came  bool          // one did
}

// lane is where requests of one kind go through.
type lane struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]

	mu    sync.Mutex
	since time.Time // of done
	done  int
	rate  float64 // per second, of the last seconds

	refusals
}

// refusals count what was refused of a lane, and why.
type refusals struct{ level, places atomic.Uint64 }

// New returns a Gate that lets in what comes.
func New(o Options) (*Gate, error) {
	if o.Level == nil {
		return nil, errors.New("gate: a level is needed")
	}
	if o.Strained == nil {
		o.Strained = func() bool { return false }
	}
	if o.Enabled == nil {
		o.Enabled = func() bool { return true }
	}
	g := &Gate{o: o, lanes: map[overload.Lane]*lane{}, control: make(chan struct{}, controlPlaces)}
	for _, l := range overload.Limited() {
		if l == overload.Control {
			continue
		}
		g.lanes[l] = &lane{since: time.Now(), limiter: adaptivelimiter.NewBuilder[any]().
			WithLimits(leastPlaces, mostPlaces, firstPlaces).WithQueueing(rejectSome, rejectAll).Build()}
	}
	m, err := newCounts(o.Registerer, g)
	if err != nil {
		return nil, err
	}
	g.m = m
	return g, nil
}

// Enter lets a request of a lane in, and returns what is called when it is done, or
// refuses it. Brief ones take a place and wait for it; others, which last, only begin.
func (g *Gate) Enter(ctx context.Context, of overload.Lane, brief bool) (leave func(), refused *overload.Refused) {
	if load := g.load(); load.Sheds(of) {
		g.refuse(of, reasonLevel)
		return nil, &overload.Refused{Lane: of, Level: load.Level, Shed: true, After: overload.FallAfter}
	}
	l := g.lanes[of]
	switch {
	case brief && of == overload.Control:
		return g.enterControl(ctx)
	case l == nil, !brief, !g.o.Enabled():
		return func() {}, nil
	}
	permit, waited, ok := l.acquire(ctx)
	if !ok {
		g.refuse(of, reasonPlaces)
		return nil, &overload.Refused{Lane: of, Level: g.o.Level(), After: l.drain()}
	}
	g.waited(waited)
	return sync.OnceFunc(func() {
		permit.Record()
		l.count()
	}), nil
}

// load is by what is refused now.
func (g *Gate) load() overload.Load {
	return overload.Load{Level: g.o.Level(), Strained: g.o.Strained()}
}

// refuse counts a refusal.
func (g *Gate) refuse(of overload.Lane, reason string) {
	g.m.shed.WithLabelValues(of.String(), reason).Inc()
	r := &g.refused
	if l := g.lanes[of]; l != nil {
		r = &l.refusals
	}
	if reason == reasonLevel {
		r.level.Add(1)
	} else {
		r.places.Add(1)
	}
}

// Lane is how it stands with the requests of a lane.
type Lane struct {
	overload.Lane
	// Places is how many run at once at most, Running how many do; Waiting wait for one.
	Places, Running, Waiting int
	// ByLevel and ByPlaces count what was refused since the start: because the level sheds
	// the lane, and because all places were taken.
	ByLevel, ByPlaces uint64
}

// Lanes are those of which only so many requests run at once, the most urgent first.
func (g *Gate) Lanes() []Lane {
	var out []Lane
	for _, of := range overload.Limited() {
		x, r := Lane{Lane: of, Places: controlPlaces, Running: len(g.control)}, &g.refused
		if l := g.lanes[of]; l != nil {
			x.Places, x.Running, x.Waiting = l.limiter.Limit(), l.limiter.Inflight(), l.limiter.Queued()
			r = &l.refusals
		}
		x.ByLevel, x.ByPlaces = r.level.Load(), r.places.Load()
		out = append(out, x)
	}
	return out
}

// enterControl takes one of the places that control has of its own.
func (g *Gate) enterControl(ctx context.Context) (func(), *overload.Refused) {
	leave := func() { <-g.control }
	select {
	case g.control <- struct{}{}:
		return leave, nil
	default:
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case g.control <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	g.refuse(overload.Control, reasonPlaces)
	return nil, &overload.Refused{Lane: overload.Control, Level: g.o.Level(), After: time.Second}
}

// acquire waits a moment for a place.
func (l *lane) acquire(ctx context.Context) (p adaptivelimiter.Permit, waited time.Duration, ok bool) {
	if p, ok := l.limiter.TryAcquirePermit(); ok {
		return p, 0, true
	}
	began := time.Now()
	p, err := l.limiter.AcquirePermitWithMaxWait(ctx, maxWait)
	return p, time.Since(began), err == nil
}

// rateOver is over how long a rate is measured.
const rateOver = 2 * time.Second

// count notes that one is done.
func (l *lane) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done++
	if gone := time.Since(l.since); gone >= rateOver {
		l.rate, l.done, l.since = float64(l.done)/gone.Seconds(), 0, time.Now()
	}
}

// drain is in which time what is ahead is done.
func (l *lane) drain() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return overload.Drain(l.limiter.Inflight()+l.limiter.Queued(), l.rate)
}

// waited notes how long a request waited for its place.
func (g *Gate) waited(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.came || d < g.least {
		g.least, g.came = d, true
	}
}

// Queued is the least time that a request waited for its place since the last call.
func (g *Gate) Queued() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.least
	g.least, g.came = 0, false
	return d
}

// Handler serves streams of a protocol.
type Handler = func(ctx context.Context, from cluster.NodeID, conn net.Conn)

// Stream is h where this host does not shed the lane of its protocol; else the stream
// ends at once, and who opened it tries elsewhere or later.
func (g *Gate) Stream(of overload.Lane, h Handler) Handler {
	if !of.Known() {
		panic("gate: a protocol without a lane")
	}
	return func(ctx context.Context, from cluster.NodeID, conn net.Conn) {
		if g.load().Sheds(of) {
			g.refuse(of, reasonLevel)
			return
		}
		h(ctx, from, conn)
	}
}

// Why a request was refused.
const (
	reasonLevel  = "level"
	reasonPlaces = "places"
)

type counts struct {
	shed *prometheus.CounterVec
}

func newCounts(reg prometheus.Registerer, g *Gate) (*counts, error) {
	m := &counts{shed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_overload_refused_total", Help: "Requests that were refused because of overload, by lane, and by whether the level of load sheds them or all places were taken.",
	}, []string{"lane", "reason"})}
	list := []prometheus.Collector{m.shed}
	for _, l := range overload.Limited() {
		m.shed.WithLabelValues(l.String(), reasonPlaces)
		if l != overload.Control {
			m.shed.WithLabelValues(l.String(), reasonLevel)
			limiter := g.lanes[l].limiter
			list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "skein_overload_places", Help: "How many requests of a lane run at once at most, as found out.", ConstLabels: prometheus.Labels{"lane": l.String()},
			}, func() float64 { return float64(limiter.Limit()) }))
		}
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range list {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
	}
	return m, nil
}
