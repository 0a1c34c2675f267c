package slice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/stat"
)

// How long a slice is kept of which no holder hears.
const (
	forgetReady   = time.Minute
	endAlone      = 30 * time.Second
	forgetDone    = 10 * time.Minute
	lookEvery     = time.Second
	drainPatience = 5 * time.Minute
	drainLook     = 100 * time.Millisecond
	maxOrders     = event.MaxLoadHosts + 4
)

// Allowed is what the configuration of the host says.
type Allowed struct {
	Enabled  bool
	Owners   []string // whose runs; "*": everybody's
	Targets  map[string]guard.Limits
	MaxRate  float64 // requests a second; 0: as the targets say
	MaxUsers int     // 0: any number
	Secrets  string  // directory
	User     string  // whose rights the engine has; empty: the daemon's own
}

// Options of a Host. All must be set but Argv and Registerer.
type Options struct {
	Self    cluster.NodeID
	Cluster string // its id
	Agent   string
	Argv    []string // starts a process that calls Main; default this program's
	Allowed func() Allowed
	// Member reports whether an owner is one of those that Owners names, by a group.
	Member func(owner, group string) bool
	// Never are networks that are nobody's target, as the mesh.
	Never func() []netip.Prefix
	// Fetch gets an artefact, from other hosts as well.
	Fetch func(ctx context.Context, h cluster.Hash) ([]byte, error)
	// Running is how many chunks the worker of this host runs.
	Running    func() int
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: figures go nowhere
}

// Host has the slices of one host. Its methods may be called from any goroutine.
type Host struct {
	o    Options
	wait sync.WaitGroup
	m    *metrics

	mu     sync.Mutex
	ctx    context.Context // of Run; nil: it does not run
	slices map[event.LoadID]*slice
}

// New returns a Host without slices. It starts nothing.
func New(o Options) (*Host, error) {
	if len(o.Argv) == 0 {
		o.Argv = []string{"/proc/self/exe", "load-slice"}
	}
	o.Logger = o.Logger.With().Str("component", "load").Logger()
	m, err := newMetrics(o.Registerer)
	return &Host{o: o, m: m, slices: map[event.LoadID]*slice{}}, err
}

// Run looks after the slices until ctx ends; then it ends their processes.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	h.ctx = ctx
	h.mu.Unlock()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.mu.Lock()
			h.ctx = nil
			h.mu.Unlock()
			cancel()
			h.wait.Wait()
			return ctx.Err()
		case <-tick.C:
		}
		h.look(time.Now())
	}
}

// look ends and forgets what nobody asked for.
func (h *Host) look(now time.Time) {
	allowed := h.o.Allowed()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.slices {
		silent := now.Sub(s.heard)
		if s.stage != gang.Done && s.stage != gang.Broken {
			if why := h.revoked(s, allowed); why != "" {
				h.o.Logger.Warn().Str("run", string(id)).Str("reason", why).Msg("this host's part of a load test ends")
				s.giveUp(why)
			}
		}
		switch s.now() {
		case gang.Running:
			if silent > endAlone && !s.ending {
				h.o.Logger.Warn().Str("run", string(id)).Msg("no holder asks for this host's part of a load test: it ends")
				s.order(order{End: true})
				s.ending = true
			}
		case gang.Done, gang.Broken:
			if silent > forgetDone {
				delete(h.slices, id)
			}
		default:
			if silent > forgetReady {
				s.cancel()
				delete(h.slices, id)
			}
		}
	}
}

// Up reports that Run is at work.
func (h *Host) Up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx != nil
}

// Held reports that this host is held for a load test: it begins nothing else.
func (h *Host) Held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held("") != ""
}

// held is the run for which it is held, beside one.
func (h *Host) held(beside event.LoadID) event.LoadID {
	for id, s := range h.slices {
		if stage := s.now(); id != beside && stage != gang.Done && stage != gang.Broken {
			return id
		}
	}
	return ""
}

