package loads

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	fold "github.com/skein-project/skein/eventlog/state/loads"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/slice"
)

const (
	// awaitTime is how long a change is waited for that the holder acknowledged, until
	// this host's log has it.
	awaitTime = 5 * time.Second
	// maxOpen bounds the tests that have not ended.
	maxOpen = 16
	// maxOwn bounds those of one owner: others are to have a turn.
	maxOwn = 8
	holder = "holder"
)

// Scheduler logs what was decided, on the holder.
type Scheduler interface {
	Set(ctx context.Context, b event.Register) error
}

// Log is the event log as it is folded.
type Log interface {
	View(func(*state.State))
	Changed() <-chan struct{}
}

// Options of Loads. All must be set.
type Options struct {
	Self      cluster.NodeID
	Log       Log
	Scheduler Scheduler
	Remote    *forward.Router
	Host      *slice.Host // this host's own part
	// Members lists those that are up, Holder who holds the lease.
	Members func() []cluster.NodeID
	Holder  func() cluster.NodeID
	// Get reads an artefact of open tests, Keep and Kept those that tests left, Spread puts
	// artefacts on enough voters.
	Get    func(ctx context.Context, h cluster.Hash, limit int64) ([]byte, error)
	Spread func(ctx context.Context, hashes []cluster.Hash) error
	Keep   func(r io.Reader, limit int64) (cluster.Hash, error)
	Kept   func(ctx context.Context, h cluster.Hash, limit int64) ([]byte, error)
	// Watch asks the holder what a test counted, once for the zone.
	Watch func(ctx context.Context, q forward.LoadWatch) (api.LoadLive, error)
	// AwaitHolder waits until one is known.
	AwaitHolder func(ctx context.Context) error
	// Aware refuses a kind of event that a member which lives does not know.
	Aware  func(event.Kind) error
	Logger zerolog.Logger
}

// Loads implements the part of status.Backend about load tests. Its methods may be called
// from any goroutine.
type Loads struct {
	o Options
	// changing has room for the one change of what the log says that is under way here.
	changing chan struct{}

	patience func(stopped bool) time.Duration // see there
	mute     time.Duration                    // see there

	mu    sync.Mutex
	live  map[event.LoadID]*drive // what this host carries out, or did lately
	order []event.LoadID
}

// New returns Loads.
func New(o Options) *Loads {
	o.Logger = o.Logger.With().Str("component", "load").Logger()
	return &Loads{o: o, changing: make(chan struct{}, 1), live: map[event.LoadID]*drive{}, patience: patience, mute: mute}
}

// Handle registers what this host carries out for others.
func (l *Loads) Handle(r *forward.Router) {
	forward.Handle(r, forward.SubmitLoad, l.submitHere)
	forward.Handle(r, forward.StopLoad, l.stopHere)
	forward.Handle(r, forward.WatchLoad, l.watchHere)
	forward.Handle(r, forward.LoadOffer, func(_ context.Context, _ forward.Asker, w gang.Wanted) (gang.Offer, error) {
		return l.o.Host.Offer(w), nil
	})
	forward.Handle(r, forward.LoadPrepare, func(_ context.Context, by forward.Asker, p gang.Prepare) (gang.Prepared, error) {
		if err := l.ofHolder(by); err != nil {
			return gang.Prepared{}, err
		}
		out, err := l.o.Host.Prepare(p)
		return out, refused(err)
	})
	forward.Handle(r, forward.LoadClock, func(context.Context, forward.Asker, gang.Named) (gang.Clock, error) {
		return gang.Clock{Now: slice.Clock()}, nil
	})
	forward.Handle(r, forward.LoadStart, func(_ context.Context, by forward.Asker, x gang.Start) (forward.None, error) {
		if err := l.ofHolder(by); err != nil {
			return forward.None{}, err
		}
		return forward.None{}, refused(l.o.Host.Start(x))
	})
	forward.Handle(r, forward.LoadEnd, func(_ context.Context, by forward.Asker, x gang.End) (forward.None, error) {
		if err := l.ofHolder(by); err != nil {
			return forward.None{}, err
		}
		l.o.Host.End(x)
		return forward.None{}, nil
	})
	forward.Handle(r, forward.LoadRedeal, func(_ context.Context, by forward.Asker, x gang.Redeal) (forward.None, error) {
		if err := l.ofHolder(by); err != nil {
			return forward.None{}, err
		}
		return forward.None{}, refused(l.o.Host.Redeal(x))
	})
	forward.Handle(r, forward.LoadCounted, func(ctx context.Context, by forward.Asker, a gang.Ask) (gang.Counted, error) {
		if err := l.ofHolder(by); err != nil {
			return gang.Counted{}, err
		}
		heard := slice.Clock()
		out := l.o.Host.Counted(ctx, a)
		out.Heard, out.Now = heard, slice.Clock()
		return out, nil
	})
}

