package coord

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

var lan = simnet.Link{Delay: 200 * time.Microsecond, Jitter: 800 * time.Microsecond}

func TestGrowthFromOneToThreeVoters(t *testing.T) {
	for _, profile := range []cluster.Profile{cluster.ProfileLAN, cluster.ProfileFast} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, profile, 1, lan)
			a, b, c := w.three()
			defer w.stopAll()
			cfg := a.svc.View().Lease.Config
			if cfg.Mode != cluster.ModeQuorum || !slices.Equal(cfg.Voters, []cluster.NodeID{a.node, b.node, c.node}) {
				t.Fatalf("config %+v", cfg)
			}
			for _, h := range []*host{a, b, c} {
				h.store.mu.Lock()
				if !h.store.vote.Config.Has(c.node) || len(h.store.records.Certs) != 3 {
					t.Errorf("%s saved %+v and %d certificates", h.node, h.store.vote, len(h.store.records.Certs))
				}
				h.store.mu.Unlock()
				v := h.svc.View()
				for _, m := range v.Members {
					if m.Node != h.node && (m.Health != cluster.Alive || m.RTT <= 0 || m.RTT > 3*time.Millisecond) {
						t.Errorf("%s sees %s %s with rtt %s", h.node, m.Node, m.Health, m.RTT)
					}
				}
				h.mu.Lock()
				if len(h.members) != 3 {
					t.Errorf("%s was told of %d members", h.node, len(h.members))
				}
				h.mu.Unlock()
			}
			if n := a.rejected("signature") + b.rejected("signature") + c.rejected("replay"); n != 0 {
				t.Errorf("%d good messages refused", n)
			}
		})
	}
}

// TestGossipHealsChain: a and c know only b, and b knows both.
func TestGossipHealsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 2, lan)
		a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
		a.founder = true
		a.knows(b)
		b.knows(a, c)
		c.knows(b)
		for _, h := range []*host{a, b, c} {
			h.start()
		}
		defer w.stopAll()
		d := w.until("full mesh", 10*time.Second, func() bool {
			return w.allAlive() && a.svc.View().Digest == b.svc.View().Digest && b.svc.View().Digest == c.svc.View().Digest
		})
		t.Logf("chain healed after %s", d)
	})
}

func TestHolderCrash(t *testing.T) {
	for _, tc := range []struct {
		profile cluster.Profile
		p50     time.Duration
		most    time.Duration
	}{
		{cluster.ProfileLAN, 5200 * time.Millisecond, 7 * time.Second},
		{cluster.ProfileFast, 2200 * time.Millisecond, 3500 * time.Millisecond},
	} {
		runs := 7
		if prove() {
			runs = 100
		}
		var took []time.Duration
		for seed := range runs {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tc.profile, uint64(seed), lan)
				a, b, c := w.three()
				defer w.stopAll()
				// Crash at different moments between two renewals.
				time.Sleep(time.Duration(seed) * 137 * time.Millisecond % (2 * w.timing().Renew))
				a.crash()
				took = append(took, w.until("new holder", tc.most, func() bool { return w.holder(b.node, c.node) != "" }))
				if got := w.holder(b.node, c.node); got != b.node {
					t.Errorf("seed %d: %s holds, want the better %s", seed, got, b.node)
				}
				a.restart()
				w.until("the old holder is back as standby", 10*time.Second, func() bool {
					return w.holder() == b.node && a.svc.View().Lease.Role == cluster.RoleStandby
				})
			})
		}
		slices.Sort(took)
		t.Logf("%s: crash failover of %d runs: p50 %s, max %s", tc.profile, runs, took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > tc.p50 {
			t.Errorf("%s: p50 %s, want at most %s", tc.profile, took[len(took)/2], tc.p50)
		}
	}
}

func TestReleaseHandsOver(t *testing.T) {
	runs := 10
	if prove() {
		runs = 100
	}
	var took []time.Duration
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, uint64(seed), lan)
			a, b, _ := w.three()
			defer w.stopAll()
			time.Sleep(2 * time.Second) // caught up is known from heartbeats
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := a.svc.StepDown(ctx, b.node, "drill", true); err != nil {
				t.Fatal(err)
			}
			w.until("successor holds", time.Second, func() bool { return w.holder() == b.node })
			took = append(took, time.Since(start))
			if err := a.svc.StepDown(ctx, "", "drill", false); !errors.Is(err, ErrNotHolder) {
				t.Errorf("step down of a standby: %v", err)
			}
		})
	}
	slices.Sort(took)
	t.Logf("release to successor of %d runs: p50 %s, max %s", runs, took[len(took)/2], took[len(took)-1])
	if worst := took[len(took)-1]; worst > 300*time.Millisecond {
		t.Errorf("slowest handover %s", worst)
	}
}

