package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/clock"
	"github.com/skein-project/skein/load/grpc"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/hold"
	"github.com/skein-project/skein/load/hook"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/tally"
)

// Engine is one run. It is used once.
type Engine struct {
	o        Options
	net      *reach.Network
	shards   []*tally.Shard
	traffics []*traffic
	byStep   []*reach.Origin // nil: only known when a template is filled
	globals  [][]byte        // what setup extracted
	crowd
	rows []atomic.Uint64 // how many of each set were dealt
	wait sync.WaitGroup  // traffics and users
	times

	cookies, shared, each bool // how connections and cookies are used
	clients

	state
}

// times of a run.
type times struct {
	made, began time.Time
	joined      time.Duration // since began: what was due before was not for it; 0: it began with the others
	slew        atomic.Int64  // see Slew
}

// clients are those of net/http.
type clients struct {
	pool      pool      // connections = "shared"
	byVersion byVersion // connections = "shared"
	sockets   *http.Client
	modules   *hook.Set    // nil: no step has one
	calls     []*grpc.Call // by step; nil: it makes none
}

// crowd is how many users there were and are, and what of the plan is theirs by now.
type crowd struct {
	users   atomic.Uint64
	present atomic.Int64
	redealt atomic.Pointer[redeal] // nil: Options.Deal
	hold    hold.Gate
}

// state is what ends a run, and what is said of it.
type state struct {
	mu      sync.Mutex
	ending  chan struct{} // closed: nothing more begins
	over    chan struct{} // closed: what is under way ends
	hard    context.Context
	cut     context.CancelFunc
	why     string // it ended before its time
	stopped bool   // by whoever started it
	hooks   []func()
	lanes   []*lane
	errors  map[errorKey]string
	refused map[guard.Reason]uint64
	notes   []string
	limit   bucket.Bucket
	slowed  atomic.Bool
	blocked atomic.Uint64
}

type errorKey struct {
	series int
	class  load.Class
}

// maxBlocked is how many requests may be blocked before a run ends.
const maxBlocked = 100

// New prepares a run. It resolves and dials nothing.
func New(o Options) (*Engine, error) {
	if o.PublicRate == 0 {
		o.PublicRate = guard.PublicRate
	}
	if o.PublicUsers == 0 {
		o.PublicUsers = guard.PublicUsers
	}
	if o.Agent == "" {
		o.Agent = "skein-load"
	}
	p := o.Plan
	e := &Engine{o: o, times: times{made: time.Now()}, net: reach.New(o.reach()), rows: make([]atomic.Uint64, len(p.Sets))}
	e.cookies = p.HTTP.Cookies != "off"
	e.shared, e.each = p.HTTP.Connections == "shared", p.HTTP.Connections == "request"
	e.ending, e.over = make(chan struct{}), make(chan struct{})
	e.errors, e.refused = map[errorKey]string{}, map[guard.Reason]uint64{}
	for v := range versions {
		e.byVersion.of(e, v)
	}
	e.sockets = e.newSocketClient()
	for range runtime.GOMAXPROCS(0) {
		e.shards = append(e.shards, tally.New(len(p.Steps), len(p.Checks)))
	}
	for _, st := range p.Steps {
		if st.Dynamic {
			e.byStep = append(e.byStep, nil)
			continue
		}
		at, err := e.net.Origin(st.Origin)
		if err != nil {
			return nil, err
		}
		if a, err := netip.ParseAddr(st.Origin.Name); err == nil {
			if err := e.net.Refuse(a); err != nil {
				return nil, &RefusedError{fmt.Errorf("step %s: %w", st.Name, err)}
			}
		}
		if o.Listed {
			if _, err := o.List.Named(st.Origin.Name, st.Origin.Port); err != nil {
				return nil, &RefusedError{fmt.Errorf("step %s: %w", st.Name, err)}
			}
		}
		e.byStep = append(e.byStep, at)
	}
	if err := errors.Join(e.loadHooks(), e.loadCalls()); err != nil {
		return nil, &RefusedError{err}
	}
	for i := range p.Traffics {
		e.traffics = append(e.traffics, newTraffic(e, &p.Traffics[i]))
	}
	return e, nil
}

