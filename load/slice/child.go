package slice

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/room"
	"github.com/skein-project/skein/load/stat"
)

// setup is the first thing that the process of a slice is told.
type setup struct {
	Bundle   json.RawMessage         `json:"bundle"`
	Shares   []int                   `json:"shares"`
	Index    int                     `json:"index"`
	Seed     uint64                  `json:"seed"`
	Agent    string                  `json:"agent"`
	Targets  map[string]guard.Limits `json:"targets"`
	MaxRate  float64                 `json:"max_rate"`
	MaxUsers int                     `json:"max_users"`
	Cluster  string                  `json:"cluster"`
	Never    []netip.Prefix          `json:"never"`
	Secrets  string                  `json:"secrets"`
	Fence    time.Duration           `json:"fence"` // gang.Prepare
}

// order is what it is told then: one field is set.
type order struct {
	Start *gang.Start `json:"start,omitempty"`
	// Redeal comes once it has started.
	Redeal *gang.Redeal `json:"redeal,omitempty"`
	End    bool         `json:"end,omitempty"`
	// Slew is by how much windows are to end later than the clock says.
	Slew *time.Duration `json:"slew,omitempty"`
	// Until is when it sends no more, unless it is told of a later time, by the clock
	// that goes on while the machine sleeps.
	Until time.Duration `json:"until,omitempty"`
}

// said is what it says: one field is set.
type said struct {
	Ready  *ready      `json:"ready,omitempty"`
	Frame  *stat.Frame `json:"frame,omitempty"`
	End    *gang.Ended `json:"end,omitempty"`
	Failed string      `json:"failed,omitempty"` // it ends without a result
	// Blocked comes with a frame: how many requests were blocked so far, by why.
	Blocked map[guard.Reason]uint64 `json:"blocked,omitempty"`
}

type ready struct {
	Series    int      `json:"series"`
	Checks    int      `json:"checks"`
	Extracted [][]byte `json:"extracted"`
}

// speaker writes what the process says, a line each.
type speaker struct {
	mu  sync.Mutex
	out *bufio.Writer
	bad bool
}

