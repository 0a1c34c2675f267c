package coord

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

// meshMTU is the MTU that a host's planning has set, and what it was told.
type meshMTU struct {
	mu    sync.Mutex
	mtu   int
	holes []int // the steps, from and to
}

func (m *meshMTU) get() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mtu
}

func (m *meshMTU) told(_ cluster.NodeID, from, to int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holes = append(m.holes, from, to)
	m.mtu = min(m.mtu, to)
}

// probing gives each host of ws its own MTU of 1420.
func probing(hosts ...*host) []*meshMTU {
	var out []*meshMTU
	for _, h := range hosts {
		m := &meshMTU{mtu: 1420}
		h.tweak = func(o *Options) { o.MTU, o.OnBlackhole = m.get, m.told }
		out = append(out, m)
	}
	return out
}

// udpOver4 is the headers of a datagram inside the mesh.
const udpOver4 = 28

// inner1340 is what an underlay of 1400 carries inside the mesh over IPv4.
const inner1340 = 1340 - udpOver4

func TestBlackHoleFromTheStart(t *testing.T) {
	for _, profile := range []cluster.Profile{cluster.ProfileLAN, cluster.ProfileClassic} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, profile, 1, simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond, MaxSize: inner1340})
			hosts := w.many(3)
			mtus := probing(hosts...)
			for _, h := range hosts {
				h.start()
			}
			defer w.stopAll()
			w.until("all alive", time.Minute, w.allAlive)
			took := w.until("every path is proven", time.Minute, func() bool { return provenAt(w, 1320) })
			t.Logf("%s: repaired %s after first contact", profile, took)
			for i, m := range mtus {
				if got := m.holes; len(got) < 2 || m.get() != 1320 || !slices.Equal(got[:2], []int{1420, 1380}) {
					t.Errorf("%s was told of %v", hosts[i].node, got)
				}
			}
		})
	}
}

// provenAt reports whether every host has seen full packets of that MTU reach
// every other.
func provenAt(w *world, mtu int) bool {
	for _, n := range w.order {
		for _, m := range w.hosts[n].svc.View().Members {
			if m.Node != n && m.PathMTU != mtu {
				return false
			}
		}
	}
	return true
}

func TestBlackHoleThatAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 2, lan)
		hosts := w.many(3)
		mtus := probing(hosts...)
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("every path is proven", 20*time.Second, func() bool { return provenAt(w, 1420) })
		time.Sleep(time.Minute)
		narrow := lan
		narrow.MaxSize = inner1340
		w.net.SetLink(hosts[0].addr, hosts[1].addr, narrow)
		took := w.until("both ends went down", time.Minute, func() bool { return mtus[0].get() == 1320 && mtus[1].get() == 1320 })
		t.Logf("repaired %s after it appeared", took)
		time.Sleep(30 * time.Second)
		if got := mtus[2].get(); got != 1420 {
			t.Errorf("the host with good paths went to %d", got)
		}
		if v, _ := hosts[0].svc.View().Member(hosts[1].node); v.PathMTU != 1320 {
			t.Errorf("path mtu %d", v.PathMTU)
		}
	})
}

// TestLossIsNoBlackHole: a fifth of all packets is lost, whatever their size. Chance may take
// all that are large for once.
func TestLossIsNoBlackHole(t *testing.T) {
	large(t)
	runs, most, span := 2, 1, 2*time.Minute
	if prove() {
		runs, most, span = 30, 2, 5*time.Minute
	}
	seen := 0
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			lossy := lan
			lossy.Loss = 0.2
			w := newWorld(t, cluster.ProfileLAN, uint64(seed), lossy)
			hosts := w.many(4)
			mtus := probing(hosts...)
			for _, h := range hosts {
				h.start()
			}
			defer w.stopAll()
			time.Sleep(span)
			for i, m := range mtus {
				if len(m.holes) != 0 {
					seen++
					t.Logf("seed %d: %s saw a black hole: %v", seed, hosts[i].node, m.holes)
				}
			}
		})
	}
	if seen > most {
		t.Errorf("%d black holes in %d runs, at most %d are chance", seen, runs, most)
	}
}

// TestOnlyProbesAreLong: nothing else exceeds the limit, nothing else that is
// longer is taken, and they are few.
func TestOnlyProbesAreLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 3, lan)
		hosts := w.many(3)
		probing(hosts...)
		var mu sync.Mutex
		long := 0
		w.net.Tap(func(_, _ netip.AddrPort, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			if len(data) > wire.MaxDatagram {
				long++
				if m, err := wire.Parse(data); err != nil || m.Type != wire.TypeHeartbeat || len(data) != 1420-udpOver4 {
					t.Errorf("%d bytes of %s: %v", len(data), m.Type, err)
				}
			}
		})
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		time.Sleep(30 * time.Second)
		mu.Lock()
		start := long
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		mu.Lock()
		n := long - start
		mu.Unlock()
		if n < 6*3 || n > 6*5 {
			t.Errorf("%d probes on 6 ways in 3 minutes", n)
		}
		w.net.Tap(nil)
		a, b := hosts[0], hosts[1]
		hb := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: w.profile, SentUS: 1, Probe: 1400}
		for i, data := range [][]byte{
			wire.Pad(seal(t, b.key, header(b, a, wire.TypeHeartbeat, 1<<30), hb), 1399),
			wire.Pad(seal(t, b.key, header(b, a, wire.TypeHeartbeat, 1<<30+1), hb), wire.MaxProbe+1),
			wire.Pad(seal(t, b.key, header(b, a, wire.TypeLeaseRelease, 1<<30+2), nil), 1400),
			append(wire.Pad(seal(t, b.key, header(b, a, wire.TypeHeartbeat, 1<<30+3), hb), 1399), 'x'),
			make([]byte, 1400),
			make([]byte, 64<<10-64),
		} {
			before := a.rejected("size")
			w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), data)
			time.Sleep(5 * time.Millisecond)
			if a.rejected("size") != before+1 {
				t.Errorf("case %d was not refused for its size: %v", i, a.svc.View().Rejected)
			}
		}
	})
}

// header is the header of a message that from would send now.
func header(from, to *host, kind wire.Type, seq uint64) wire.Header {
	return wire.Header{Node: from.node, Time: time.Now().Unix(), Type: kind, To: to.node, Boot: from.boot, Seq: seq}
}
