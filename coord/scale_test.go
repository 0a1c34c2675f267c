package coord

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

// TestFiveHundredMembers: no datagram but a probe exceeds the limit, everyone
// comes to know everyone, and nobody is suspected though hosts beat in turn.
// In short runs all are members and 4 of them run.
func TestFiveHundredMembers(t *testing.T) {
	large(t)
	const members = 500
	running, settle, quiet := 4, 100*time.Second, 30*time.Second
	if prove() {
		running, settle, quiet = 60, 2*time.Minute, 2*time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileClassic, 1, simnet.Link{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond})
		hosts := w.many(members)
		probing(hosts...)
		all := hosts[0].known
		var mu sync.Mutex
		sent, longest, probes := 0, 0, 0
		w.net.Tap(func(_, _ netip.AddrPort, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			sent++
			if len(data) > wire.MaxDatagram {
				probes++
				if len(data) != 1420-udpOver4 {
					t.Errorf("a datagram of %d bytes", len(data))
				}
				return
			}
			longest = max(longest, len(data))
		})
		for i, h := range hosts[:running] {
			if i > 0 { // they know the first and themselves, and the first all
				h.known = h.records()
				h.knows(hosts[0])
			}
			h.start()
		}
		w.order = w.order[:running]
		defer w.stopAll()
		start := time.Now()
		converged := func() bool {
			for _, h := range hosts[:running] {
				if v := h.svc.View(); len(v.Members) != members || v.Digest != hosts[0].svc.View().Digest {
					return false
				}
			}
			return true
		}
		for !converged() {
			time.Sleep(time.Second)
			if time.Since(start) > 5*time.Minute {
				t.Fatal("the digests differ after 5 minutes")
			}
		}
		t.Logf("%d of %d members running agree after %s", running, len(all.Certs), time.Since(start))
		time.Sleep(settle) // the introductions are over, all were heard
		mu.Lock()
		before := sent
		mu.Unlock()
		refused := map[cluster.NodeID]string{} // hosts that were not known yet
		for _, h := range hosts[:running] {
			refused[h.node] = fmt.Sprint(h.svc.View().Rejected)
		}
		for range int(quiet / (10 * time.Second)) {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for _, h := range hosts[:running] {
				for _, o := range hosts[:running] {
					if m, _ := h.svc.View().Member(o.node); m.Health != cluster.Alive {
						t.Fatalf("%s thinks that %s is %s", h.node, o.node, m.Health)
					}
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		rate := float64(sent-before) / quiet.Seconds() / float64(running)
		t.Logf("longest %d bytes, %d probes, %.1f datagrams per second and host", longest, probes, rate)
		if longest > wire.MaxDatagram || longest < 900 || rate > 20 {
			t.Errorf("longest %d bytes, %.1f datagrams per second and host", longest, rate)
		}
		for _, h := range hosts[:running] {
			if n := h.metric("skein_coord_unsent_total", "queue"); n != 0 {
				t.Errorf("%s: %v datagrams not queued", h.node, n)
			}
			if r := fmt.Sprint(h.svc.View().Rejected); r != refused[h.node] {
				t.Errorf("%s refused %s, before %s", h.node, r, refused[h.node])
			}
		}
	})
}
