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
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// meter counts the datagrams of hosts, heartbeats and the lease's included: what
// they send and get, with 28 bytes of headers each.
type meter struct {
	mu        sync.Mutex
	sent, got map[netip.Addr]int
	kinds     map[string]int
	datagrams int
}

func (m *meter) tap(from, to netip.AddrPort, data []byte) {
	kind := "probe"
	for _, k := range []string{"lease_", "heartbeat", "swim_"} {
		if bytes.Contains(data[:min(len(data), 120)], []byte(`"type":"`+k)) {
			kind = k
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.datagrams++
	m.kinds[kind] += len(data) + udpOver4
	m.sent[from.Addr()] += len(data) + udpOver4
	m.got[to.Addr()] += len(data) + udpOver4
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent, m.got, m.kinds, m.datagrams = map[netip.Addr]int{}, map[netip.Addr]int{}, map[string]int{}, 0
}

// wireguardCost is what WireGuard adds to a packet inside an outer one of IPv4:
// 32 bytes, 28 of headers and 8 of padding on average.
const wireguardCost = 68

// rest logs what n hosts cost each other in d, and returns the mean of all and
// the most that one sends which is neither holder nor voter.
func (m *meter) rest(t *testing.T, d time.Duration, n int, holder *host, voters []*host) (mean, most float64) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	per := func(v int) float64 { return float64(v) / d.Seconds() }
	sum := 0
	for _, v := range m.sent {
		sum += v
	}
	mean = per(sum) / float64(n)
	voterSent, voterGot, otherGot := 0, 0, 0
	for a, v := range m.sent {
		switch {
		case a == holder.addr:
		case slices.ContainsFunc(voters, func(h *host) bool { return h.addr == a }):
			voterSent, voterGot = max(voterSent, v), max(voterGot, m.got[a])
		default:
			most, otherGot = max(most, per(v)), max(otherGot, m.got[a])
		}
	}
	t.Logf("%d hosts at rest: %.0f B/s sent per host (heartbeats %.0f, failure detector %.0f, lease %.0f), %.0f inside WireGuard",
		n, mean, per(m.kinds["heartbeat"])/float64(n), per(m.kinds["swim_"])/float64(n), per(m.kinds["lease_"])/float64(n),
		mean+per(m.datagrams)*wireguardCost/float64(n))
	t.Logf("at most: an ordinary host sends %.0f B/s and gets %.0f, a voter %.0f and %.0f, the holder %.0f and %.0f",
		most, per(otherGot), per(voterSent), per(voterGot), per(m.sent[holder.addr]), per(m.got[holder.addr]))
	return mean, most
}

// unlike counts the hosts among which that do not see node in health h.
func (w *world) unlike(node cluster.NodeID, h cluster.Health) int {
	n := 0
	for _, o := range w.order {
		s := w.hosts[o].svc
		if s == nil || o == node {
			continue
		}
		if m, _ := s.views.latest.Load().Member(node); m.Health != h {
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

// five makes the first five hosts the voters of a cluster that was stopped.
// All others know them.
func five(hosts []*host) {
	c := cluster.VoterConfig{Epoch: 5, Term: 1, Mode: cluster.ModeQuorum}
	for _, h := range hosts[:5] {
		c.Voters = append(c.Voters, h.node)
	}
	for _, h := range hosts {
		h.store.vote, h.store.found = lease.VoteRecord{Config: c, PromisedTerm: 1}, true
		h.boot = 1
	}
}

// swims asks the loop of h whether it judges by probes.
func (h *host) swims() bool {
	on := false
	if err := h.svc.loop.call(h.w.t.Context(), func() { on = h.svc.health.Large() }); err != nil {
		h.w.t.Error(err)
	}
	return on
}

// await is until for what is costly to look at.
func (w *world) await(what string, limit time.Duration, f func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for synctest.Wait(); !f(); synctest.Wait() {
		if time.Since(start) > limit {
			w.t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return time.Since(start)
}

// TestLargeCluster runs more hosts than get heartbeats directly: they cost each
// other little, notice a crash within seconds and nothing else, also at 10 %
// loss, and elect as promptly as few. In short runs only some of the members
// run.
func TestLargeCluster(t *testing.T) {
	large(t)
	n, members, quiet, lossy := 12, 66, 15*time.Second, 5*time.Second
	if prove() {
		n, members, quiet, lossy = 100, 100, 5*time.Minute, 10*time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond}
		w := newWorld(t, cluster.ProfileLAN, 1, link)
		hosts := w.many(members)[:n] // in short runs not all run
		w.order = w.order[:n]
		five(hosts)
		m := &meter{}
		m.reset()
		w.net.Tap(m.tap)
		defer w.stopAll()
		for i, h := range hosts {
			h.start()
			if i == 4 { // the best host holds, and goes on to
				w.await("one holds", time.Minute, func() bool { return len(w.acters()) == 1 })
			}
		}
		t.Logf("%d hosts see each other after %s", n, w.await("all see all", time.Minute, func() bool { return w.wrong() == 0 }))
		time.Sleep(health.SettleFor)

		m.reset()
		time.Sleep(quiet)
		mean, most := m.rest(t, quiet, n, w.hosts[w.acters()[0]], hosts[:5])
		if n == members && (mean > 1000 || most > 1000) {
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
		time.Sleep(2 * time.Second)
		largeCrash(t, w, hosts[n-1])
		largeElect(t, w, hosts[:5])
	})
}

// largeCrash crashes a host that is no voter and brings it back.
func largeCrash(t *testing.T, w *world, victim *host) {
	t.Helper()
	victim.crash()
	took := w.await("the crash is noticed", 30*time.Second, func() bool { return w.unlike(victim.node, cluster.Suspect) == 0 })
	t.Logf("all take a crashed host out after %s", took)
	if took > 9*time.Second {
		t.Errorf("a crash is noticed after %s", took)
	}
	if prove() {
		dead := took + w.await("it is dead", 3*time.Minute, func() bool { return w.unlike(victim.node, cluster.Dead) == 0 })
		if dead < member.DefaultDead-time.Second || dead > member.DefaultDead+5*time.Second {
			t.Errorf("dead after %s", dead)
		}
	}
	victim.restart()
	t.Logf("back after %s", w.await("it is back", time.Minute, func() bool { return w.wrong() == 0 }))
}

// largeElect crashes the holder.
func largeElect(t *testing.T, w *world, voters []*host) {
	t.Helper()
	first := w.acters()[0]
	w.hosts[first].crash()
	var next cluster.NodeID
	took := w.await("another host holds", 30*time.Second, func() bool {
		a := w.acters()
		if len(a) != 1 || a[0] == first {
			return false
		}
		next = a[0]
		return true
	})
	t.Logf("another host holds after %s", took)
	if took > 7*time.Second || !slices.ContainsFunc(voters, func(h *host) bool { return h.node == next }) {
		t.Errorf("%s holds after %s", next, took)
	}
	told := w.await("all know it", time.Minute, func() bool {
		for _, h := range w.hosts {
			if h.svc != nil && h.svc.View().Publisher != next {
				return false
			}
		}
		return true
	})
	t.Logf("all know it %s later", told)
}

// TestSizePassesDirect: no host doubts another while the cluster grows beyond
// what heartbeats reach directly, or shrinks back. Most members do not run.
func TestSizePassesDirect(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 3, simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond})
		hosts := w.many(MaxDirect + 5)
		running, more := hosts[:3], hosts[MaxDirect:]
		var small member.Records
		for _, h := range hosts[:MaxDirect] {
			small.Certs, small.Anns = append(small.Certs, h.cert), append(small.Anns, h.ann)
		}
		for _, h := range running {
			h.known = small
			h.start()
		}
		all := w.order
		w.order = all[:len(running)]
		defer w.stopAll()
		w.await("the running see each other", time.Minute, func() bool { return w.wrong() == 0 })
		stays := func(large bool) {
			t.Helper()
			for range 40 {
				time.Sleep(time.Second)
				synctest.Wait()
				if k := w.wrong(); k != 0 {
					t.Fatalf("%d wrong opinions, large %t", k, large)
				}
			}
			for _, h := range running {
				if h.swims() != large {
					t.Errorf("%s judges by probes: %t, want %t", h.node, !large, large)
				}
			}
		}
		stays(false)
		for _, h := range more {
			if err := running[1].svc.AddRecords(t.Context(), h.records()); err != nil {
				t.Fatal(err)
			}
		}
		stays(true)
		for _, h := range more {
			if err := running[2].svc.AddRecords(t.Context(), member.Records{Revokes: []member.Signed{w.revoke(h, false)}}); err != nil {
				t.Fatal(err)
			}
		}
		stays(false)
	})
}

// TestOwnRecordReachesAll: in a large cluster everyone has a host's next
// announcement, which may name its next key, well before that key is used, and
// though datagrams get lost.
func TestOwnRecordReachesAll(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 7, simnet.Link{Delay: time.Millisecond, Jitter: time.Millisecond, Loss: .1})
		hosts := w.many(MaxDirect + 5)
		running := hosts[:12]
		for _, h := range running {
			h.start()
		}
		w.order = w.order[:len(running)]
		defer w.stopAll()
		w.await("the running see each other", time.Minute, func() bool { return w.wrong() == 0 })
		time.Sleep(health.SettleFor)
		a := running[4]
		ann, err := member.Ann{
			IDPub: publicKey(a.key), WGPub: [32]byte{5}, Next: [32]byte{5, 5}, NextAt: time.Now().Add(10 * time.Second).Unix(), Epoch: 2, Issued: time.Now().Unix(), Zone: "z", Priority: 4,
			Endpoints: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 5}), 51820)},
		}.Sign(a.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.svc.AddRecords(t.Context(), member.Records{Certs: []member.Signed{a.cert}, Anns: []member.Signed{ann}}); err != nil {
			t.Fatal(err)
		}
		took := w.await("all running have it", time.Minute, func() bool {
			for _, h := range running {
				if h.svc.View().Digest != a.svc.View().Digest {
					return false
				}
			}
			return true
		})
		t.Logf("all running have it after %s", took)
		if took > 5*time.Second {
			t.Errorf("all have it after %s", took)
		}
	})
}

