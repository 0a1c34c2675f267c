package coord

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

// TestRevocationReachesAll: many hosts, a tenth of the datagrams lost, one
// host cut off.
func TestRevocationReachesAll(t *testing.T) {
	large(t)
	n, apart := 8, 40*time.Second
	if prove() {
		n, apart = 50, 200*time.Second
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(n)
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", time.Minute, w.allAlive)
		lossy := lan
		lossy.Loss = 0.1
		w.net.SetDefault(lossy)
		cut, bad := hosts[n-1], hosts[n-2]
		isolate := func(h *host) {
			var rest []netip.Addr
			for _, o := range hosts {
				if o != h {
					rest = append(rest, o.addr)
				}
			}
			w.net.Partition([]netip.Addr{h.addr}, rest)
		}
		isolate(cut)
		time.Sleep(apart)
		gone := func(h *host) bool { _, ok := h.svc.View().Member(bad.node); return !ok }
		start := time.Now()
		if err := hosts[1].svc.AddRecords(t.Context(), member.Records{Revokes: []member.Signed{w.revoke(bad, false)}}); err != nil {
			t.Fatal(err)
		}
		w.until("gone everywhere", 5*time.Second, func() bool {
			return !slices.ContainsFunc(hosts[:n-1], func(h *host) bool { return !gone(h) })
		})
		t.Logf("%d hosts know after %s", n-1, time.Since(start))
		if gone(cut) {
			t.Fatal("the host that is cut off knows")
		}
		time.Sleep(apart)
		w.net.Heal()
		took := w.until("gone on the healed one", 15*time.Second, func() bool { return gone(cut) })
		t.Logf("the healed one knows after %s", took)
		if bad.svc.View().Failing[memberCheck] == "" {
			t.Error("the removed host does not know that it is no member")
		}
	})
}

// TestRevocationSpreadsWithoutItsOwner: the push reaches one host only.
func TestRevocationSpreadsWithoutItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(6)
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", time.Minute, w.allAlive)
		var pushed sync.Map
		w.net.Tap(func(_, to netip.AddrPort, data []byte) {
			if m, err := wire.Parse(data); err == nil && m.Type == wire.TypeRevoke {
				pushed.Store(to.Addr(), true)
			}
		})
		rec := w.revoke(hosts[5], false)
		seen := seal(t, hosts[1].key, header(hosts[1], hosts[2], wire.TypeRevoke, 1<<30), wire.Revoke{Record: rec.String()})
		w.net.Inject(udpAddr(hosts[1].addr), udpAddr(hosts[2].addr), seen)
		w.until("all know", 50*time.Millisecond, func() bool {
			return !slices.ContainsFunc(hosts, func(h *host) bool { _, ok := h.svc.View().Member(hosts[5].node); return ok })
		})
		w.net.Tap(nil)
		for _, h := range hosts {
			if _, ok := pushed.Load(h.addr); !ok {
				t.Errorf("%s was not pushed the record", h.node)
			}
		}
	})
}

func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lossy := lan
		lossy.Loss = 0.2
		w := newWorld(t, cluster.ProfileLAN, 5, simnet.Link{Delay: time.Millisecond})
		hosts := w.many(5)
		var mu sync.Mutex
		changes := map[cluster.NodeID][]member.Change{}
		for _, h := range hosts {
			h.tweak = func(o *Options) {
				o.OnChange = func(c member.Change, _ []member.Evidence) {
					mu.Lock()
					defer mu.Unlock()
					changes[h.node] = append(changes[h.node], c)
				}
			}
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", time.Minute, w.allAlive)
		w.net.SetDefault(lossy)
		leaver := hosts[2]
		conn, err := hosts[1].svc.Dial(t.Context(), leaver.node, gossip.Proto)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := leaver.svc.Leave(t.Context(), w.revoke(leaver, true)); err != nil {
			t.Fatal(err)
		}
		rest := slices.DeleteFunc(slices.Clone(hosts), func(h *host) bool { return h == leaver })
		w.until("it is gone", time.Second, func() bool {
			return !slices.ContainsFunc(rest, func(h *host) bool { _, ok := h.svc.View().Member(leaver.node); return ok })
		})
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stream to it lives on")
		}
		time.Sleep(10 * time.Second)
		for _, h := range rest {
			h.mu.Lock()
			if h.health[leaver.node] != cluster.Left {
				t.Errorf("%s was told that it is %s", h.node, h.health[leaver.node])
			}
			h.mu.Unlock()
			mu.Lock()
			if got := changes[h.node]; len(got) != 1 || !slices.Equal(got[0].Left, []cluster.NodeID{leaver.node}) {
				t.Errorf("%s was told of %+v", h.node, got)
			}
			mu.Unlock()
			if n := h.rejected("unknown_sender"); n > 3 {
				t.Errorf("%s heard %d messages of the host that left", h.node, n)
			}
		}
		if err := leaver.svc.Leave(t.Context(), member.Signed{}); err == nil {
			t.Error("a record that is none was taken")
		}
		forged := w.revoke(hosts[0], true)
		forged.Sig = slices.Clone(forged.Sig)
		forged.Sig[3] ^= 1
		if err := hosts[1].svc.Leave(t.Context(), forged); !errors.Is(err, member.ErrSignature) {
			t.Errorf("a forged leave: %v", err)
		}
		w.net.SetDefault(lan)
		w.net.Inject(udpAddr(hosts[1].addr), udpAddr(hosts[3].addr),
			seal(t, hosts[1].key, header(hosts[1], hosts[3], wire.TypeRevoke, 1<<30), wire.Revoke{Record: forged.String()}))
		time.Sleep(100 * time.Millisecond)
		if _, ok := hosts[3].svc.View().Member(hosts[0].node); !ok || hosts[3].rejected("record") != 1 {
			t.Errorf("a forged leave over the wire: %v", hosts[3].svc.View().Rejected)
		}
	})
}

// TestHolderLeaves: the holder revokes itself and another holds soon.
func TestHolderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(2 * time.Second)
		if err := a.svc.Leave(context.Background(), w.revoke(a, true)); err != nil {
			t.Fatal(err)
		}
		term := a.svc.View().Lease.Term
		if a.svc.MayAct(term) {
			t.Error("it may still act")
		}
		w.until("another holds", 10*time.Second, func() bool { return w.holder(b.node, c.node) != "" })
	})
}
