package coord

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// publishers returns the running hosts among the given ones, all if none, that
// have the publishing duty.
func (w *world) publishers(among ...*host) []cluster.NodeID {
	var out []cluster.NodeID
	for _, n := range w.order {
		h := w.hosts[n]
		if h.svc != nil && (len(among) == 0 || slices.Contains(among, h)) && h.svc.MayPublish() {
			out = append(out, n)
		}
	}
	return out
}

// onePublisher reports whether the holder publishes, nobody else does, and
// everyone knows.
func (w *world) onePublisher() bool {
	holder := w.holder()
	if holder == "" || !slices.Equal(w.publishers(), []cluster.NodeID{holder}) {
		return false
	}
	for _, n := range w.order {
		s := w.hosts[n].svc
		if s == nil {
			continue
		}
		v := s.View()
		if v.Publisher != holder || v.Publishing != (n == holder) || v.Lease.PublishWhy != lease.PublishByLease {
			return false
		}
		if m, _ := v.Member(holder); !m.Publishing {
			return false
		}
	}
	return true
}

// dutySlack is how much longer than the rule it may take until a test sees it:
// heartbeats have jitter, and looking takes turns.
func (w *world) dutySlack() time.Duration { return w.timing().Heartbeat + time.Second }

// five starts five voters whose first holds.
func (w *world) five() []*host {
	w.t.Helper()
	hosts := w.many(5)
	for _, h := range hosts {
		h.start()
	}
	w.until("five voters and one publisher", 20*time.Minute, func() bool {
		return w.voters(5) && w.allAlive() && w.holder() == hosts[0].node && w.onePublisher()
	})
	return hosts
}

func cut(w *world, side, rest []*host) {
	addrs := func(hs []*host) (out []netip.Addr) {
		for _, h := range hs {
			out = append(out, h.addr)
		}
		return out
	}
	w.net.Partition(addrs(side), addrs(rest))
}

// TestBothSidesOfACutPublish cuts five voters in two, with the holder on
// either side: both publish, one schedules. After the heal one publishes.
func TestBothSidesOfACutPublish(t *testing.T) {
	large(t)
	for _, profile := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		beats := 10
		minorities := [][]int{{0, 1}, {3, 4}}
		switch {
		case prove():
			beats = 25 // less than a tenure, after which the duty may move
		case profile != cluster.ProfileLAN:
			minorities = minorities[:1]
		}
		for _, minority := range minorities {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, profile, 1, lan)
				hosts := w.five()
				defer w.stopAll()
				var few, many []*host
				for i, h := range hosts {
					if slices.Contains(minority, i) {
						few = append(few, h)
					} else {
						many = append(many, h)
					}
				}
				tm := w.timing()
				cut(w, few, many)
				most := tm.Lease + tm.Suspect + tm.Grace + w.dutySlack()
				for _, side := range [][]*host{few, many} {
					had := len(w.publishers(side...)) > 0
					took := w.until("a side publishes", most, func() bool { return len(w.publishers(side...)) > 0 })
					t.Logf("%s, holder in the minority %t: the side of %d hosts publishes after %s", profile, minority[0] == 0, len(side), took)
					if had && took > 0 {
						t.Error("the side with the holder had a gap")
					}
				}
				w.until("the majority holds", tm.Defer+2*tm.Lease+10*time.Second, func() bool {
					return w.holder(names(many)...) != ""
				})
				for range beats { // in a settled cut each side has one publisher, and one schedules
					time.Sleep(tm.Heartbeat)
					synctest.Wait()
					a, b := w.publishers(few...), w.publishers(many...)
					acters := w.acters()
					if len(acters) != 1 || !slices.Equal(a, []cluster.NodeID{few[0].node}) || !slices.Equal(b, acters) {
						t.Fatalf("%v and %v publish, %v act", a, b, acters)
					}
				}
				if st := few[0].svc.View().Lease; st.PublishWhy != lease.PublishByRule || st.Holder != "" {
					t.Errorf("the minority publishes by %q, holder %q", st.PublishWhy, st.Holder)
				}
				w.net.Heal()
				// Heartbeats to silent hosts go out ever more rarely, renewals do not.
				took := w.until("one publisher after the heal", tm.Suspect+tm.Grace+w.dutySlack(), func() bool {
					if len(w.publishers()) == 0 {
						t.Fatal("nobody publishes after the heal")
					}
					return len(w.publishers()) == 1
				})
				t.Logf("%s: one publisher %s after the heal", profile, took)
				w.until("all agree", 2*time.Minute, w.onePublisher)
			})
		}
	}
}

func names(hs []*host) (out []cluster.NodeID) {
	for _, h := range hs {
		out = append(out, h.node)
	}
	return out
}

// TestStopHandsPublishingOver: a daemon that ends gives the duty to the
// successor that it names, and has it no more.
func TestStopHandsPublishingOver(t *testing.T) {
	for _, profile := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, profile, 1, lan)
			a, b, c := w.three()
			defer w.stopAll()
			w.until("one publisher", time.Minute, w.onePublisher)
			time.Sleep(3 * w.timing().Heartbeat) // b is known to be caught up
			old := a.svc
			a.stop()
			if old.MayPublish() || old.View().Publishing {
				t.Error("a host that stopped has the publishing duty")
			}
			if v := a.gauge("skein_lease_publishing"); v != 0 {
				t.Errorf("metric of the host that stopped: %v", v)
			}
			took := w.until("the successor publishes", 100*time.Millisecond, func() bool {
				return slices.Equal(w.publishers(b, c), []cluster.NodeID{b.node})
			})
			t.Logf("%s: the successor publishes %s after the stop", profile, took)
			w.until("by lease, as heartbeats tell", w.dutySlack(), w.onePublisher)
			if v := b.gauge("skein_lease_publishing"); v != 1 {
				t.Errorf("metric of the successor: %v", v)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if !slices.ContainsFunc(b.actions, func(x lease.Action) bool { d, ok := x.(lease.Duty); return ok && d.Publishing }) {
				t.Error("the successor's daemon was not told")
			}
		})
	}
}

