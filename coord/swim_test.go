package coord

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/simnet"
)

// meter counts what hosts send, 28 bytes of headers included; of the lease's
// own messages apart.
type meter struct {
	mu    sync.Mutex
	sent  map[netip.Addr]int
	got   map[netip.Addr]int
	lease int
}

func (m *meter) tap(from, to netip.AddrPort, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Contains(data[:min(len(data), 120)], []byte(`"type":"lease_`)) {
		m.lease += len(data) + udpOver4
		return
	}
	m.sent[from.Addr()] += len(data) + udpOver4
	m.got[to.Addr()] += len(data) + udpOver4
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent, m.got, m.lease = map[netip.Addr]int{}, map[netip.Addr]int{}, 0
}

// rates are bytes per second and host.
func (m *meter) rates(d time.Duration, n int) (mean, most, mostGot, lease float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for _, v := range m.sent {
		sum += v
		most = max(most, float64(v)/d.Seconds())
	}
	for _, v := range m.got {
		mostGot = max(mostGot, float64(v)/d.Seconds())
	}
	return float64(sum) / d.Seconds() / float64(n), most, mostGot, float64(m.lease) / d.Seconds() / float64(n)
}

// seen counts the hosts among which that do not see node in health h.
func (w *world) unlike(node cluster.NodeID, h cluster.Health) int {
	n := 0
	for _, o := range w.order {
		s := w.hosts[o].svc
		if s == nil || o == node {
			continue
		}
		if m, _ := s.View().Member(node); m.Health != h {
			n++
		}
	}
	return n
}

// wrong counts the pairs of running hosts of which one does not see the other
// alive.
func (w *world) wrong() int {
	n := 0
	for _, o := range w.order {
		if w.hosts[o].svc != nil {
			n += w.unlike(o, cluster.Alive)
		}
	}
	return n
}

// TestLargeCluster runs more hosts than get heartbeats directly: they cost each
// other little, notice a crash within seconds and nothing else, also at 10 %
// loss, and elect as promptly as few.
func TestLargeCluster(t *testing.T) {
	n, quiet, lossy := 66, 30*time.Second, 20*time.Second
	if prove() {
		n, quiet, lossy = 100, 5*time.Minute, 10*time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond}
		w := newWorld(t, cluster.ProfileLAN, 1, link)
		hosts := w.many(n)
		m := &meter{}
		m.reset()
		w.net.Tap(m.tap)
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		t.Logf("%d hosts see each other after %s", n, w.until("all see all", time.Minute, func() bool { return w.wrong() == 0 }))
		w.until("five voters and a holder", 5*time.Minute, func() bool { return w.voters(min(n, 5)) && w.holder() != "" })
		time.Sleep(2 * settleFor)

		m.reset()
		time.Sleep(quiet)
		mean, most, got, lease := m.rates(quiet, n)
		t.Logf("%d hosts at rest: %.0f B/s per host, most %.0f, received at most %.0f; the lease costs %.0f", n, mean, most, got, lease)
		if mean > 900 || most > 1400 {
			t.Errorf("%.0f B/s per host, most %.0f", mean, most)
		}
		if k := w.wrong(); k != 0 {
			t.Errorf("%d wrong opinions at rest", k)
		}

		w.net.SetDefault(simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond, Loss: .1})
		for range int(lossy / time.Second) {
			time.Sleep(time.Second)
			synctest.Wait()
			if k := w.wrong(); k != 0 {
				t.Errorf("%d wrong opinions at 10 %% loss", k)
			}
		}
		w.net.SetDefault(link)
		time.Sleep(5 * time.Second)

		victim := hosts[n-1]
		victim.crash()
		took := w.until("the crash is noticed", 30*time.Second, func() bool { return w.unlike(victim.node, cluster.Suspect) == 0 })
		t.Logf("all take a crashed host out after %s", took)
		if took > 8500*time.Millisecond {
			t.Errorf("a crash is noticed after %s", took)
		}
		w.until("it is dead", 3*time.Minute, func() bool { return w.unlike(victim.node, cluster.Dead) == 0 })
		victim.restart()
		t.Logf("back after %s", w.until("it is back", time.Minute, func() bool { return w.wrong() == 0 }))

		first := w.holder()
		voters := hosts[0].svc.View().Lease.Config.Voters
		w.hosts[first].crash()
		took = w.until("another host holds", 30*time.Second, func() bool {
			a := w.acters()
			return len(a) == 1 && a[0] != first && slices.Contains(voters, a[0])
		})
		t.Logf("another host holds after %s", took)
		if took > 8*time.Second {
			t.Errorf("no holder for %s", took)
		}
		next := w.acters()[0]
		told := w.until("all know the new holder", time.Minute, func() bool {
			for _, h := range hosts {
				if h.svc != nil && h.svc.View().Publisher != next {
					return false
				}
			}
			return true
		})
		t.Logf("all know it %s later", told)
	})
}