// Offer says whether this host may take part.
func (h *Host) Offer(w gang.Wanted) gang.Offer {
	a := h.o.Allowed()
	out := gang.Offer{MaxRate: a.MaxRate, MaxUsers: a.MaxUsers}
	list, err := guard.ParseList(a.Targets)
	switch {
	case h.refuses(a, w.Owner) != "":
		out.Why = h.refuses(a, w.Owner)
	case err != nil:
		out.Why = err.Error()
	}
	if out.Why != "" {
		return out
	}
	never := guard.Guard{Never: h.o.Never()}
	for _, t := range w.Targets {
		if ip, err := netip.ParseAddr(t.Name); err == nil {
			if why := never.Refuse(ip); why != "" {
				out.Why = fmt.Sprintf("nothing is ever sent to %s: %s", t, why)
				return out
			}
		}
		found, err := list.Named(t.Name, t.Port)
		if err != nil {
			out.Why = err.Error()
			return out
		}
		out.MaxRate, out.MaxRamp = least(out.MaxRate, found.Rate), least(out.MaxRamp, found.Ramp)
		out.MaxConnections = least(out.MaxConnections, found.Connections)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out.Busy = h.held(w.Run)
	return out
}

// least is the stricter of two limits, of which 0 is none.
func least[T int | float64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// refuses says why a host with such a configuration takes no part in an owner's runs; empty: it does.
func (h *Host) refuses(a Allowed, owner string) string {
	switch {
	case !a.Enabled:
		return "load.enabled is false"
	case !h.mayOwn(a, owner):
		return fmt.Sprintf("load.owners does not name %s", owner)
	}
	return ""
}

// revoked says why a slice that was allowed something may not go on; empty: it may. Its process has
// what was allowed then.
func (h *Host) revoked(s *slice, now Allowed) string {
	if s.last.allowed == nil {
		return ""
	}
	if why := h.refuses(now, s.p.Owner); why != "" {
		return why + " by now"
	}
	if now.MaxRate != s.last.allowed.MaxRate || now.MaxUsers != s.last.allowed.MaxUsers {
		return "load.max_rate or load.max_users is another one by now"
	}
	for text, limits := range s.last.allowed.Targets {
		if is, ok := now.Targets[text]; !ok || is != limits {
			return fmt.Sprintf("load.targets says something else of %.80q by now", text)
		}
	}
	return ""
}

func (h *Host) mayOwn(a Allowed, owner string) bool {
	for _, o := range a.Owners {
		if o == "*" || o == owner {
			return true
		}
		if group, is := strings.CutPrefix(o, "group:"); is && h.o.Member(owner, group) {
			return true
		}
	}
	return false
}

// errStopping: the daemon ends.
var errStopping = errors.New("the host stops")

// Prepare begins to make a slice ready, or says how far that is.
func (h *Host) Prepare(p gang.Prepare) (gang.Prepared, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slices[p.Run]
	if s != nil && s.p.Attempt < p.Attempt {
		switch s.now() {
		case gang.Running, gang.Done:
			return gang.Prepared{}, fmt.Errorf("it has begun already, in term %d", s.p.Attempt)
		}
		s.cancel()
		s = nil
	}
	if s == nil {
		if other := h.held(p.Run); other != "" {
			return gang.Prepared{}, fmt.Errorf("the host is held for the load test %s", other)
		}
		if h.ctx == nil {
			return gang.Prepared{}, errStopping
		}
		s = newSlice(h, p)
		h.slices[p.Run] = s
		h.wait.Go(s.run)
	}
	if s.p.Attempt > p.Attempt {
		return gang.Prepared{}, fmt.Errorf("the holder of term %d has it", s.p.Attempt)
	}
	s.heard = time.Now()
	switch s.stage {
	case gang.Preparing:
		return gang.Prepared{Waits: s.waits}, nil
	case gang.Broken:
		return gang.Prepared{}, errors.New(s.why)
	}
	return gang.Prepared{Ready: true, Extracted: s.extracted}, nil
}

// Start tells a slice that is ready when to begin. Told again it holds to the first.
func (h *Host) Start(x gang.Start) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slices[x.Run]
	switch {
	case s == nil:
		return errors.New("nothing is prepared")
	case s.now() == gang.Running, s.now() == gang.Done:
		return errors.New("it has begun already")
	case s.stage == gang.Broken:
		return errors.New(s.why)
	case s.p.Attempt > x.Attempt:
		return fmt.Errorf("the holder of term %d has it", s.p.Attempt)
	case s.stage == gang.Preparing:
		return errors.New("it is not ready")
	case s.stage == gang.Armed:
		return nil
	}
	s.heard, s.stage, s.at = time.Now(), gang.Armed, x.At
	s.order(order{Start: &x, Until: s.fence.begun(sysclock.Boot())})
	return nil
}

// Redeal has a slice that runs, or is to, do from a time on what others do not any more.
func (h *Host) Redeal(x gang.Redeal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slices[x.Run]
	switch {
	case s == nil:
		return errors.New("nothing is prepared")
	case s.now() != gang.Armed && s.now() != gang.Running:
		return fmt.Errorf("it is %s", s.now())
	case s.last.redeal != nil && x.Turn <= s.last.redeal.Turn:
		return nil
	}
	s.heard, s.last.redeal = time.Now(), &x
	s.order(order{Redeal: &x})
	return nil
}

// End has a slice end, and with Drop forgets it.
func (h *Host) End(x gang.End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slices[x.Run]
	if s == nil {
		return
	}
	s.heard = time.Now()
	stage := s.now()
	over := stage == gang.Done || stage == gang.Broken
	if x.Drop || !over && stage != gang.Running {
		s.cancel() // nothing of it is needed, or there is nothing yet
		if x.Drop {
			delete(h.slices, x.Run)
		}
		return
	}
	if !over && !s.ending {
		s.ending = true
		s.order(order{End: true})
	}
}

// Counted waits for what a slice has counted from a frame on.
func (h *Host) Counted(ctx context.Context, a gang.Ask) gang.Counted {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.Wait)*time.Millisecond)
	defer cancel()
	for {
		h.mu.Lock()
		s := h.slices[a.Run]
		if s == nil {
			h.mu.Unlock()
			return gang.Counted{Stage: gang.Unknown}
		}
		s.heard = time.Now()
		s.fence.told(a.After)
		s.slewed(time.Duration(a.Slew))
		out := gang.Counted{Stage: s.now(), Why: s.why, Begins: s.at, Redeal: s.last.redeal}
		if a.Wait == 0 {
			out.Extracted = s.extracted
		}
		known := true
		if s.shelf != nil {
			out.Frames, known = s.shelf.Since(a.After, gang.MaxFrames)
			if len(out.Frames) == 0 || out.Frames[len(out.Frames)-1].Last+1 == s.shelf.Next() {
				out.End = s.end
			}
		}
		out.Again = !known
		news := s.news
		h.mu.Unlock()
		if len(out.Frames) > 0 || out.Again || out.End != nil || out.Stage == gang.Broken {
			return out
		}
		select {
		case <-ctx.Done():
			return out
		case <-news:
		}
	}
}

