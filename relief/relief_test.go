package relief

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/pressure"
	"github.com/skein-project/skein/scheduler"
)

// fakeCoord is a coordination service whose loop is slow on demand.
type fakeCoord struct {
	mu     sync.Mutex
	view   coord.View
	slow   time.Duration
	checks []string         // outcomes of the self-check, in order
	gave   []cluster.NodeID // to whom the lease went
}

func (c *fakeCoord) View() *coord.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return new(c.view)
}

func (c *fakeCoord) WithTable(ctx context.Context, _ func(*member.Table)) error {
	c.mu.Lock()
	slow := c.slow
	c.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
	}
	return nil
}

func (c *fakeCoord) SelfCheck(_, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, reason)
}

func (c *fakeCoord) StepDown(_ context.Context, to cluster.NodeID, _ string, _ bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gave = append(c.gave, to)
	c.view.Lease.Role, c.view.Lease.Holder = cluster.RoleStandby, to
	return nil
}

func (c *fakeCoord) set(f func(*fakeCoord)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

type quietLog struct{}

func (quietLog) View(func(*state.State))  {}
func (quietLog) Syncs() prometheus.Metric { return nil }

type away struct{}

func (away) Explain(context.Context, job.ID) (scheduler.Waiting, error) {
	return scheduler.Waiting{}, scheduler.ErrNotHolder
}

func member1(id cluster.NodeID, load *wire.Load) coord.MemberView {
	return coord.MemberView{
		Member: cluster.Member{Node: id}, Health: cluster.Alive, Heard: true, Eligible: true, CaughtUp: true, Load: load, Level: event.Level,
	}
}

// TestLeaseGoesOnce: a severe holder hands the lease to the calmest voter, once, does not
// stand while it is severe, and again when it is well; the log hears of high and above.
func TestLeaseGoesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := &fakeCoord{view: coord.View{Self: "n1", Members: []coord.MemberView{
			member1("n1", nil), member1("n2", &wire.Load{wire.LoadLevel: 1}), member1("n3", nil), member1("n4", nil),
		}}}
		c.view.Lease.Role, c.view.Lease.Holder = cluster.RoleHolder, "n1"
		c.view.Lease.Config.Voters = []cluster.NodeID{"n1", "n2", "n3"}
		var levels []string // of Run's goroutine, as the monitor's says them
		r, err := New(Options{
			Coord: func() Coord { return c }, Scheduler: func() Scheduler { return away{} }, Log: quietLog{},
			Setting: func() pressure.Setting { return pressure.Of(true, 0) }, MinTenure: 5 * time.Minute,
			Note: func(kind event.Kind, body any) {
				if l, ok := body.(event.HostLoad); ok && kind == event.KindHostLoad {
					levels = append(levels, l.Level)
				}
			},
			Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		gave := func() (to []cluster.NodeID) {
			c.set(func(c *fakeCoord) { to = slices.Clone(c.gave) })
			return to
		}
		checks := func() (reasons []string) {
			c.set(func(c *fakeCoord) { reasons = slices.Clone(c.checks) })
			return reasons
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		after := func(d time.Duration) {
			time.Sleep(d) // of the bubble
			synctest.Wait()
		}
		after(30 * time.Second)
		if l := *r.Load(); l != (wire.Load{}) || len(gave()) != 0 {
			t.Fatalf("calm: %v, given to %v", l, gave())
		}
		c.set(func(c *fakeCoord) { c.slow = 90 * time.Millisecond }) // 4.5 times the threshold of control
		after(20 * time.Second)
		if l := *r.Load(); l[wire.LoadLevel] != 3 || l[wire.LoadDelayMS] != 90 {
			t.Fatalf("loaded: %v", l)
		}
		if !slices.Equal(gave(), []cluster.NodeID{"n3"}) || !slices.Equal(levels, []string{"high", "severe"}) {
			t.Fatalf("given to %v, told %v", gave(), levels)
		}
		if len(checks()) != 1 || checks()[0] == "" {
			t.Fatalf("it stands while it is severe: %q", checks())
		}
		o := r.Overload()
		if o.Level != "severe" || o.Signal != "control delay" || len(o.Signals) != 7 || *o.Signals[1].Value != 0.09 || o.Signals[1].From != 0.02 || o.Signals[2].Value != nil ||
			!slices.Equal(o.Hosts, []api.LoadedHost{{Node: "n1", Level: "severe"}, {Node: "n2", Level: "elevated"}}) {
			t.Errorf("%+v", o)
		}
		for _, l := range o.Lanes {
			if want := l.Lane != "control" && l.Lane != "assign"; l.Refuses != want || (l.From == "") != (l.Lane == "control") {
				t.Errorf("%+v", l)
			}
		}
		if r.Reason() == "" || r.API().Level != "severe" || r.API().Signal != "control delay" {
			t.Fatalf("people hear %q, %+v", r.Reason(), r.API())
		}
		// It comes back, as nobody else wants it, and stays for MinTenure.
		c.set(func(c *fakeCoord) { c.view.Lease.Role = cluster.RoleHolder })
		after(4 * time.Minute)
		if len(gave()) != 1 {
			t.Fatalf("given away again after 4 minutes: %v", gave())
		}
		after(2 * time.Minute)
		if len(gave()) != 2 {
			t.Fatalf("not given away after 6 minutes: %v", gave())
		}
		c.set(func(c *fakeCoord) { c.slow = 0 })
		after(time.Minute)
		if last := checks()[len(checks())-1]; last != "" || r.Reason() != "" || levels[len(levels)-1] != "elevated" {
			t.Fatalf("well: self-check %q, reason %q, told %v", last, r.Reason(), levels)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestOldMembers: while a member lives that does not know the event, it is not written.
func TestOldMembers(t *testing.T) {
	c := &fakeCoord{view: coord.View{Self: "n1", Members: []coord.MemberView{member1("n1", nil), member1("n2", nil)}}}
	noted := 0
	r, err := New(Options{
		Coord: func() Coord { return c }, Scheduler: func() Scheduler { return away{} }, Log: quietLog{}, Setting: func() pressure.Setting { return pressure.Of(true, 0) },
		Note: func(event.Kind, any) { noted++ }, Now: func() time.Duration { return 0 }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.view.Members[1].Level = event.KindHostLoad.Since() - 1
	if r.changed(1, 2, pressure.View{}); noted != 0 {
		t.Fatal("written for a member that does not know it")
	}
	c.view.Members[1].Level = event.KindHostLoad.Since()
	if r.changed(1, 2, pressure.View{}); noted != 1 {
		t.Fatal("not written")
	}
	if r.changed(0, 1, pressure.View{}); noted != 1 {
		t.Fatal("elevated is told")
	}
}
