package coord

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// counting counts the datagrams on w from now on, by type.
type counting struct {
	mu sync.Mutex
	n  map[wire.Type]int
}

func count(w *world) *counting {
	c := &counting{n: map[wire.Type]int{}}
	w.net.Tap(func(_, _ netip.AddrPort, data []byte) {
		m, err := wire.Parse(data)
		if err != nil {
			w.t.Errorf("%d bytes sent: %v", len(data), err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[m.Type]++
	})
	return c
}

func (c *counting) of(kind wire.Type) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[kind]
}

// TestSplitOfAnHourHeals: two halves that lost each other find each other
// again, and meanwhile do not shout.
func TestSplitOfAnHourHeals(t *testing.T) {
	long := 15 * time.Minute
	if prove() {
		long = time.Hour
	}
	for _, tc := range []struct {
		profile cluster.Profile
		split   time.Duration
		most    time.Duration
	}{
		{cluster.ProfileLAN, 200 * time.Second, 6 * time.Second},
		{cluster.ProfileClassic, long, 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, tc.profile, 1, lan)
			hosts := w.many(3)
			for _, h := range hosts {
				h.start()
			}
			defer w.stopAll()
			w.until("all alive", time.Minute, w.allAlive)
			w.net.Partition([]netip.Addr{hosts[0].addr, hosts[1].addr}, []netip.Addr{hosts[2].addr})
			time.Sleep(tc.split - time.Minute)
			var crossing counting
			crossing.n = map[wire.Type]int{}
			w.net.Tap(func(from, to netip.AddrPort, data []byte) {
				if (from.Addr().As4()[3] <= 2) != (to.Addr().As4()[3] <= 2) {
					m, _ := wire.Parse(data)
					crossing.mu.Lock()
					crossing.n[m.Type]++
					crossing.mu.Unlock()
				}
			})
			time.Sleep(time.Minute)
			if m, _ := hosts[0].svc.View().Member(hosts[2].node); tc.split > 10*time.Minute &&
				(m.Health != cluster.Dead || !m.Stale || crossing.of(wire.TypeHeartbeat) > 4*5) { // on each of four ways
				t.Errorf("%s: health %s, stale %t, %v sent in a minute", tc.split, m.Health, m.Stale, crossing.n)
			}
			w.net.Tap(nil)
			w.net.Heal()
			took := w.until("all alive again", tc.most, w.allAlive)
			t.Logf("healed a split of %s after %s", tc.split, took)
		})
	}
}

// TestLostRecordIsAnnouncedAgain: a host whose peers have no record of it any
// more, and who know that of each other, registers itself.
func TestLostRecordIsAnnouncedAgain(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		c.stop() // says that it leaves
		b.crash()
		a.crash()
		for _, h := range []*host{a, b} { // a backup from before c joined
			h.known, h.store.records = member.Records{}, member.Records{}
			h.knows(a, b)
		}
		a.restart()
		b.restart()
		w.net.CutBoth(a.addr, c.addr)
		w.net.CutBoth(b.addr, c.addr)
		c.start() // its introduction at the start is lost
		time.Sleep(30 * time.Second)
		if _, ok := a.svc.View().Member(c.node); ok {
			t.Fatal("a knows c")
		}
		w.net.Heal()
		took := w.until("a knows c again", announceAgain+10*time.Second, func() bool {
			_, ok := a.svc.View().Member(c.node)
			return ok && w.allAlive()
		})
		t.Logf("registered again after %s", took)
		quiet := count(w)
		time.Sleep(5 * time.Minute)
		if n := quiet.of(wire.TypePeerAnnounce); n != 0 {
			t.Errorf("%d announcements in a quiet cluster", n)
		}
	})
}