// RefusedError says that a run asks for what is not allowed. Nothing was sent.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// OfTarget reports whether it is about where requests would go.
func (e *RefusedError) OfTarget() bool {
	_, blocked := errors.AsType[*reach.BlockedError](e.Err)
	return blocked
}

// now is the time, by one reading of a clock, where time.Now is two.
func (e *Engine) now() time.Time { return e.made.Add(time.Since(e.made)) }

// length is when the last traffic ends.
func (e *Engine) length() time.Duration {
	d := time.Duration(0)
	for _, t := range e.traffics {
		d = max(d, t.curve.End())
	}
	return d
}

// prepare resolves the names that are known, and refuses what is too much for
// addresses of the internet.
func (e *Engine) prepare(ctx context.Context) error {
	for _, o := range e.net.All() {
		// What cannot be resolved now is counted by its class later.
		_, _, _ = e.net.Resolve(ctx, o, false)
		if err := e.net.Prove(ctx, o); err != nil {
			return &RefusedError{err}
		}
		if !o.Public() || e.o.Listed {
			continue
		}
		rate, users := pace.Peak(e.o.Plan)
		if rate > e.o.PublicRate {
			return &RefusedError{fmt.Errorf("%s is an address of the internet: the plan comes to %g requests/s, at most %g are allowed", o.Host, rate, e.o.PublicRate)}
		}
		open := 0
		for _, t := range e.o.Plan.Traffics {
			if t.Open {
				open += t.MaxUsers // what a rate needs at most
			}
		}
		if users-open > e.o.PublicUsers {
			return &RefusedError{fmt.Errorf("%s is an address of the internet: the plan comes to %d users, at most %d are allowed", o.Host, users-open, e.o.PublicUsers)}
		}
	}
	return nil
}

// Run runs it. The error is about what kept it from beginning; how it ended is in
// the result. When ctx ends, nothing more begins, and what is under way has a moment.
func (e *Engine) Run(ctx context.Context) (*report.Run, error) {
	e.hard, e.cut = context.WithCancel(context.WithoutCancel(ctx))
	defer e.cut()
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	c := newCollector(e)
	helpers := sync.WaitGroup{}
	defer helpers.Wait()
	helping, stop := context.WithCancel(e.hard)
	defer stop()
	helpers.Go(func() {
		if e.o.Plan.HTTP.DNS == "ttl" {
			e.net.Refresh(helping)
		}
	})
	e.began = time.Now()
	if f := e.o.Plan.Setup; f != nil && !e.o.Rest {
		if !e.single(f) {
			e.end("setup failed")
		}
		c.aside()
	}
	if err := e.start(ctx); err != nil {
		e.finish()
		return nil, err
	}
	c.cpu.Begin()
	c.res.Started = e.began
	for _, t := range e.traffics {
		e.wait.Add(1)
		go t.run()
	}
	done := make(chan struct{})
	helpers.Go(func() {
		e.wait.Wait()
		close(done)
	})
	c.count(ctx, done)
	if f := e.o.Plan.Teardown; f != nil && !e.isOver() && !e.o.Rest {
		e.single(f)
		c.aside()
	}
	e.finish()
	stop()
	return c.result(), nil
}

// start waits for the instant at which the run begins.
func (e *Engine) start(ctx context.Context) error {
	if e.o.Start == nil {
		e.began = time.Now()
		return nil
	}
	at, globals, err := e.o.Start(ctx, e.globals)
	if err != nil {
		return err
	}
	timer, err := clock.New(e.o.PlainTime)
	if err != nil {
		return err
	}
	defer timer.End()
	defer context.AfterFunc(ctx, timer.End)()
	if !timer.Until(at) {
		return context.Cause(ctx)
	}
	if e.o.Rest {
		e.globals = globals
	}
	e.began = at
	if late := time.Since(at); late > joins {
		e.joined = late
	}
	return nil
}