// slice is the part of this host in one run. What the Host's mutex guards stands below
// it.
type slice struct {
	h      *Host
	p      gang.Prepare
	ctx    context.Context
	cancel context.CancelFunc
	counts

	stage  gang.Stage // as it was told; see now
	waits  string
	why    string
	at     int64     // when it begins
	heard  time.Time // of a holder
	ending bool
	last   last
	fence  fence
	orders chan order    // capacity maxOrders: a start, an end, and a redeal for each host that is lost; never closed
	news   chan struct{} // closed and made again when something changed
}

// last is what the process was told last.
type last struct {
	redeal *gang.Redeal  // nil: none
	slew   time.Duration // by how much windows end later
	// allowed is what it may; nil: there is none yet.
	allowed *Allowed
}

// counts are what it said of itself.
type counts struct {
	extracted [][]byte
	shelf     *stat.Shelf  // nil: not ready yet
	early     []stat.Frame // what setup counted, before it is ready
	blocked   map[guard.Reason]uint64
	end       *gang.Ended
}

func newSlice(h *Host, p gang.Prepare) *slice {
	s := &slice{h: h, p: p, stage: gang.Preparing, heard: time.Now(), orders: make(chan order, maxOrders), news: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	s.fence = fence{limit: time.Duration(p.Fence) * time.Millisecond, until: make(chan time.Duration, 1)}
	return s
}

// now is the stage: who is armed runs from its instant on.
func (s *slice) now() gang.Stage {
	if s.stage == gang.Armed && Clock() >= s.at {
		return gang.Running
	}
	return s.stage
}

// slewed tells the process by how much its windows are to end later, if that is another time.
func (s *slice) slewed(by time.Duration) {
	if by == s.last.slew || s.now() != gang.Running || len(s.orders) > 0 { // then the next time
		return
	}
	s.last.slew = by
	s.order(order{Slew: &by})
}

func (s *slice) order(x order) {
	select {
	case s.orders <- x:
	default:
	}
}

// set changes it, and tells who waits.
func (s *slice) set(f func()) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	f()
	s.changed()
}

// changed tells who waits, with the Host's mutex.
func (s *slice) changed() {
	close(s.news)
	s.news = make(chan struct{})
}

func (s *slice) broke(err error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.giveUp(err.Error())
}

// giveUp ends it without a result, with the Host's mutex: the first reason counts.
func (s *slice) giveUp(why string) {
	if s.stage == gang.Done || s.stage == gang.Broken {
		return
	}
	s.stage, s.why = gang.Broken, fmt.Sprintf("%.500s", why)
	s.cancel()
	s.changed()
}
