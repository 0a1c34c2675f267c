//go:build linux

package netns_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/lease"
)

// arena is a cluster under load whose holder is struck again and again, and
// judged after each time.
type arena struct {
	*fleet
	timing lease.Timing
	rand   *rand.Rand
	load   *load
	judge  *judge
	clocks bool // all hosts have the clock of this machine
}

// newArena starts a cluster of size hosts that all vote.
func newArena(t *testing.T, profile cluster.Profile, size int, seed uint64) *arena {
	t.Helper()
	f := newFleet(t, backend(), 0)
	f.profile = profile
	for range size {
		f.add(backend())
	}
	return enter(f, seed)
}

// enter starts the daemons of f and the load.
func enter(f *fleet, seed uint64) *arena {
	f.t.Helper()
	timing, err := lease.TimingFor(f.profile)
	if err != nil {
		f.t.Fatal(err)
	}
	f.up()
	f.settled()
	a := &arena{
		fleet: f, timing: timing, rand: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // to be repeated
		load: f.newLoad(), judge: newJudge(), clocks: true,
	}
	f.t.Cleanup(func() {
		for _, d := range f.running() {
			_ = d.cmd.Process.Signal(syscall.SIGCONT) // one that a failed test left stopped; others do not mind
		}
		a.load.stop()
	})
	a.load.start()
	return a
}

// holder waits until all hosts are alive and one of them holds an open term
// that all know.
func (a *arena) holder() (*daemon, cluster.Term) {
	a.t.Helper()
	var holder *daemon
	var term cluster.Term
	a.await("a holder that all know", 2*time.Minute, func() error {
		if err := believes(a.ctx, a.all, a.all, cluster.Alive); err != nil {
			return err
		}
		holder = nil
		known := map[cluster.Term]bool{}
		for _, d := range a.all {
			l, err := d.lease(a.ctx)
			if err != nil {
				return err
			}
			known[l.Term] = true
			if l.Holder == cluster.NodeID(d.Name()) && l.Ready != nil && *l.Ready {
				holder, term = d, l.Term
			}
		}
		if holder == nil || len(known) != 1 {
			return fmt.Errorf("terms %v", known)
		}
		return a.publishes(a.all, holder)
	})
	return holder, term
}

// publishes reports whether of hosts that see each other one publishes, and
// all know it.
func (a *arena) publishes(hosts []*daemon, one *daemon) error {
	for _, d := range hosts {
		l, err := d.lease(a.ctx)
		if err != nil {
			return err
		}
		if l.Publisher != cluster.NodeID(one.Name()) || l.Publishing != (d == one) {
			return fmt.Errorf("for %s the publisher is %q, publishing itself: %t; want %s", d.Name(), l.Publisher, l.Publishing, one.Name())
		}
	}
	return nil
}

// lease asks a daemon that may hang.
func (d *daemon) lease(ctx context.Context) (api.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return d.api.Lease(ctx)
}

// but lists the hosts without some of them.
func (a *arena) but(out ...*daemon) []*daemon {
	return slices.DeleteFunc(slices.Clone(a.all), func(d *daemon) bool { return slices.Contains(out, d) })
}

// backlog submits a job large enough to be in work when the holder is struck,
// and waits until its work has begun.
func (a *arena) backlog(through *daemon) {
	a.t.Helper()
	spec := a.load.job(largeJob)
	var id job.ID
	a.await("a large job", time.Minute, func() (err error) {
		id, err = a.load.submit(a.ctx, through, spec)
		return err
	})
	a.await("work on the large job", time.Minute, func() error {
		j, err := through.api.Job(a.ctx, string(id))
		if err == nil && j.Chunks.Accepted == 0 {
			err = errors.New("nothing accepted yet")
		}
		return err
	})
}

// takeover waits until one of hosts holds a term above the given one.
func (a *arena) takeover(hosts []*daemon, above cluster.Term, limit time.Duration) (*daemon, cluster.Term) {
	a.t.Helper()
	var holder *daemon
	var term cluster.Term
	a.awaitLiving(hosts, "another holder", limit, func() error {
		for _, d := range hosts {
			if l, err := d.lease(a.ctx); err == nil && l.Holder == cluster.NodeID(d.Name()) && l.Ready != nil && l.Term > above {
				holder, term = d, l.Term
				return nil
			}
		}
		return errors.New("none")
	})
	return holder, term
}

