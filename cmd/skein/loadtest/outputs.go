package loadtest

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/push"
	"github.com/skein-project/skein/load/stat"
)

// tokenVar names the variable with what outputs are told, so that it is in no list of
// processes.
const tokenVar = "SKEIN_LOAD_OUT_TOKEN"

// outputs are the files of --out, which get the report, and those that get what is counted
// meanwhile.
func (f *runFlags) outputs() (files, feeds []string) {
	for _, text := range f.out {
		if push.Is(text) {
			feeds = append(feeds, text)
		} else {
			files = append(files, text)
		}
	}
	return files, feeds
}

// feed sends on what a run counts; a nil one does nothing.
type feed struct {
	to   *push.Outputs
	last time.Time // the end of the last window
}

func (f *runFlags) open(a *cli.App, s *screen, r push.Run) (*feed, error) {
	_, feeds := f.outputs()
	if len(feeds) == 0 {
		return nil, nil //nolint:nilnil // no feed
	}
	r.Start = time.Now()
	to, err := push.Open(r, feeds, push.Options{
		Token: a.Getenv(tokenVar), Agent: "skein-load/" + f.version, Warn: s.noting(func(text string) { a.Note("%s", text) }),
	})
	if err != nil {
		return nil, err
	}
	return &feed{to: to}, nil
}

// openOf asks for the name of a run that is followed.
func (f *runFlags) openOf(a *cli.App, ctx context.Context, c *api.Client, s *screen, id string) (*feed, error) {
	if _, feeds := f.outputs(); len(feeds) == 0 && s == nil {
		return nil, nil //nolint:nilnil // no feed
	}
	r, err := c.LoadRun(ctx, id)
	if err != nil {
		return nil, err
	}
	if s != nil {
		s.o.Name, s.o.ID = r.Name, string(r.ID)
	}
	return f.open(a, s, push.Run{ID: string(r.ID), Name: r.Name})
}

func (f *feed) close() {
	if f != nil {
		f.to.Close()
	}
}

// send dates a window: no two end at one time.
func (f *feed) send(w push.Window) {
	w.At = time.Now()
	if least := f.last.Add(time.Millisecond); w.At.Before(least) {
		w.At = least
	}
	f.last = w.At
	f.to.Send(w)
}

// live sends on what a follower is told.
func (f *feed) live(x api.LoadLive) {
	if f == nil || x.Seconds == 0 && !slices.ContainsFunc(x.Steps, func(s api.LoadStep) bool { return len(s.Classes) > 0 }) {
		return // nothing was counted since
	}
	w := push.Window{Span: time.Duration(x.Seconds * float64(time.Second)), Users: x.Users, Queue: x.Queue, Again: x.Again}
	for _, s := range x.Steps {
		w.Steps = append(w.Steps, push.Step{Name: s.Name, Classes: s.Classes, P50: s.Latency.P50, P95: s.Latency.P95, P99: s.Latency.P99, Max: s.Latency.Max})
	}
	f.send(w)
}

// frames sends on what a run from this machine counts.
func (f *feed) frames(p *load.Plan) func(stat.Frame) {
	if f == nil {
		return nil
	}
	return func(x stat.Frame) {
		b, err := stat.ReadBank(x.Bank, len(p.Steps), len(p.Checks))
		if err != nil || x.Warm {
			return
		}
		w := push.Window{Span: time.Duration(x.Span) * stat.Step, Users: x.Users, Queue: x.Queue}
		for i, st := range p.Steps {
			s := &b.Series[i]
			one := push.Step{Name: st.Name, Classes: map[string]uint64{}}
			for class, n := range s.Classes {
				if n > 0 {
					one.Classes[load.Class(class).String()] = n
				}
			}
			if h := &s.Times[stat.Latency]; h.N > 0 {
				one.P50, one.P95, one.P99, one.Max = h.Quantile(0.5), h.Quantile(0.95), h.Quantile(0.99), h.Max()
			}
			w.Steps = append(w.Steps, one)
		}
		f.send(w)
	}
}
