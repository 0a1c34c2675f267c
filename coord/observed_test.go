package coord

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// Bounds of package endpoint.
const (
	maxObserved  = 3
	observedLife = 10 * time.Minute
	publicHold   = 10 * time.Second
)

// TestRoamingIsGossiped: host-c moves; host-a's device sees where to, and
// host-b learns it from host-a, host-c too.
func TestRoamingIsGossiped(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(3)
		a, b, c := hosts[0], hosts[1], hosts[2]
		moved := netip.MustParseAddrPort("203.0.113.7:61000")
		var live sync.Map
		a.tweak = func(o *Options) {
			o.Observed = func() map[cluster.NodeID]netip.AddrPort {
				out := map[cluster.NodeID]netip.AddrPort{}
				if at, ok := live.Load("c"); ok {
					out[c.node], _ = at.(netip.AddrPort)
				}
				return out
			}
		}
		var told atomic.Int32
		var bSees sync.Map
		b.tweak = func(o *Options) {
			o.OnMembers = func([]cluster.Member) { told.Add(1) }
			o.Observed = func() map[cluster.NodeID]netip.AddrPort {
				out := map[cluster.NodeID]netip.AddrPort{}
				if at, ok := bSees.Load("c"); ok {
					out[c.node], _ = at.(netip.AddrPort)
				}
				return out
			}
		}
		c.tweak = func(o *Options) {
			o.Interfaces = func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.9.9.9")} }
		}
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", 10*time.Second, w.allAlive)
		time.Sleep(10 * time.Second)
		before := told.Load()
		live.Store("c", moved)
		at := func() []netip.AddrPort { m, _ := b.svc.View().Member(c.node); return m.Observed }
		took := w.until("b knows where c is", 5*time.Second, func() bool { return slices.Equal(at(), []netip.AddrPort{moved}) })
		t.Logf("learnt after %s", took)
		time.Sleep(20 * time.Second)
		if n := told.Load() - before; n != 1 {
			t.Errorf("b was told %d times of one change", n)
		}
		// One of two others says so: that is not enough.
		if v := c.svc.View(); v.NAT || v.PublicEndpoint.IsValid() {
			t.Errorf("c takes one word for it: %s, nat %t", v.PublicEndpoint, v.NAT)
		}
		bSees.Store("c", moved)
		took = w.until("c knows where it is", publicHold+5*time.Second, func() bool {
			v := c.svc.View()
			return v.PublicEndpoint == moved && v.NAT
		})
		if took < publicHold-time.Second {
			t.Errorf("c is sure after %s", took)
		}
		bSees.Delete("c")
		live.Delete("c")
		time.Sleep(5 * time.Second) // the last heartbeats that say so
		time.Sleep(observedLife)
		w.until("it is forgotten", 5*time.Second, func() bool { return len(at()) == 0 })
	})
}

// TestHintsAreBounded: what hosts say of others fills no memory, names no
// address inside the mesh, and one liar pushes nobody out.
func TestHintsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(8)
		a, c := hosts[0], hosts[7]
		a.start()
		defer w.stopAll()
		time.Sleep(time.Second)
		wg := wire.WGKey{8} // that of c
		seq := uint64(1 << 20)
		hint := func(from, about *host, key wire.WGKey, at string) {
			seq++
			hb := wire.Heartbeat{
				Role: cluster.RoleStandby, Version: "0.1.0", Profile: w.profile, SentUS: 1,
				KnownPeers: []wire.PeerHint{{Node: about.node, WGPub: key, TunnelIP: about.addr, Endpoint: netip.MustParseAddrPort(at)}},
			}
			w.net.Inject(udpAddr(from.addr), udpAddr(a.addr), seal(t, from.key, wire.Header{
				Node: from.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: 1, Seq: seq,
			}, hb))
			time.Sleep(20 * time.Millisecond)
		}
		seen := func() []netip.AddrPort { m, _ := a.svc.View().Member(c.node); return m.Observed }
		ula := netip.AddrPortFrom(member.ULA(w.verify.Cluster, publicKey(seedKey("x"))), 51820).String()
		for _, at := range []string{"10.0.0.3:51820", ula, "127.0.0.1:51820", "0.0.0.0:51820", "224.0.0.1:51820", "192.0.2.8:51820"} {
			hint(hosts[1], c, wg, at)
			if got := seen(); len(got) != 0 {
				t.Errorf("%s was believed: %v", at, got)
			}
		}
		hint(hosts[1], c, wire.WGKey{9}, "203.0.113.1:1") // another key
		hint(c, c, wg, "203.0.113.1:1")                   // of itself: that is what announcements are for
		if got := seen(); len(got) != 0 {
			t.Errorf("believed: %v", got)
		}
		hint(hosts[1], c, wg, "203.0.113.1:1")
		hint(hosts[2], c, wg, "203.0.113.2:1")
		for _, at := range []string{"203.0.113.3:1", "203.0.113.3:2", "203.0.113.3:3", "203.0.113.3:4"} {
			hint(hosts[3], c, wg, at)
		}
		if got := seen(); len(got) != maxObserved || got[0].Port() != 4 || !slices.Contains(got, netip.MustParseAddrPort("203.0.113.1:1")) {
			t.Errorf("kept %v", got)
		}
		for i, h := range hosts[1:7] {
			hint(h, c, wg, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(100 + i)}), 1).String())
		}
		if got := seen(); len(got) != maxObserved {
			t.Errorf("kept %v", got)
		}
		w.order = w.order[:1] // the others never ran
	})
}