// joins is how late a slice may be told when it begins, and still sends all that is due from then on.
const joins = time.Second

// Slew has the windows of a run end that much later than its clock says, in which they are moved by
// and by. When requests are due it does not change.
func (e *Engine) Slew(by time.Duration) { e.slew.Store(int64(by)) }

// single goes through a flow once, with a user of its own.
func (e *Engine) single(f *load.Flow) bool {
	u := e.newUser(f)
	defer u.close()
	ok := u.iterate(time.Time{}, false) && !slices.Contains(u.failed, true)
	if f == e.o.Plan.Setup {
		n := 0
		for _, st := range f.Steps {
			for _, x := range st.Extract {
				n = max(n, x.Slot+1)
			}
		}
		e.globals = slices.Clone(u.slots[:n])
	}
	return ok
}

// admit reports whether one more user may be there; leave says that one has gone.
func (e *Engine) admit() bool {
	if e.present.Add(1); e.o.MaxUsers == 0 || e.present.Load() <= int64(e.o.MaxUsers) {
		return true
	}
	e.leave()
	e.slowed.Store(true)
	return false
}

// Hold has nothing more be sent, until it is called with false. What is due meanwhile is not
// sent later; what is under way ends, but the steps behind it are interrupted.
func (e *Engine) Hold(on bool) { e.hold.Set(on) }

func (e *Engine) leave() { e.present.Add(-1) }

// deal gives a user its rows. It reports false when those that are unique are used up.
func (e *Engine) deal(u *user) bool {
	for _, i := range u.flow.Sets {
		set := &e.o.Plan.Sets[i]
		n := uint64(len(set.Rows.Rows))
		at := uint64(0)
		switch set.Pick {
		case load.PickRandom:
			at = u.random() % n
		case load.PickUser:
			at = e.o.Deal.Number(u.n) % n
		default:
			at = e.o.Deal.Number(e.rows[i].Add(1) - 1)
			if set.Pick == load.PickUnique && at >= n {
				return false
			}
			at %= n
		}
		u.rows[i] = set.Rows.Rows[at]
	}
	return true
}

// slow waits where an address of the internet would get more than it may.
func (e *Engine) slow(u *user, o *reach.Origin) error {
	most, one := e.o.PublicRate, 0.0
	if e.o.Listed {
		most, one = e.o.MaxRate, o.Limits.At(time.Since(e.began).Seconds())
	} else if !o.Public() {
		return nil
	}
	if most == 0 && one == 0 {
		return nil
	}
	now, d := time.Since(e.began), time.Duration(0)
	e.mu.Lock()
	if most > 0 {
		d = e.limit.Spend(bucket.Rate{PerSecond: most, Burst: max(1, most/10)}, 1, now)
	}
	if one > 0 {
		d = max(d, o.Spend(one, now))
	}
	e.mu.Unlock()
	if d <= 0 {
		return nil
	}
	e.slowed.Store(true)
	if !u.pause(d) {
		return errOver
	}
	return nil
}

// end ends a run before its time.
func (e *Engine) end(why string) {
	e.mu.Lock()
	if e.why == "" {
		e.why = why
	}
	e.mu.Unlock()
	e.stop()
}

// stop has nothing more begin.
func (e *Engine) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isEnding() {
		return
	}
	close(e.ending)
	for _, f := range e.hooks {
		f()
	}
}

// finish ends what is under way.
func (e *Engine) finish() {
	e.stop()
	e.mu.Lock()
	if !e.isOver() {
		close(e.over)
	}
	lanes := e.lanes
	e.mu.Unlock()
	e.cut()
	for _, l := range lanes {
		if c := l.open.Load(); c != nil {
			c.Close()
		}
	}
	e.pool.close()
	e.byVersion.close()
	_ = e.modules.Close(context.WithoutCancel(e.hard)) // nothing of them is needed
}

// onEnd has f called when nothing more begins; false: that is so already.
func (e *Engine) onEnd(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isEnding() {
		return false
	}
	e.hooks = append(e.hooks, f)
	return true
}

