//go:build linux

package netns_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/wire"
	product "github.com/skein-project/skein/daemon"
)

// clockFile makes the test program a daemon whose wall clock is off by what the
// file that it names says; clockRunner is the program that runs its chunks.
const (
	clockFile   = "SKEIN_NETNS_CLOCK"
	clockRunner = "SKEIN_NETNS_RUNNER"
)

// clockDaemon is `skein run` with another wall clock.
func clockDaemon(file string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	path, join := flags.String("config", "", ""), flags.String("join", "", "")
	err := flags.Parse(args[1:])
	if err == nil {
		var cfg config.Config
		if cfg, err = config.Load(config.Options{Path: *path}); err == nil {
			err = product.Run(ctx, cfg, product.RunOptions{
				Version: "1.0.0", Join: strings.TrimPrefix(*join, "@"), Stderr: os.Stderr,
				RunnerArgv: []string{os.Getenv(clockRunner), "runner"}, Wall: wallOf(ctx, file),
			})
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// wallOf is a clock that is off by what the file says, a moment later.
func wallOf(ctx context.Context, file string) func() time.Time {
	var off atomic.Int64
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			text, err := os.ReadFile(file)
			if d, parseErr := time.ParseDuration(string(text)); err == nil && parseErr == nil {
				off.Store(int64(d))
			}
			<-tick.C
		}
	}()
	return func() time.Time { return time.Now().Round(0).Add(time.Duration(off.Load())) }
}

// setClock sets the daemon's wall clock off by so much.
func (d *daemon) setClock(off time.Duration) {
	d.f.t.Helper()
	// In one step, so that the daemon never reads half of it.
	path := filepath.Join(d.Dir(), "clock")
	if err := os.WriteFile(path+".new", []byte(off.String()), 0o600); err != nil {
		d.f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		d.f.t.Fatal(err)
	}
}

// clockArena is an arena of daemons whose clocks can be set.
func clockArena(t *testing.T, profile cluster.Profile, size int) *arena {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, backend(), 0)
	f.profile = profile
	for range size {
		d := f.add(backend())
		d.exe = self
		d.env = []string{clockFile + "=" + filepath.Join(d.Dir(), "clock"), clockRunner + "=" + exe}
	}
	a := enter(f, 2)
	a.clocks = false
	return a
}

// TestLeaseClock sets the wall clock of one host wrong and right again.
func TestLeaseClock(t *testing.T) {
	t.Parallel()
	steps := []time.Duration{30 * time.Second, -30 * time.Second, 10 * time.Minute, -10 * time.Minute}
	for _, c := range faults() {
		if c.profile == cluster.ProfileClassic || !proving() && c.profile != cluster.ProfileFast {
			continue
		}
		t.Run(fmt.Sprintf("%s-%d", c.profile, c.size), func(t *testing.T) {
			t.Parallel()
			a := clockArena(t, c.profile, c.size)
			for i, off := range steps {
				if !proving() && i != 2 {
					continue // the worst
				}
				a.standbyClock(off)
				a.holderClock(off)
			}
			v := a.calm()
			a.mind(v, "the end")
			a.done(v)
		})
	}
}

// standbyClock sets a host's clock that does not hold: nothing happens to the
// lease, and the others say whose clock is off.
func (a *arena) standbyClock(off time.Duration) {
	a.t.Helper()
	holder, term := a.holder()
	victim := a.but(holder)[a.rand.IntN(len(a.all)-1)]
	before := holder.rejected(string(wire.ReasonClock))
	victim.setClock(off)
	set := time.Now()
	a.await("the doctor names the clock", 20*time.Second, func() error {
		return holder.complains("clock-sync", victim.Name())
	})
	a.await("its messages are refused", 20*time.Second, func() error {
		if got := holder.rejected(string(wire.ReasonClock)) - before; got < 3 {
			return fmt.Errorf("%g refused", got)
		}
		return nil
	})
	for time.Since(set) < 3*a.timing.Lease {
		l, err := holder.lease(a.ctx)
		if err != nil {
			a.t.Fatal(err)
		}
		if l.Term != term || l.Holder != cluster.NodeID(holder.Name()) {
			if why := a.cause(term); !proving() || strings.Contains(why, "stood still") {
				a.t.Logf("term %d ended, and this machine is too busy to blame the clock: %s", term, why)
				break
			}
			a.t.Fatalf("clock of %s by %s: %s lost term %d to %s", victim.Name(), off, holder.Name(), term, l.Holder)
		}
		a.pass(50 * time.Millisecond)
	}
	victim.setClock(0)
	a.mind(a.calm(), fmt.Sprintf("clock of standby %s by %s", victim.Name(), off))
	a.load.start()
}

// cause is why a term ended, by the history of the lease.
func (a *arena) cause(term cluster.Term) string {
	a.t.Helper()
	why := ""
	a.await("the end of the term in the history", time.Minute, func() error {
		h, err := a.all[0].api.LeaseHistory(a.ctx)
		if err != nil {
			return err
		}
		for _, t := range h.Terms {
			if t.Term == term {
				why = t.Cause
			}
		}
		if why == "" {
			return fmt.Errorf("no cause in %d terms", len(h.Terms))
		}
		return nil
	})
	return why
}

// holderClock sets the holder's clock: another takes over.
func (a *arena) holderClock(off time.Duration) {
	a.t.Helper()
	holder, term := a.holder()
	a.backlog(a.but(holder)[0])
	set := time.Now()
	holder.setClock(off)
	next, _ := a.takeover(a.but(holder), term, time.Minute)
	a.t.Logf("clock of the holder by %s: %s took over after %.2f s", off, next.Name(), time.Since(set).Seconds())
	a.await("the log of the former holder", 20*time.Second, func() error { return a.judge.look(a.ctx, holder) })
	back := after{read: a.judge.lengths()}
	holder.setClock(0)
	v := a.calm()
	a.judge.idle(v, holder.Name(), term, back)
	a.mind(v, fmt.Sprintf("clock of the holder %s by %s", holder.Name(), off))
	a.load.start()
}

// complains reports whether a check of the doctor finds fault with what is
// named.
func (d *daemon) complains(check, name string) error {
	doc, err := d.api.Doctor(d.f.ctx)
	if err != nil {
		return err
	}
	for _, f := range doc.Findings {
		if f.Check == check && f.Verdict != api.VerdictOK && strings.Contains(f.Detail, name) {
			return nil
		}
	}
	return errors.New("it does not")
}