// ofHolder refuses what only the holder may ask for.
func (l *Loads) ofHolder(by forward.Asker) error {
	if now := l.o.Holder(); by.From != now {
		return api.Errorf(api.CodeNotReady, "%s does not hold the lease, %q does as %s knows", by.From, now, l.o.Self)
	}
	return nil
}

// refused is an answer of a host that does not do what it was asked for.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.CodeConflict, "%v", err)
}

// plan reads and compiles what a test runs.
func (l *Loads) plan(ctx context.Context, h cluster.Hash) (*compiled, error) {
	text, err := l.o.Get(ctx, h, bundle.Max)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "artefact %s is not in the cluster: %v", h, err).
			WithHint("`skein load run FILE --hosts N` puts it there; or PUT /v1/artefacts")
	}
	c, err := compile(text)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "artefact %s: %v", h, err)
	}
	return c, nil
}

// SubmitLoad implements loads.Control of package status: the scenario goes to the voters,
// so that the test survives the loss of this host, then the test goes to the holder.
func (l *Loads) SubmitLoad(ctx context.Context, actor string, req api.LoadRequest) (api.LoadSubmitted, error) {
	q := forward.LoadSubmission{Key: req.Key, Name: req.Name, Bundle: req.Bundle, Hosts: req.Hosts, On: req.On, Loss: req.OnLoss}
	if _, err := l.submission(ctx, actor, q); err != nil {
		return api.LoadSubmitted{}, err
	}
	if err := l.o.AwaitHolder(ctx); err != nil {
		return api.LoadSubmitted{}, err
	}
	if err := l.o.Spread(ctx, []cluster.Hash{q.Bundle}); err != nil {
		return api.LoadSubmitted{}, err
	}
	out, err := forward.AskHolder(ctx, l.o.Remote, forward.SubmitLoad, actor, q)
	if err != nil {
		return api.LoadSubmitted{}, err
	}
	l.await(ctx, func(st *state.State) bool { _, ok := st.Loads().Run(out.Run); return ok })
	return api.LoadSubmitted{Run: out.Run, Created: out.Created}, nil
}