func (e *Engine) isEnding() bool { return closed(e.ending) }
func (e *Engine) isOver() bool   { return closed(e.over) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// track remembers a lane, whose connection is closed in the end.
func (e *Engine) track(l *lane) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lanes = append(e.lanes, l)
}

// drop counts arrivals that nobody took.
func (e *Engine) drop(f *load.Flow, n int) {
	for range n {
		e.shards[0].Drop(f.Steps[0].Series)
	}
}

// noticed ends a run that mostly runs into the guard.
func (e *Engine) noticed(c load.Class) {
	if c == load.Blocked && e.blocked.Add(1) == maxBlocked {
		e.end(fmt.Sprintf("%d requests were blocked", maxBlocked))
	}
}

// maxNotes bounds what is said of a run beside its figures.
const maxNotes = 32

// note remembers how a class of a step looked the first time.
func (e *Engine) note(st *load.Step, c load.Class, err error) {
	if err == nil || c == load.Skipped || c == load.Interrupted {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c == load.Blocked {
		reason := guard.Unlisted
		if b, ok := errors.AsType[*reach.BlockedError](err); ok {
			reason = b.Reason
		}
		e.refused[reason]++
	}
	k := errorKey{st.Series, c}
	if _, known := e.errors[k]; !known {
		e.errors[k] = fmt.Sprintf("%.300s", load.Redact(err.Error(), e.o.Plan.Secrets))
	}
}

// Blocked counts the requests of the run so far that were not sent, by why.
func (e *Engine) Blocked() map[guard.Reason]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.refused)
}

// remark remembers something once.
func (e *Engine) remark(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.notes) < maxNotes && !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
	}
}

// Once goes through each flow once, with Options.Trace to hear of it.
func (e *Engine) Once(ctx context.Context) error {
	e.hard, e.cut = context.WithCancel(ctx)
	defer e.cut()
	if e.o.Trace == nil {
		return errors.New("nobody would hear of it")
	}
	if err := e.prepare(ctx); err != nil {
		return err
	}
	defer e.finish()
	e.began = time.Now()
	p := e.o.Plan
	if p.Setup != nil && !e.single(p.Setup) {
		return errors.New("setup failed")
	}
	good := true
	seen := map[string]bool{}
	for _, t := range p.Traffics {
		if !seen[t.Flow] {
			seen[t.Flow] = true
			good = e.single(p.Flows[t.Flow]) && good
		}
	}
	if p.Teardown != nil {
		good = e.single(p.Teardown) && good
	}
	if !good {
		return ErrNotAsExpected
	}
	return nil
}

// ErrNotAsExpected says that a step of Once was not ok.
var ErrNotAsExpected = errors.New("not all steps ended as they should")

// NewSeed is one for a run that says none.
func NewSeed() uint64 { return rand.Uint64() }

// selfOf is what the generator knows of itself.
func (e *Engine) selfOf(c *collector) rule.Self {
	all := c.judge.Whole().All()
	s := rule.Self{Late: &c.judge.Whole().OwnLate, CPU: c.cpu.Most(), Own: all.Classes[load.Generator], Gap: c.self.Gap, When: c.self.When, Slowed: e.slowedBy()}
	if h := &all.Times[0]; h.N > 0 {
		s.Latency = h.Quantile(0.5)
	}
	return s
}

// slowedBy is what kept it from sending all that was due; empty: nothing did.
func (e *Engine) slowedBy() string {
	var list []string
	switch {
	case !e.slowed.Load() && !e.net.Full():
	case e.o.Listed:
		list = append(list, "users were slowed to what [load] of this host allows")
	default:
		list = append(list, fmt.Sprintf("users were slowed to %g requests/s, which is all that addresses of the internet get", e.o.PublicRate))
	}
	if e.joined > 0 {
		list = append(list, fmt.Sprintf("it began %s behind the others, when another holder told it to", e.joined.Round(time.Millisecond)))
	}
	if held := e.hold.Text(); held != "" {
		list = append(list, held)
	}
	return strings.Join(list, "; ")
}
