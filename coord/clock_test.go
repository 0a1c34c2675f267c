package coord

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/clocks"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the log lines that hold text.
func (l *logBuffer) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// shifted lets a test set h's wall clock.
func shifted(h *host) (*atomic.Int64, *logBuffer) {
	var off atomic.Int64
	log := &logBuffer{}
	h.tweak = func(o *Options) {
		o.Wall = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		o.Logger = zerolog.New(log)
	}
	return &off, log
}

// TestClockOffByMinutes: one of three hosts has its clock set wrong while it
// runs, and right again.
func TestClockOffByMinutes(t *testing.T) {
	for _, off := range []time.Duration{4 * time.Minute, -3 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, 1, lan)
			a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
			clockC, logC := shifted(c)
			_, logA := shifted(a)
			for _, h := range []*host{a, b, c} {
				h.knows(a, b, c)
			}
			for _, h := range []*host{a, b, c} {
				h.start()
			}
			defer w.stopAll()
			w.until("all alive", 10*time.Second, w.allAlive)
			time.Sleep(10 * time.Second)
			if n := len(logA.lines(`"level":"warn"`)); n != 0 {
				t.Errorf("a start is no reason to warn: %q", logA.lines(`"level":"warn"`))
			}
			clockC.Store(int64(off))
			w.until("c is dead to a", 3*time.Minute, func() bool {
				m, _ := a.svc.View().Member(c.node)
				return m.Health == cluster.Dead
			})
			near := func(d time.Duration) bool { return d > off-2*time.Second && d < off+2*time.Second }
			if m, _ := a.svc.View().Member(c.node); !near(m.Skew) {
				t.Errorf("a thinks c's clock is ahead by %s", m.Skew)
			}
			if got := a.svc.View().Clock; got.Jumps != 0 || got.Offset < -time.Second || got.Offset > time.Second {
				t.Errorf("a thinks its own clock is wrong: %+v", got)
			}
			if got := c.svc.View().Clock; got.Jumps != 1 || !near(got.LastJump) || !near(-got.Offset) || got.Peers != 2 {
				t.Errorf("c of its own clock: %+v", got)
			}
			if n := len(logA.lines("clock of peer is off")); n != 1 {
				t.Errorf("warned %d times of c's clock", n)
			}
			if n := len(logC.lines("wall clock jumped")); n != 1 {
				t.Errorf("c warned %d times of its jump", n)
			}
			if n := len(logA.lines("datagram refused")); n > 0 && len(logA.lines(`"level":"warn"`)) != 1 {
				t.Errorf("warnings: %q", logA.lines(`"level":"warn"`))
			}
			clockC.Store(0)
			w.until("all alive again", 10*time.Second, w.allAlive)
			if n := len(logA.lines("clock of peer is right again")); n != 1 {
				t.Errorf("said %d times that it is good", n)
			}
			if m, _ := a.svc.View().Member(c.node); m.Skew != 0 {
				t.Errorf("skew %s", m.Skew)
			}
		})
	}
}

// TestRestartWarnsOfNothing: what was on its way when a host started is
// refused and no reason to worry.
func TestRestartWarnsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileFast, 1, lan)
		_, b, _ := w.three()
		defer w.stopAll()
		_, log := shifted(b)
		for range 5 {
			b.crash()
			time.Sleep(1300 * time.Millisecond)
			b.restart()
			w.until("back", 20*time.Second, w.allAlive)
		}
		if got := log.lines("datagram refused"); len(got) == 0 || len(log.lines(`"level":"warn","component":"coord","error":"message refused (clock)`)) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// TestQueuedMessagesBlameNoClock: what waited for a session comes late and all
// at a time.
func TestQueuedMessagesBlameNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b := w.add("host-a", 10), w.add("host-b", 20)
		_, log := shifted(a)
		for _, h := range []*host{a, b} {
			h.knows(a, b)
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", 10*time.Second, w.allAlive)
		refused := a.rejected("clock")
		for i := range uint64(5) {
			w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), seal(t, b.key, wire.Header{
				Node: b.node, Time: time.Now().Unix() - 9, Type: wire.TypeHeartbeat, To: a.node, Boot: b.boot, Seq: 1000 + i,
			}, wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: cluster.ProfileLAN, SentUS: 1, Members: a.svc.View().Digest}))
		}
		time.Sleep(10 * time.Second)
		if got := a.rejected("clock"); got != refused+5 {
			t.Errorf("%d old messages refused", got-refused)
		}
		if got := log.lines("clock of peer"); len(got) != 0 {
			t.Errorf("%q", got)
		}
		if m, _ := a.svc.View().Member(b.node); m.Skew != 0 {
			t.Errorf("skew %s", m.Skew)
		}
	})
}