// submission checks one, and makes what is logged of it.
func (l *Loads) submission(ctx context.Context, owner string, q forward.LoadSubmission) (event.LoadRun, error) {
	if err := forward.CheckLoadSubmission(q); err != nil {
		return event.LoadRun{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	if err := l.o.Aware(event.KindLoadRun); err != nil {
		return event.LoadRun{}, err
	}
	on := slices.Clone(q.On)
	slices.Sort(on)
	b := event.LoadRun{
		Run: event.NewLoadID(owner, q.Key), Owner: owner, Name: q.Name, Bundle: q.Bundle, Hosts: q.Hosts, On: slices.Compact(on), Loss: q.Loss,
		State: event.LoadQueued, Since: time.Now().Unix(), Actor: owner,
	}
	if b.Hosts > 0 && len(b.On) > 0 {
		return b, api.Errorf(api.CodeInvalidRequest, "both hosts and on: say how many take part, or which")
	}
	if err := b.Check(); err != nil {
		return b, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	c, err := l.plan(ctx, q.Bundle)
	if err != nil {
		return b, err
	}
	if b.Name == "" {
		b.Name = clip(c.plan.Name, event.MaxLoadName)
	}
	return b, nil
}

func (l *Loads) submitHere(ctx context.Context, by forward.Asker, q forward.LoadSubmission) (forward.LoadSubmitted, error) {
	b, err := l.submission(ctx, by.Actor, q)
	if err != nil {
		return forward.LoadSubmitted{}, err
	}
	if have, ok := l.run(b.Run); ok {
		if have.Bundle != b.Bundle {
			return forward.LoadSubmitted{}, api.Errorf(api.CodeConflict, "the key was used for another load test")
		}
		return forward.LoadSubmitted{Run: b.Run}, nil
	}
	c, err := l.plan(ctx, b.Bundle)
	if err != nil {
		return forward.LoadSubmitted{}, err
	}
	// A plan that no hosts carry is refused now, with what each of them says.
	if _, err := gang.Choose(c.wants(b), l.offers(ctx, b, c)); err != nil {
		return forward.LoadSubmitted{}, api.Errorf(api.CodeConflict, "%v", err).
			WithHint("[load] in the configuration of each host says what may be hit from it: docs/load.md")
	}
	created := false
	err = l.change(ctx, b.Run, func(now *event.LoadRun, known bool) error {
		if known {
			return errSame
		}
		open, own := 0, 0
		l.o.Log.View(func(st *state.State) {
			for _, r := range st.Loads().Runs() {
				if r.Open() {
					open++
				}
				if r.Open() && r.Owner == b.Owner {
					own++
				}
			}
		})
		if own >= maxOwn {
			return api.Errorf(api.CodeOverloaded, "%d load tests of %s have not ended: no more can wait", own, b.Owner)
		}
		if open >= maxOpen {
			return api.Errorf(api.CodeOverloaded, "%d load tests have not ended: no more can wait", open)
		}
		*now, created = b, true
		return nil
	})
	return forward.LoadSubmitted{Run: b.Run, Created: created}, err
}

// errSame says that nothing is to be changed.
var errSame = errors.New("as it is")

// change logs that a test is in another state. Changes go one after the other, so each is
// made of the latest.
func (l *Loads) change(ctx context.Context, id event.LoadID, f func(b *event.LoadRun, known bool) error) error {
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.changing }()
	r, known := l.run(id)
	b := r.LoadRun
	b.Slices = slices.Clone(b.Slices)
	if err := f(&b, known); err != nil {
		if errors.Is(err, errSame) {
			return nil
		}
		return err
	}
	return l.o.Scheduler.Set(ctx, b)
}

// StopLoad implements loads.Control of package status.
func (l *Loads) StopLoad(ctx context.Context, actor string, id event.LoadID, req api.LoadStopRequest) (api.LoadRun, error) {
	if _, err := forward.AskHolder(ctx, l.o.Remote, forward.StopLoad, forward.At(actor, l.o.Self), forward.LoadStop{Run: id, Reason: req.Reason}); err != nil {
		return api.LoadRun{}, err
	}
	l.await(ctx, func(st *state.State) bool {
		r, ok := st.Loads().Run(id)
		return !ok || r.Stop != "" || !r.Open()
	})
	return l.LoadRun(ctx, id)
}

func (l *Loads) stopHere(ctx context.Context, by forward.Asker, q forward.LoadStop) (forward.None, error) {
	return forward.None{}, l.change(ctx, q.Run, func(b *event.LoadRun, known bool) error {
		switch {
		case !known:
			return unknown(q.Run)
		case !b.Open():
			return api.Errorf(api.CodeConflict, "the load test has ended: %s", b.Verdict)
		case b.Stop != "":
			return errSame
		}
		b.Stop, b.Actor = clip(orElse(q.Reason, "stopped"), cluster.MaxReason/2), clip(by.Actor, cluster.MaxPrincipal)
		l.mu.Lock()
		begun := l.live[q.Run] != nil
		l.mu.Unlock()
		if b.State == event.LoadQueued && !begun { // its turn is not to be waited for
			b.State, b.Verdict, b.Why = event.LoadEnded, string(rule.Stopped), b.Stop
		}
		return nil
	})
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// clip shortens what the log is to say. Half a character would be another text once it is
// logged, and longer: what the log says would never be what was decided.
func clip(s string, most int) string { return job.Clip(strings.ToValidUTF8(s, "?"), most) }

func unknown(id event.LoadID) error {
	return api.Errorf(api.CodeNotFound, "no load test %s", id).WithHint("see `skein load ls`")
}

// await waits for a short time until this host's log says what the holder acknowledged.
func (l *Loads) await(ctx context.Context, there func(*state.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	_ = wait.Seen(ctx, l.o.Log.Changed, func() (is bool) { // what is not here soon is shown without it
		l.o.Log.View(func(s *state.State) { is = there(s) })
		return is
	})
}

func (l *Loads) run(id event.LoadID) (r fold.Run, ok bool) {
	l.o.Log.View(func(st *state.State) { r, ok = st.Loads().Run(id) })
	return r, ok
}

// FindLoad implements loads.Control of package status.
func (l *Loads) FindLoad(text, owner string) (event.LoadID, error) {
	var list []api.Named
	l.o.Log.View(func(st *state.State) {
		for _, r := range slices.Backward(st.Loads().Runs()) {
			list = append(list, api.Named{ID: string(r.Run), Name: r.Name, Owner: r.Owner})
		}
	})
	id, err := api.Find(list, text, owner, "load test", "load tests", "skein load ls")
	return event.LoadID(id), err
}

// LoadRuns implements loads.Control of package status, newest first.
func (l *Loads) LoadRuns(context.Context) (api.LoadRuns, error) {
	var list []fold.Run
	l.o.Log.View(func(st *state.State) { list = st.Loads().Runs() })
	out := api.LoadRuns{Runs: make([]api.LoadRun, 0, len(list))}
	for _, r := range slices.Backward(list) {
		out.Runs = append(out.Runs, show(r))
	}
	return out, nil
}

// LoadRun implements loads.Control of package status.
func (l *Loads) LoadRun(_ context.Context, id event.LoadID) (api.LoadRun, error) {
	r, ok := l.run(id)
	if !ok {
		return api.LoadRun{}, unknown(id)
	}
	return show(r), nil
}

// show is a test as users see it.
func show(r fold.Run) api.LoadRun {
	out := api.LoadRun{
		ID: r.Run, Name: r.Name, Owner: r.Owner, State: r.State, SubmittedAt: time.Unix(r.Since, 0).UTC(), Hosts: []api.LoadHost{},
		StopReason: r.Stop, Verdict: r.Verdict, Why: r.Why,
	}
	if !r.Report.IsZero() {
		out.Report = &r.Report
	}
	all := 0
	for _, s := range r.Slices {
		all += s.Share
	}
	for _, s := range r.Slices {
		out.Hosts = append(out.Hosts, api.LoadHost{Host: s.Host, Share: float64(s.Share) / float64(all), Lost: s.Lost})
	}
	return out
}

// LoadReport implements loads.Control of package status.
func (l *Loads) LoadReport(ctx context.Context, id event.LoadID) (api.LoadReport, error) {
	r, ok := l.run(id)
	switch {
	case !ok:
		return api.LoadReport{}, unknown(id)
	case r.Open():
		return api.LoadReport{}, api.Errorf(api.CodeConflict, "the load test has not ended").WithHint("`skein load watch %s` follows it", id)
	case r.Report.IsZero():
		return api.LoadReport{}, api.Errorf(api.CodeConflict, "the load test has no report: %s", r.Why)
	}
	text, err := l.o.Kept(ctx, r.Report, report.MaxDocument)
	if err != nil {
		return api.LoadReport{}, api.Errorf(api.CodeNotReady, "the report is not reached: %v", err)
	}
	return api.LoadReport{Report: bytes.TrimSpace(text)}, nil
}