// TestRemovedHostStopsPublishing: a host that was removed while it published
// in a cut does so no more once it hears that.
func TestRemovedHostStopsPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		cut(w, []*host{c}, []*host{a, b})
		w.until("c publishes alone", 15*time.Second, func() bool { return slices.Contains(w.publishers(), c.node) })
		if err := c.svc.AddRecords(context.Background(), member.Records{Revokes: []member.Signed{w.revoke(c, false)}}); err != nil {
			t.Fatal(err)
		}
		w.until("c publishes no more", time.Second, func() bool { return !c.svc.MayPublish() })
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.svc.MayPublish() {
			t.Error("a removed host publishes again")
		}
	})
}

// TestStaleClaimIsRefused: a heartbeat that claims the publishing duty under a
// term that is over changes nothing but when its sender was heard.
func TestStaleClaimIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		a, b, c := w.three()
		defer w.stopAll()
		if err := a.svc.StepDown(context.Background(), b.node, "a term above the first", false); err != nil {
			t.Fatal(err)
		}
		w.until("b holds and publishes", 5*time.Second, func() bool { return w.holder() == b.node && w.onePublisher() })
		c.stop() // whose part is played by hand
		w.until("c is gone", 5*time.Second, func() bool { m, _ := a.svc.View().Member(c.node); return m.Health == cluster.Dead })
		before := a.svc.View()
		seq := uint64(1 << 40)
		claim := func(term cluster.Term, holder cluster.NodeID) {
			seq++
			beat := wire.Heartbeat{
				Role: cluster.RolePublisher, Version: "0.1.0", Profile: w.profile, Priority: 1, Eligible: true, SentUS: 1,
				Term: term, Holder: holder, Members: before.Digest, KnownPeers: []wire.PeerHint{},
			}
			w.net.Inject(udpAddr(c.addr), udpAddr(a.addr), seal(t, c.key, header(c, a, wire.TypeHeartbeat, seq), beat))
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
		}
		claim(before.Lease.Term-1, c.node)
		claim(0, "")
		if n := a.rejected(string(reasonStaleClaim)); n != 2 {
			t.Errorf("%d claims refused, want 2: %v", n, a.svc.View().Rejected)
		}
		after := a.svc.View()
		m, _ := after.Member(c.node)
		if m.Health != cluster.Alive || m.Publishing {
			t.Errorf("the claimant is %s, publishing %t: its heartbeat counts, its claim does not", m.Health, m.Publishing)
		}
		if after.Publisher != b.node || after.Publishing || after.Lease.Holder != b.node || after.Lease.Term != before.Lease.Term {
			t.Errorf("a stale claim changed the lease or the duty: %+v", after.Lease)
		}
		// Under the term that is valid the word stands, and the lease still wins.
		claim(before.Lease.Term, "")
		if n := a.rejected(string(reasonStaleClaim)); n != 2 {
			t.Errorf("%d claims refused, want 2", n)
		}
		if v := a.svc.View(); v.Publisher != b.node {
			t.Errorf("%q publishes", v.Publisher)
		}
	})
}

// gauge returns the value of a gauge of h without labels.
func (h *host) gauge(name string) float64 {
	h.w.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && strings.HasPrefix(f.GetType().String(), "GAUGE") {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	h.w.t.Fatalf("no metric %s", name)
	return 0
}

// TestPublishersOfALargeCluster: where hosts hear each other rarely, and most
// get no renewals, the holder publishes alone all the same; each side of a cut
// publishes, and after it one host again.
func TestPublishersOfALargeCluster(t *testing.T) {
	if !prove() {
		t.Skip("takes minutes: SKEIN_PROVE=1 runs it, and TestLargeCluster looks who publishes")
	}
	const n, calm = 80, time.Minute
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(n)
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("all see all", time.Minute, func() bool { return w.wrong() == 0 })
		only := func(among ...*host) func() bool {
			return func() bool { return len(w.publishers(among...)) == 1 }
		}
		w.until("five voters and a holder", 5*time.Minute, func() bool { // most hosts are told neither
			st := hosts[0].svc.View().Lease
			return st.Role == cluster.RoleHolder && len(st.Config.Voters) == 5 && !st.Pending
		})
		w.until("one publisher", time.Minute, only())
		for range int(calm / time.Second) {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := w.publishers(); len(got) != 1 || got[0] != hosts[0].node {
				t.Fatalf("%v publish", got)
			}
		}
		few, many := hosts[n-20:], hosts[:n-20]
		cut(w, few, many)
		took := w.until("the side without voters publishes", 30*time.Second, func() bool { return len(w.publishers(few...)) > 0 })
		t.Logf("the side without voters publishes after %s", took)
		w.until("one of each side", time.Minute, func() bool { return only(few...)() && only(many...)() })
		if got := w.publishers(few...); got[0] != few[0].node {
			t.Errorf("%v publishes, %s is the best host of its side", got, few[0].node)
		}
		w.net.Heal()
		took = w.until("one publisher", time.Minute, only())
		t.Logf("one publisher %s after the heal", took)
		w.until("all see all", 2*time.Minute, func() bool { return w.wrong() == 0 && only()() })
		if got := w.publishers(); got[0] != hosts[0].node {
			t.Errorf("%v publishes after the heal", got)
		}
	})
}
