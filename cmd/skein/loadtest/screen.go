package loadtest

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/live"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/stat"
	"github.com/skein-project/skein/tui/loadview"
)

// Values of --ui.
const (
	uiFull = "full"
	uiCI   = "ci"
	uiNone = "none"

	uiHelp = "what is shown meanwhile: full (on a terminal of 80x24 or more the default), ci (a line now\nand then, else the default) or none"
)

// screen shows a test on all of the terminal.
type screen struct {
	a       *cli.App
	in, out *os.File
	o       loadview.Options

	mu    sync.Mutex
	say   func(string) // nil: the picture is not there
	notes []string     // what was said meanwhile, for afterwards
}

// screen is where a test is shown; nil: by lines.
func (f *runFlags) screen(a *cli.App) (*screen, error) {
	if f.ui == uiCI || f.ui == uiNone {
		return nil, nil //nolint:nilnil // by lines
	}
	in, out, ok := a.Screen()
	if ok {
		w, h, err := term.GetSize(int(out.Fd()))
		ok = err == nil && w >= loadview.FullWidth && h >= loadview.FullHeight
	}
	switch {
	case !ok && f.ui == uiFull:
		return nil, cli.Usagef("--ui full needs a terminal of %dx%d or more that moves its cursor", loadview.FullWidth, loadview.FullHeight).WithHint("--ui ci goes line by line")
	case !ok || a.Quiet && f.ui == "":
		return nil, nil //nolint:nilnil // by lines
	}
	return &screen{a: a, in: in, out: out, o: loadview.Options{Color: a.Colored(), ASCII: !a.UTF8()}}, nil
}

// noting has what is said wait for the end of the picture, in which it is shown as well.
func (s *screen) noting(note func(string)) func(string) {
	if s == nil {
		return note
	}
	return func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notes = append(s.notes, text)
		if s.say != nil {
			s.say(text)
		}
	}
}

// run shows what a feed tells, and says afterwards what was said meanwhile.
func (s *screen) run(ctx context.Context, feed func(ctx context.Context, heard func(api.LoadLive), lost func(error)) error) error {
	err := loadview.Run(ctx, s.in, s.out, s.a.Env, s.o, func(ctx context.Context, heard func(api.LoadLive), lost func(error), say func(string)) error {
		s.mu.Lock()
		s.say = say
		s.mu.Unlock()
		return feed(ctx, heard, lost)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say = nil
	for _, text := range s.notes {
		s.a.Note("%s", text)
	}
	return err
}

// follow shows a test that runs on hosts. Leaving it does not end the test; if the test
// was begun here, leaving takes a second Ctrl-C, as the first one ends the test.
func (s *screen) follow(ctx context.Context, c *api.Client, id string, mine bool, to *feed) error {
	var ends atomic.Bool
	s.o.Mine, s.o.Stop = mine, func() error {
		ctx, cancel := s.a.Limited(ctx)
		defer cancel()
		_, err := c.StopLoad(ctx, id, api.LoadStopRequest{})
		ends.Store(err == nil)
		return err
	}
	err := s.run(ctx, func(ctx context.Context, heard func(api.LoadLive), lost func(error)) error {
		return hear(ctx, c, id, func(x api.LoadLive) { to.live(x); heard(x) }, lost)
	})
	if errors.Is(err, loadview.ErrLeft) || ctx.Err() != nil {
		s.a.Code = cli.ExitInterrupted
		if ends.Load() {
			s.a.Note("the test ends: `skein load report %s`", s.o.ID)
			return nil
		}
		s.a.Note("the test goes on: `skein load watch %s`", s.o.ID)
		return nil
	}
	return err
}

// local shows a run from this machine. Whoever leaves it ends it.
func (s *screen) local(ctx context.Context, p *load.Plan, o engine.Options) (r *report.Run, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s.o.Name, s.o.Stop = p.Name, func() error { end(); return nil }
	shown := s.run(context.WithoutCancel(ctx), func(view context.Context, heard func(api.LoadLive), _ func(error)) error {
		defer context.AfterFunc(view, end)()
		mine := &machine{p: p, heard: heard}
		emit := o.Emit
		o.Emit = func(f stat.Frame) {
			if emit != nil {
				emit(f)
			}
			mine.counted(f)
		}
		o.Watch = mine.watch
		r, err = runEngine(ctx, o)
		return err
	})
	if r == nil && err == nil {
		err = shown // the terminal is gone
	}
	return r, err
}

// machine makes of what the engine of this machine says what a follower is told.
type machine struct {
	p     *load.Plan
	heard func(api.LoadLive)
	x     api.LoadLive
	new   bool // x was not told yet
}

// counted takes in a frame; watch, which comes after it, shows it.
func (m *machine) counted(f stat.Frame) {
	b, err := stat.ReadBank(f.Bank, len(m.p.Steps), len(m.p.Checks))
	if err != nil {
		return
	}
	if m.new { // its second has not ended, and another frame has
		m.heard(m.x)
	}
	m.new = true
	none := stat.NewBank(len(m.p.Steps), len(m.p.Checks))
	all, warm := b, none
	if f.Warm {
		all, warm = none, b
	}
	m.x = api.LoadLive{
		Of: m.x.Of, State: event.LoadStarted, Doing: "running", Warm: f.Warm, Users: f.Users, Queue: f.Queue,
		At: (time.Duration(f.At) * stat.Step).Seconds(), Seconds: (time.Duration(f.Span) * stat.Step).Seconds(),
		Steps: live.Steps(m.p, all, warm), Latency: live.Times(&all.All().Times[stat.Latency]), Phases: live.Phases(all),
	}
	m.x.Hosts = []api.LoadHostLive{{
		Host: cluster.NodeID("this machine"), Stage: "running", At: m.x.At, Requests: all.All().Sent(), CPU: f.CPU, Share: 1, LateP99: live.Times(&all.OwnLate).P99,
	}}
}

func (m *machine) watch(s engine.Status) {
	m.x.Of, m.x.Planned, m.x.Thresholds = s.Of.Seconds(), pace.Rate(m.p, s.At), live.Thresholds(s.Thresholds)
	m.heard(m.x)
	m.new = false
}