func (s *speaker) say(x said) {
	text, err := json.Marshal(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.bad {
		return
	}
	_, _ = s.out.Write(append(text, '\n')) // Flush says what went wrong
	s.bad = s.out.Flush() != nil
}

// Main is the process of a slice: it reads orders until the end of stdin, which ends the
// run, and says what it counts. It returns the exit code.
func Main(stdin io.Reader, stdout io.Writer) int {
	behave()
	out := &speaker{out: bufio.NewWriterSize(stdout, 64<<10)}
	var secrets []string
	if err := run(stdin, out, &secrets); err != nil {
		out.say(said{Failed: fmt.Sprintf("%.900s", load.Redact(err.Error(), secrets))}) // all members see it
		return 1
	}
	return 0
}

// run is Main; secrets become those that the scenario has.
func run(stdin io.Reader, out *speaker, secrets *[]string) error {
	in := json.NewDecoder(stdin)
	var s setup
	if err := in.Decode(&s); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	o, err := s.options(secrets)
	if err != nil {
		return err
	}
	if err := room.Check(o.Plan, o.Deal.Part(), room.Own()); err != nil {
		return err
	}
	room.Thrift(o.Plan)
	starts := make(chan gang.Start, 1) // a second one is ignored: the first holds
	var running atomic.Pointer[engine.Engine]
	var fence atomic.Int64 // Until of the last order that has one; 0: none
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() { // ends with the process: nothing else ends a read
		defer end()
		for {
			var x order
			if in.Decode(&x) != nil || x.End {
				return
			}
			if x.Until > 0 {
				fence.Store(int64(x.Until))
			}
			if r := x.Redeal; r != nil && running.Load() != nil {
				running.Load().Redeal(time.Duration(r.From)*stat.Step, pace.NewDeal(r.Shares, r.Index))
			}
			if x.Slew != nil && running.Load() != nil {
				running.Load().Slew(*x.Slew)
			}
			if x.Start == nil {
				continue
			}
			select {
			case starts <- *x.Start:
			default:
			}
		}
	}()
	series, checks := len(o.Plan.Steps), len(o.Plan.Checks)
	var e *engine.Engine
	o.Emit = func(f stat.Frame) { out.say(said{Frame: &f, Blocked: e.Blocked()}) }
	o.Start = func(ctx context.Context, extracted [][]byte) (time.Time, [][]byte, error) {
		out.say(said{Ready: &ready{series, checks, extracted}})
		select {
		case <-ctx.Done():
			return time.Time{}, nil, errors.New("it ended before it began")
		case x := <-starts:
			if s.Fence > 0 {
				go watch(ctx, e, &fence)
			}
			at := instant(x.At)
			time.AfterFunc(time.Until(at)+together, giveWay)
			return at, x.Extracted, nil
		}
	}
	if e, err = engine.New(o); err != nil {
		return err
	}
	running.Store(e)
	r, err := e.Run(ctx)
	if err != nil {
		return err
	}
	x := gang.Ended{Why: r.Ended, Stopped: ctx.Err() != nil, CPU: r.Self.CPU, Gap: r.Self.Gap.Seconds(), Slowed: r.Self.Slowed, When: r.Self.When, Notes: r.Notes}
	for _, one := range r.Errors[:min(len(r.Errors), gang.MaxErrors)] {
		x.Errors = append(x.Errors, gang.Failure{Step: one.Step, Class: one.Class, Text: one.Text})
	}
	out.say(said{End: &x})
	return nil
}

// together is how long behind the start the process gives way to others: hosts begin at one instant.
const together = 100 * time.Millisecond

// instant is one of the host's clock by that of this process. Between readings of the two it may have
// to wait for a processor: the pair counts for which it waited least.
func instant(at int64) (out time.Time) {
	least := time.Duration(-1)
	for range 8 {
		before := time.Now()
		now := Clock()
		if took := time.Since(before); least < 0 || took < least {
			least, out = took, before.Add(took/2+time.Duration(at-now))
		}
	}
	return out
}

// fenceLook is how often a process looks whether it may still send.
const fenceLook = 100 * time.Millisecond

// watch holds an engine while it is not known to be heard, until ctx ends. The process does
// so itself: a daemon that is stopped tells it nothing.
func watch(ctx context.Context, e *engine.Engine, until *atomic.Int64) {
	tick := time.NewTicker(fenceLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.Hold(int64(sysclock.Boot()) > until.Load())
		}
	}
}

// options is what an engine needs.
func (s *setup) options(secrets *[]string) (engine.Options, error) {
	b, err := bundle.Decode(s.Bundle)
	if err != nil {
		return engine.Options{}, err
	}
	p, _, err := b.Compile(func(name string) (string, bool) {
		text, there := Secret(s.Secrets, name)
		*secrets = append(*secrets, text)
		return text, there
	})
	if err != nil {
		return engine.Options{}, err
	}
	list, err := guard.ParseList(s.Targets)
	if err != nil {
		return engine.Options{}, err
	}
	conf, err := TLS(p.HTTP.TLS, func(name string) ([]byte, error) {
		text, there := b.Files[name]
		if !there {
			return nil, fmt.Errorf("the bundle lacks %s", name)
		}
		return text, nil
	})
	if err != nil {
		return engine.Options{}, err
	}
	return engine.Options{
		AllowBreak: breakable(p, list), Files: b.Files, Plan: p, Guard: guard.Guard{Never: s.Never}, TLS: conf, Agent: s.Agent, Seed: s.Seed,
		Gang: engine.Gang{Deal: pace.NewDeal(s.Shares, s.Index), Rest: s.Index > 0, Listed: true, List: list, MaxRate: s.MaxRate, MaxUsers: s.MaxUsers, Proof: s.Cluster},
	}, nil
}

// breakable reports whether all that a plan loads may be broken.
func breakable(p *load.Plan, list guard.List) bool {
	for _, st := range p.Steps {
		t, err := list.Named(st.Origin.Name, st.Origin.Port)
		if st.Dynamic || err != nil || !t.AllowBreak {
			return false
		}
	}
	return true
}