// TestHostWithoutProbes: a host of a version that knows heartbeats only is
// heard and spoken to directly in a large cluster, gets nothing that it does not
// know, and is judged by its silence.
func TestHostWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 5, simnet.Link{Delay: time.Millisecond})
		hosts := w.many(MaxDirect + 5)
		a, b, old := hosts[0], hosts[1], hosts[2]
		var mu sync.Mutex
		got := map[string]int{}
		var sentUS uint64
		w.net.Tap(func(from, to netip.AddrPort, data []byte) {
			m, err := wire.Parse(data)
			if err != nil || to.Addr() != old.addr || from.Addr() != a.addr {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got[string(m.Type)]++
			if p, err := wire.Decode(m); err == nil {
				if hb, ok := p.(wire.Heartbeat); ok {
					sentUS = hb.SentUS
				}
			}
		})
		a.start()
		b.start()
		w.order = w.order[:2]
		defer w.stopAll()
		seq := uint64(0)
		beat := func() {
			mu.Lock()
			echo := sentUS
			mu.Unlock()
			seq++
			data, err := wire.Seal(old.key, wire.Header{
				Node: old.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: 1, Seq: seq,
			}, wire.Heartbeat{
				Role: cluster.RoleStandby, KnownPeers: []wire.PeerHint{}, Version: "0.1.0", Profile: cluster.ProfileLAN, Eligible: true,
				SentUS: uint64(seq) * 1_000_000, EchoUS: echo,
			})
			if err != nil {
				t.Fatal(err)
			}
			w.net.Inject(udpAddr(old.addr), udpAddr(a.addr), data)
			time.Sleep(time.Second)
		}
		for range 40 {
			beat()
		}
		mu.Lock()
		clear(got)
		mu.Unlock()
		for range 60 {
			beat()
			if m, _ := a.svc.View().Member(old.node); m.Health != cluster.Alive {
				t.Fatalf("it is %s", m.Health)
			}
		}
		mu.Lock()
		if got["heartbeat"] < 50 || got["swim_probe"]+got["swim_gossip"]+got["swim_ping_req"] > 0 {
			t.Errorf("it got %v", got)
		}
		mu.Unlock()
		took := w.await("its silence is noticed", time.Minute, func() bool {
			m, _ := a.svc.View().Member(old.node)
			return m.Health == cluster.Suspect
		})
		t.Logf("suspect %s after its last word", took)
		if m, _ := a.svc.View().Member(b.node); m.Health != cluster.Alive || !a.swims() {
			t.Errorf("the other host is %s, by probes %t", m.Health, a.swims())
		}
	})
}