// TestStopHandsOver: a daemon that ends without a word to the lease still
// gives it away.
func TestStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 3, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(2 * time.Second)
		a.stop()
		w.until("successor holds, and knows", 300*time.Millisecond, func() bool { // two datagrams, in either order
			b.mu.Lock()
			defer b.mu.Unlock()
			m, _ := b.svc.View().Member(a.node)
			return w.holder(b.node, c.node) == b.node && m.Health == cluster.Dead && m.Stopped && b.health[a.node] == cluster.Dead
		})
		a.restart()
		w.until("back alive", 5*time.Second, func() bool {
			m, _ := b.svc.View().Member(a.node)
			return m.Health == cluster.Alive && !m.Stopped
		})
		a.crash()
		w.until("lost", 3*time.Minute, func() bool {
			m, _ := b.svc.View().Member(a.node)
			if m.Stopped {
				t.Fatal("a host that was killed has stopped")
			}
			return m.Health == cluster.Dead
		})
	})
}

// TestLastWordCounts: a heartbeat that a host's last word overtakes does not
// make it alive again.
func TestLastWordCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 3, lan)
		_, b, c := w.three()
		defer w.stopAll()
		var late atomic.Pointer[[]byte]
		w.net.Tap(func(from, to netip.AddrPort, data []byte) {
			m, _ := wire.Parse(data)
			if from.Addr() == c.addr && to.Addr() == b.addr && m.Type == wire.TypeHeartbeat {
				late.CompareAndSwap(nil, new(slices.Clone(data)))
			}
		})
		w.net.Cut(c.addr, b.addr)
		w.until("a heartbeat is lost", 2*time.Second, func() bool { return late.Load() != nil })
		w.net.Heal()
		c.stop()
		health := func() cluster.Health {
			m, _ := b.svc.View().Member(c.node)
			return m.Health
		}
		w.until("its last word is heard", 300*time.Millisecond, func() bool { return health() == cluster.Dead })
		w.net.Inject(udpAddr(c.addr), udpAddr(b.addr), *late.Load())
		time.Sleep(100 * time.Millisecond)
		if h := health(); h != cluster.Dead {
			t.Errorf("the host that stopped is %s", h)
		}
		if n := b.rejected("replay"); n != 0 {
			t.Errorf("%d messages refused as replays", n)
		}
	})
}

func TestDrainingHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 3, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(2 * time.Second)
		a.draining.Store(true)
		w.until("successor holds", 2*time.Second, func() bool { return w.holder() == b.node })
		m, _ := c.svc.View().Member(a.node)
		if m.Eligible || m.Health != cluster.Alive || len(a.svc.View().Failing) != 0 {
			t.Errorf("the draining host: %+v, failing %v", m, a.svc.View().Failing)
		}
		b.crash()
		w.until("the other one holds", 15*time.Second, func() bool { return w.holder(a.node, c.node) == c.node })
		a.draining.Store(false)
		w.until("eligible again", 3*time.Second, func() bool {
			m, _ := c.svc.View().Member(a.node)
			return m.Eligible
		})
		c.crash()
		b.restart()
		w.until("it holds again", 30*time.Second, func() bool { return w.holder(a.node, b.node) != "" })
	})
}

// TestMinorityStopsFirst: when the holder is cut off, it stops acting before
// anyone else starts.
func TestMinorityStopsFirst(t *testing.T) {
	runs := 5
	if prove() {
		runs = 60
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, uint64(seed), lan)
			a, b, c := w.three()
			defer w.stopAll()
			time.Sleep(time.Duration(seed) * 211 * time.Millisecond)
			w.net.CutBoth(a.addr, b.addr)
			w.net.CutBoth(a.addr, c.addr)
			stopped := time.Duration(-1)
			start := time.Now()
			took := w.until("the majority acts", 8*time.Second, func() bool {
				acters := w.acters()
				if len(acters) > 1 {
					t.Fatalf("seed %d: %v act at once", seed, acters)
				}
				if stopped < 0 && !slices.Contains(acters, a.node) {
					stopped = time.Since(start)
				}
				return slices.Contains(acters, b.node)
			})
			if stopped < 0 || stopped >= took {
				t.Fatalf("seed %d: minority stopped after %s, majority acted after %s", seed, stopped, took)
			}
			w.net.Heal()
			w.until("one holder after the heal", 10*time.Second, func() bool { return w.holder() == b.node })
			if seed == 0 {
				t.Logf("minority stopped after %s, majority acted after %s", stopped, took)
			}
		})
	}
}

func TestLossyNetworkKeepsOneHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 7, lan)
		w.three()
		defer w.stopAll()
		w.net.SetDefault(simnet.Link{Delay: time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.2, Duplicate: 0.1})
		held := 0
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			acters := w.acters()
			if len(acters) > 1 {
				t.Fatalf("%v act at once", acters)
			}
			held += len(acters)
		}
		if held < 500 {
			t.Errorf("a holder in %d of 600 moments", held)
		}
	})
}

func TestVoteStoreFailureGivesUpLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 4, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(2 * time.Second)
		// A holder whose disk fails notices when it must write: here it is told
		// to write by losing the lease and wanting it back.
		a.store.fail.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := a.svc.StepDown(ctx, b.node, "drill", false); err != nil {
			t.Fatal(err)
		}
		w.until("successor holds", time.Second, func() bool { return w.holder(b.node, c.node) == b.node })
		term := b.svc.View().Lease.Term
		if a.store.vote.PromisedTerm >= term {
			t.Fatalf("a saved term %d though its disk fails", a.store.vote.PromisedTerm)
		}
		if a.svc.View().Failing["vote_store"] == "" {
			t.Fatalf("a reports no failing vote store: %v", a.svc.View().Failing)
		}
		// It neither votes nor stands: with b gone, c alone is no majority.
		b.crash()
		time.Sleep(20 * time.Second)
		if got := w.acters(); len(got) != 0 {
			t.Fatalf("%v act with one voter and one broken disk", got)
		}
		a.store.fail.Store(false)
		w.until("a votes again", 40*time.Second, func() bool {
			return w.holder(a.node, c.node) != "" && len(a.svc.View().Failing) == 0
		})
	})
}

// TestHolderDiskFailure: the holder must write, to make a fourth host a voter,
// and cannot.
func TestHolderDiskFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 5, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(2 * time.Second)
		term := a.svc.View().Lease.Term
		a.store.fail.Store(true)
		d := w.add("host-d", 40)
		d.knows(a)
		d.start()
		if err := a.svc.AddRecords(context.Background(), d.records()); err != nil {
			t.Fatal(err)
		}
		w.until("another holds", 10*time.Second, func() bool {
			if acters := w.acters(); len(acters) > 1 {
				t.Fatalf("%v act at once", acters)
			}
			return w.holder(b.node, c.node) == b.node
		})
		if a.svc.MayAct(term) {
			t.Fatal("may act with a record that is not on disk")
		}
		a.mu.Lock()
		lost := slices.ContainsFunc(a.actions, func(x lease.Action) bool { _, ok := x.(lease.Lost); return ok })
		a.mu.Unlock()
		if !lost {
			t.Error("no Lost was delivered")
		}
		a.store.fail.Store(false)
		w.until("four voters, all well", 60*time.Second, func() bool {
			return w.voters(4) && w.holder() == b.node && len(a.svc.View().Failing) == 0
		})
	})
}

func TestSuspendEndsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 6, lan)
		a := w.add("host-a", 10)
		a.founder = true
		o := a.optionsAt(1)
		var asleep atomic.Int64
		base := o.Now
		o.Now = func() time.Duration { return base() + time.Duration(asleep.Load()) }
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
		s := a.run(o)
		defer w.stopAll()
		w.until("holds", 3*time.Second, func() bool { return w.holder() == a.node })
		term := s.View().Lease.Term
		synctest.Wait()
		asleep.Store(int64(2 * time.Second)) // above T/4, below the lease
		w.until("lease lost", 2*time.Second, func() bool { return !s.MayAct(term) })
		w.until("holds a later term", 20*time.Second, func() bool { return w.holder() == a.node && s.View().Lease.Term > term })
	})
}

// TestLongVersion: a build whose name no heartbeat has room for is a member like others.
func TestLongVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 2, lan)
		a, b := w.add("host-a", 10), w.add("host-b", 20)
		a.founder = true
		a.knows(b)
		b.knows(a)
		b.version = "0~git20261128100946.0b8cf491+dirty"
		a.start()
		b.start()
		defer w.stopAll()
		w.until("both alive", 10*time.Second, w.allAlive)
		if m, _ := a.svc.View().Member(b.node); len(m.Version) != wire.MaxShortText || !strings.HasPrefix(b.version, m.Version) {
			t.Errorf("host-a knows host-b as of version %q", m.Version)
		}
	})
}

func TestVersionAndProfileMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 8, lan)
		a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
		a.founder = true
		b.version = "1.0.0"
		c.profile = cluster.ProfileFast
		a.knows(b, c)
		b.knows(a, c)
		c.knows(a, b)
		// A founder with others in its table waits for a holder; it has its record already.
		a.store.vote, a.store.found = lease.VoteRecord{Config: cluster.VoterConfig{
			Epoch: 1, Voters: []cluster.NodeID{a.node}, Mode: cluster.ModeSingle,
		}}, true
		for _, h := range []*host{a, b, c} {
			h.start()
		}
		defer w.stopAll()
		time.Sleep(30 * time.Second)
		v := a.svc.View()
		mb, _ := v.Member(b.node)
		mc, _ := v.Member(c.node)
		if mb.Health != cluster.Joining || mb.Incompatible == "" || a.rejected("major") == 0 {
			t.Errorf("other major version: %s %q, %d refused", mb.Health, mb.Incompatible, a.rejected("major"))
		}
		if mc.Health != cluster.Alive || mc.Incompatible == "" {
			t.Errorf("other profile: %s %q", mc.Health, mc.Incompatible)
		}
		if got := v.Lease.Config.Voters; len(got) != 1 {
			t.Errorf("incompatible hosts became voters: %v", got)
		}
		if w.holder(a.node) != a.node {
			t.Error("the good host does not hold")
		}
	})
}