// fakeClocks are h's, as a test moves them. Mono goes on by itself.
type fakeClocks struct {
	boot, wall atomic.Int64 // ahead by
	stall      atomic.Int64 // how long the next turn of the loop takes
}

func moved(h *host) *fakeClocks {
	c := &fakeClocks{}
	h.tweak = func(o *Options) {
		base := o.Now
		o.Mono = base
		o.Now = func() time.Duration { return base() + time.Duration(c.boot.Load()) }
		o.Wall = func() time.Time { return time.Now().Add(time.Duration(c.wall.Load())) }
		o.OnLoop = func() { time.Sleep(time.Duration(c.stall.Swap(0))) } // fake time
	}
	return c
}

// TestClockCostsTheLease: in each profile, a holder whose clocks did what a
// lease cannot be counted by gives its term up, says why, and stands again; what
// stays below a quarter of the lease costs nothing.
func TestClockCostsTheLease(t *testing.T) {
	for _, profile := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		timing, err := lease.TimingFor(profile)
		if err != nil {
			t.Fatal(err)
		}
		limit := timing.Lease / 4
		for _, c := range []struct {
			name   string
			move   func(*fakeClocks)
			loses  bool
			counts func(Clock) uint64
			reason string
		}{
			// Less than what is left of the lease, which else ends for that reason.
			{"slept", func(c *fakeClocks) { c.boot.Add(int64(limit + limit/2)) }, true, func(c Clock) uint64 { return c.Suspends }, "suspended"},
			{"slept a moment", func(c *fakeClocks) { c.boot.Add(int64(limit - 100*time.Millisecond)) }, false, func(c Clock) uint64 { return c.Suspends }, ""},
			{"set ahead", func(c *fakeClocks) { c.wall.Add(int64(limit + time.Second)) }, true, func(c Clock) uint64 { return c.Jumps }, "suspended"},
			{"set back", func(c *fakeClocks) { c.wall.Add(-int64(limit + time.Second)) }, true, func(c Clock) uint64 { return c.Jumps }, "clock: time of day jumped by -" + (limit + time.Second).String()},
			{"set by a little", func(c *fakeClocks) { c.wall.Add(-int64(limit / 5)) }, false, func(c Clock) uint64 { return c.Jumps }, ""},
			{"stood still", func(c *fakeClocks) { c.stall.Store(int64(limit + 200*time.Millisecond)) }, true, func(c Clock) uint64 { return c.Stalls }, "clock: stood still for "},
			{"stood still a moment", func(c *fakeClocks) { c.stall.Store(int64(limit - 200*time.Millisecond)) }, false, func(c Clock) uint64 { return c.Stalls }, ""},
		} {
			t.Run(string(profile)+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, profile, 1, simnet.Link{})
					a := w.add("host-a", 10)
					moves := moved(a)
					a.founder = true
					b := w.add("host-b", 20)
					b.knows(a)
					a.start()
					w.until("the founder holds", 2*timing.Lease, func() bool { return w.holder(a.node) == a.node })
					b.start()
					defer w.stopAll()
					if err := a.svc.AddRecords(t.Context(), b.records()); err != nil {
						t.Fatal(err)
					}
					w.until("two voters", 10*timing.Lease, func() bool { return w.voters(2) && w.holder() == a.node })
					time.Sleep(2 * timing.Lease)
					synctest.Wait()
					term := a.svc.View().Lease.Term
					if !a.svc.MayAct(term) {
						t.Fatal("a does not hold")
					}
					c.move(moves)
					time.Sleep(limit + 2*time.Second) // more than a turn, less than the hold of an old lease
					synctest.Wait()
					v := a.svc.View()
					if got := c.counts(v.Clock); got != map[bool]uint64{true: 1}[c.loses] {
						t.Errorf("counted %d: %+v", got, v.Clock)
					}
					if got := a.svc.MayAct(term); got == c.loses {
						t.Errorf("may act: %t; %+v", got, v.Lease)
					}
					if c.loses && !strings.HasPrefix(v.Lease.LastLoss.Reason, c.reason) {
						t.Errorf("lost because %q, want %q", v.Lease.LastLoss.Reason, c.reason)
					}
					w.until("a holder, and a good clock", 3*time.Minute, func() bool {
						return len(w.acters()) > 0 && a.svc.View().Failing[clocks.Check] == ""
					})
				})
			})
		}
	}
}