// assigned waits for the first chunk that a term above the given one assigned.
func (a *arena) assigned(d *daemon, above cluster.Term) time.Time {
	a.t.Helper()
	var at time.Time
	a.awaitLiving([]*daemon{d}, "a chunk of the new holder", 30*time.Second, func() error {
		if err := a.judge.look(a.ctx, d); err != nil {
			return err
		}
		var ok bool
		if at, ok = a.judge.firstAssigned(above); !ok {
			return errors.New("none")
		}
		return nil
	})
	return at
}

// calm stops the load, waits until all is done and all hosts have folded the
// same, and judges. It returns what the logs say.
func (a *arena) calm() *verdict {
	a.t.Helper()
	a.load.stop()
	a.holder()
	a.await("the same state everywhere", 2*time.Minute, func() error {
		var first api.Status
		for i, d := range a.all {
			s, err := d.api.Status(a.ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				first = s
			}
			switch {
			case s.Jobs.Pending+s.Jobs.Running > 0:
				return fmt.Errorf("%s: %d jobs open", d.Name(), s.Jobs.Pending+s.Jobs.Running)
			case s.Log.Events != first.Log.Events || s.Log.StateHash != first.Log.StateHash:
				return fmt.Errorf("%s has %d events, %s %d", d.Name(), s.Log.Events, a.all[0].Name(), first.Log.Events)
			}
		}
		return nil
	})
	a.await("the logs", time.Minute, func() error {
		for _, d := range a.all {
			if err := a.judge.look(a.ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
	v := a.judge.decide(a.clocks)
	v.kept(a.load.acknowledged())
	return v
}

// mind fails the test with what the judge found.
func (a *arena) mind(v *verdict, what string) {
	a.t.Helper()
	if len(v.wrong) > 0 {
		a.t.Fatalf("%s: %s", what, strings.Join(v.wrong[:min(len(v.wrong), 20)], "\n"))
	}
}

// done checks what each host has on its disk, and says what happened.
func (a *arena) done(v *verdict) {
	a.t.Helper()
	for _, d := range a.all {
		if out, code := d.skein("log", "verify", "--state-dir", d.state()); code != 0 {
			a.t.Errorf("log of %s: %s", d.Name(), out)
		}
	}
	chunks := 0
	for _, t := range v.jobs {
		chunks += len(t.accepted)
	}
	a.t.Logf("%d terms, %d jobs acknowledged and %d submits refused, %d chunks each counted once, %d events void; same state on %d hosts",
		v.terms, len(a.load.acked), a.load.refused, chunks, v.void, len(a.all))
}

// strike takes the holder out and brings it back.
type strike struct {
	name string
	// parts says that the host goes on alone, and so must its publishing.
	parts bool
	hit   func(*daemon)
	// back brings the host back; since is when it was struck.
	back func(a *arena, d *daemon, since time.Time)
}

func strikes() []strike {
	return []strike{
		{
			"kill", false, func(d *daemon) { d.end(syscall.SIGKILL) },
			func(_ *arena, d *daemon, _ time.Time) { d.run() },
		},
		{
			"cut", true, func(d *daemon) { d.Cut() },
			func(_ *arena, d *daemon, _ time.Time) { d.Heal() },
		},
		{
			"stop", false, func(d *daemon) { d.signal(syscall.SIGSTOP) },
			func(a *arena, d *daemon, since time.Time) {
				for_ := time.Duration((1.5 + 1.5*a.rand.Float64()) * float64(a.timing.Lease))
				a.pass(time.Until(since.Add(for_)))
				d.signal(syscall.SIGCONT)
			},
		},
	}
}

// signal sends a signal to the daemon.
func (d *daemon) signal(sig syscall.Signal) {
	d.f.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.f.t.Fatalf("%s to %s: %v", sig, d.Name(), err)
	}
}

// outage is how long nobody held the lease, and nobody assigned work.
type outage struct{ acquired, assigned time.Duration }

// round strikes the holder once.
func (a *arena) round(s strike) outage {
	a.t.Helper()
	holder, term := a.holder()
	rest := a.but(holder)
	a.backlog(rest[a.rand.IntN(len(rest))])
	if l, err := holder.lease(a.ctx); err != nil || l.Term != term || l.Holder != cluster.NodeID(holder.Name()) {
		return a.round(s) // the lease moved meanwhile
	}
	start := time.Now()
	s.hit(holder)
	next, _ := a.takeover(rest, term, 4*time.Minute)
	o := outage{acquired: time.Since(start)}
	o.assigned = a.assigned(next, term).Sub(start)
	a.await("a publisher on each side", 10*time.Second, func() error {
		if s.parts {
			if err := a.publishes([]*daemon{holder}, holder); err != nil {
				return err
			}
		}
		return a.publishes(rest, next)
	})
	returned := time.Now()
	s.back(a, holder, start)
	v := a.calm()
	a.judge.idle(v, holder.Name(), term, after{time: returned})
	a.mind(v, s.name+" of "+holder.Name())
	a.load.start()
	return o
}

// faults are the clusters that TestLeaseFaults strikes: each fault once on a
// few, or often on all. SKEIN_ROUNDS=n sets another number of rounds.
func faults() []faultCase {
	if !proving() {
		return []faultCase{
			{cluster.ProfileFast, 3, 1, strikes()},
			{cluster.ProfileLAN, 5, 1, strikes()},
		}
	}
	rounds := 50
	if n, err := strconv.Atoi(os.Getenv("SKEIN_ROUNDS")); err == nil && n > 0 {
		rounds = n
	}
	return []faultCase{
		{cluster.ProfileLAN, 3, rounds, strikes()},
		{cluster.ProfileFast, 3, rounds, strikes()},
		{cluster.ProfileLAN, 5, rounds, strikes()},
		{cluster.ProfileFast, 5, rounds, strikes()},
		{cluster.ProfileClassic, 3, min(3, rounds), strikes()[:1]},
	}
}

type faultCase struct {
	profile cluster.Profile
	size    int
	rounds  int // of each strike
	strikes []strike
}

// TestLeaseFaults strikes the holder of working clusters by SIGKILL, by cutting it
// off and by SIGSTOP, and judges the logs after each time: another takes over
// in time, no two act in one term, nothing acknowledged is lost, nothing
// counts twice, and all hosts end with the same state.
func TestLeaseFaults(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	all := map[cluster.Profile]map[string][]outage{}
	for _, c := range faults() {
		all[c.profile] = map[string][]outage{}
		t.Run(fmt.Sprintf("%s-%d", c.profile, c.size), func(t *testing.T) {
			t.Parallel()
			a := newArena(t, c.profile, c.size, 1)
			outages := map[string][]outage{}
			for range c.rounds {
				for _, s := range c.strikes {
					outages[s.name] = append(outages[s.name], a.round(s))
				}
			}
			for _, s := range c.strikes {
				a.report(s.name, outages[s.name])
			}
			mu.Lock()
			for name, list := range outages {
				all[c.profile][name] = append(all[c.profile][name], list...)
			}
			mu.Unlock()
			v := a.calm()
			a.mind(v, "the end")
			a.done(v)
		})
	}
	t.Cleanup(func() {
		for profile, faults := range all {
			for name, list := range faults {
				t.Logf("failover profile=%s all sizes fault=%s %s", profile, name, spreads(list))
			}
		}
	})
}

// spreads says how long outages were.
func spreads(list []outage) string {
	var acquired, assigned []time.Duration
	for _, o := range list {
		acquired, assigned = append(acquired, o.acquired), append(assigned, o.assigned)
	}
	return fmt.Sprintf("rounds=%d lease: %s first chunk: %s", len(list), spread(acquired), spread(assigned))
}

// report prints how long the outages were and holds them to their bounds.
func (a *arena) report(name string, list []outage) {
	a.t.Helper()
	var acquired []time.Duration
	for _, o := range list {
		acquired = append(acquired, o.acquired)
	}
	a.t.Logf("failover profile=%s hosts=%d fault=%s %s", a.profile, len(a.all), name, spreads(list))
	// Renewals stop at once; guards end after a lease, and nobody stands beside a
	// better host before that is silent for long enough. At worst an election
	// has to be repeated.
	t := a.timing
	typical := max(t.Lease, t.Suspect+t.Grace) + t.Round
	worst := typical + t.Defer + 2*(t.Round+t.Retry) + time.Duration(len(a.all))*t.Skew
	if got := quantile(acquired, 50); len(acquired) > 2 && got > bound(typical) {
		a.t.Errorf("%s: typically %s without a holder, at most %s", name, got, bound(typical))
	}
	if got := slices.Max(acquired); got > bound(worst) {
		a.t.Errorf("%s: %s without a holder, at most %s", name, got, bound(worst))
	}
}

// quantile is the smallest of list that percent of it do not exceed.
func quantile(list []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func spread(list []time.Duration) string {
	return fmt.Sprintf("p50 %.2f s p99 %.2f s max %.2f s",
		quantile(list, 50).Seconds(), quantile(list, 99).Seconds(), slices.Max(list).Seconds())
}
