package coord

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestHeartbeatsRideOnRenewals: a datagram wakes a host, so heartbeats go out when
// the lease is renewed anyway: a second of three hosts has one short time in which
// all is sent.
func TestHeartbeatsRideOnRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		for _, h := range w.many(3) {
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", 10*time.Second, w.allAlive)
		w.until("a holder", 20*time.Second, func() bool { return w.holder() != "" })
		time.Sleep(20 * time.Second)

		const gap = 100 * time.Millisecond // that ends a burst
		var mu sync.Mutex
		var last time.Time
		bursts := 0
		w.net.Tap(func(_, _ netip.AddrPort, _ []byte) {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); now.Sub(last) > gap {
				bursts++
			}
			last = time.Now()
		})
		const seconds = 60
		time.Sleep(seconds * time.Second)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%d bursts of datagrams in %d s", bursts, seconds)
		if bursts > seconds*5/4 {
			t.Errorf("want about one a second")
		}
	})
}
