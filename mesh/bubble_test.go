package mesh

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/reach"
)

// Tests on fake time run real WireGuard devices over a fakeNet. WireGuard
// sets finalizers that read channels of the bubble, which is fatal from
// outside of it: those tests run in a process of their own, without garbage
// collection.
const bubbleEnv = "SKEIN_MESH_BUBBLE"

func TestMain(m *testing.M) {
	if os.Getenv(bubbleEnv) != "" {
		debug.SetGCPercent(-1)
	}
	os.Exit(m.Run())
}

func TestFakeTime(t *testing.T) {
	if os.Getenv(bubbleEnv) != "" {
		t.Skip("this is the child")
	}
	t.Parallel()
	// One process per test bounds the memory that nobody collects.
	for _, name := range []string{"Rule", "Cut", "Crossing", "Roam", "Loss", "LateStart", "DeadPeer", "Rotate", "RotateBadly", "RotateLossy", "ClockBack", "AllCandidates"} {
		t.Run(name, func(t *testing.T) {
			runChild(t, "TestBubble"+name, bubbleEnv)
		})
	}
}

// runChild runs one test of this binary in a process of its own, with env set.
func runChild(t *testing.T, test, env string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It computes, for seconds; beside others that go first it may have to wait.
	ctx, cancel := context.WithTimeout(t.Context(), 16*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^"+test+"$", "-test.v", "-test.timeout=15m")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.Contains(line, "_test.go:") {
			t.Log(line)
		}
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// bubble runs f on fake time, in the child process only.
func bubble(t *testing.T, f func(t *testing.T)) {
	if os.Getenv(bubbleEnv) == "" {
		t.Skip("runs in a child process of TestFakeTime")
	}
	synctest.Test(t, f)
}

// fakeHosts starts n hosts on a network; none knows another yet.
func fakeHosts(t *testing.T, n int, fn *fakeNet, naive bool) (hosts []*host, members []cluster.Member) {
	t.Helper()
	for i := 1; i <= n; i++ {
		bind := fn.bind(i)
		h := newHost(t, i, func(o *Options) {
			o.bind, o.udpOnly, o.naive, o.Rand = bind, true, naive, fn.rand01
		})
		h.start(t)
		hosts = append(hosts, h)
		members = append(members, h.member(bind.addr))
	}
	return hosts, members
}

func (n *fakeNet) rand01() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rand.Float64()
}

// heartbeats lets h send to all others every interval and notes when each was
// heard last.
func (h *host) heartbeats(t *testing.T, all []*host, every time.Duration) *ears {
	t.Helper()
	pc, err := h.ListenPacket(t.Context(), netip.AddrPortFrom(h.ip4, 51821))
	if err != nil {
		t.Fatal(err)
	}
	e := &ears{last: map[string]time.Time{}, lock: make(chan struct{}, 1)}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); pc.Close() })
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, o := range all {
				if o != h {
					_, _ = pc.WriteTo([]byte(h.node), udpAddr(o.ip4, 51821))
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	go func() {
		buf := make([]byte, 100)
		for {
			n, _, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			e.hear(string(buf[:n]))
		}
	}()
	return e
}

// ears is when each host was heard last.
type ears struct {
	lock chan struct{} // a mutex that fake time sees through
	last map[string]time.Time
}

func (e *ears) hear(node string) {
	e.lock <- struct{}{}
	e.last[node] = time.Now()
	<-e.lock
}

func (e *ears) heard(node cluster.NodeID) time.Time {
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	return e.last[string(node)]
}

// allHeard reports whether everyone has heard everyone since.
func allHeard(hosts []*host, all []*ears, since time.Time) bool {
	for i, e := range all {
		for j, o := range hosts {
			if i != j && !e.heard(o.node).After(since) {
				return false
			}
		}
	}
	return true
}

// until waits in steps until cond holds and returns how long that took.
func until(t *testing.T, limit time.Duration, cond func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > limit {
			t.Fatalf("not within %s", limit)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}

// fakeMesh lets n hosts learn of each other at the same moment, with data to send
// at once, and returns when everyone has heard everyone.
func fakeMesh(t *testing.T, n int, naive bool) time.Duration {
	fn := newFakeNet(7)
	hosts, members := fakeHosts(t, n, fn, naive)
	begin := time.Now()
	var all []*ears
	for _, h := range hosts {
		h.mustSet(t, members)
	}
	for _, h := range hosts {
		all = append(all, h.heartbeats(t, hosts, time.Second))
	}
	return until(t, 2*time.Minute, func() bool { return allHeard(hosts, all, begin) })
}

// Left to itself WireGuard needs seconds for what the rule does at once.
func TestBubbleRule(t *testing.T) {
	n := count(12, 50)
	if raceEnabled {
		n = min(n, 20)
	}
	var naive, rule time.Duration
	bubble(t, func(t *testing.T) { naive = fakeMesh(t, n, true) })
	bubble(t, func(t *testing.T) { rule = fakeMesh(t, n, false) })
	t.Logf("%d hosts, everyone heard everyone: %s naive, %s with the rule", n, naive, rule)
	if naive < 5*time.Second {
		t.Errorf("naive way took only %s: does the test still show what the rule is for?", naive)
	}
	if rule > time.Second {
		t.Errorf("with the rule: %s", rule)
	}
}

// A cut, shorter and longer than a session, heals by itself.
func TestBubbleCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(3)
		hosts, members := fakeHosts(t, count(3, 8), fn, false)
		var all []*ears
		for _, h := range hosts {
			h.mustSet(t, members)
			all = append(all, h.heartbeats(t, hosts, time.Second))
		}
		time.Sleep(5 * time.Second)
		split := func(from, to netip.AddrPort) bool {
			return (from.Addr().As4()[3] <= 2) != (to.Addr().As4()[3] <= 2)
		}
		for _, d := range []time.Duration{8 * time.Second, 40 * time.Second, 200 * time.Second, 10 * time.Minute} {
			fn.set(0, split)
			time.Sleep(d)
			fn.set(0, nil)
			healed := until(t, time.Minute, func() bool { return allHeard(hosts, all, time.Now().Add(-d/2)) })
			t.Logf("cut of %s: healed after %s", d, healed)
			if healed > 8*time.Second {
				t.Errorf("cut of %s: healed only after %s", d, healed)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// When a cut heals, what its queues kept arrives first: handshakes of both
// sides cross, and each device takes its answer for an attempt of its own.
func TestBubbleCrossing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(29)
		hosts, members := fakeHosts(t, 3, fn, false)
		var all []*ears
		for _, h := range hosts {
			h.mustSet(t, members)
			all = append(all, h.heartbeats(t, hosts, time.Second))
		}
		time.Sleep(5 * time.Second)
		var worst time.Duration
		for d := 185 * time.Second; d <= 230*time.Second; d += 3 * time.Second {
			fn.keepLast(func(from, to netip.AddrPort) bool {
				return from.Addr().As4()[3] == 1 || to.Addr().As4()[3] == 1
			})
			time.Sleep(d)
			healed := time.Now()
			fn.resume()
			worst = max(worst, until(t, time.Minute, func() bool { return allHeard(hosts, all, healed) }))
			time.Sleep(30 * time.Second)
		}
		t.Logf("cuts of 185 to 230 s: healed after %s at most", worst)
		if worst > 5*time.Second {
			t.Errorf("healed only after %s", worst)
		}
	})
}

// A host whose address changes is found again, and a live endpoint that was
// learned is not overwritten by what is announced.
func TestBubbleRoam(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(5)
		hosts, members := fakeHosts(t, 3, fn, false)
		var all []*ears
		for _, h := range hosts {
			h.mustSet(t, members)
			all = append(all, h.heartbeats(t, hosts, time.Second))
		}
		time.Sleep(10 * time.Second)
		moved := netip.MustParseAddrPort("198.51.100.9:4000")
		hosts[0].opts.bind.(*fakeBind).move(moved)
		at := time.Now()
		took := until(t, time.Minute, func() bool { return allHeard(hosts, all, at) })
		t.Logf("address changed: heard again after %s", took)
		if took > 5*time.Second {
			t.Errorf("took %s", took)
		}
		// What was under way at the move came from the old address.
		until(t, 5*time.Second, func() bool { return hosts[1].Observe()[0].Endpoint == moved })
		hosts[1].mustSet(t, members) // still announces the old address
		if got := hosts[1].Observe()[0].Endpoint; got != moved {
			t.Errorf("endpoint is %s, want the learned %s", got, moved)
		}
		at = time.Now()
		until(t, 5*time.Second, func() bool { return allHeard(hosts, all, at) })
	})
}

// A fifth of all packets lost for five minutes: nobody is silent for long.
func TestBubbleLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(11)
		fn.set(0.2, nil)
		hosts, members := fakeHosts(t, 5, fn, false)
		var all []*ears
		begin := time.Now()
		for _, h := range hosts {
			h.mustSet(t, members)
			all = append(all, h.heartbeats(t, hosts, time.Second))
		}
		first := until(t, time.Minute, func() bool { return allHeard(hosts, all, begin) })
		var worst time.Duration
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			for i, e := range all {
				for j, o := range hosts {
					if i != j {
						worst = max(worst, time.Since(e.heard(o.node)))
					}
				}
			}
		}
		t.Logf("20 %% loss: full mesh after %s, longest silence %s", first, worst)
		if worst > 20*time.Second {
			t.Errorf("silent for %s", worst)
		}
	})
}

// The peer comes up long after it was added, whichever side starts.
func TestBubbleLateStart(t *testing.T) {
	for _, late := range []int{0, 1} {
		bubble(t, func(t *testing.T) {
			fn := newFakeNet(13)
			hosts, members := fakeHosts(t, 2, fn, false)
			early := hosts[1-late]
			early.mustSet(t, members)
			all := []*ears{nil, nil}
			all[1-late] = early.heartbeats(t, hosts, time.Second)
			time.Sleep(3*time.Minute + 700*time.Millisecond)
			begin := time.Now()
			hosts[late].mustSet(t, members)
			all[late] = hosts[late].heartbeats(t, hosts, time.Second)
			took := until(t, 10*time.Second, func() bool { return allHeard(hosts, all, begin) })
			t.Logf("late host starts=%t: heard after %s", hosts[late].Observe()[0].Initiator, took)
			if took > 4*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// A dead peer is not given up and does not cost much.
func TestBubbleDeadPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(17)
		hosts, members := fakeHosts(t, 2, fn, false)
		a := hosts[0]
		gone := newHost(t, 9, nil)
		members[1] = gone.member(netip.MustParseAddrPort("192.0.2.99:1"), netip.MustParseAddrPort("192.0.2.98:1"))
		a.mustSet(t, members)
		a.heartbeats(t, []*host{a, gone}, time.Second)
		time.Sleep(20 * time.Minute)
		p := a.Observe()[0]
		c := a.snap.Load().counters
		t.Logf("20 min: %d packets sent, %d attempts, %d held, %d dropped", fn.sent, p.Attempts, c.Held, c.Dropped)
		if p.Live || p.Reachable || p.Attempts < 20 {
			t.Errorf("%+v", p)
		}
		if c.Held-c.Dropped > device.MaxHeld {
			t.Errorf("%d packets wait", c.Held-c.Dropped)
		}
		if fn.sent > 20*60/3 {
			t.Errorf("%d packets to a dead peer in 20 min", fn.sent)
		}
	})
}

// A host whose clock was set back: what it starts looks like a replay to peers
// that have seen it start handshakes later. After the wait of the higher key
// the other side starts, and that works.
func TestBubbleClockBack(t *testing.T) {
	const ahead = time.Hour
	early, late := 1, 2 // by key
	if newHost(t, 2, nil).Key().Less(newHost(t, 1, nil).Key()) {
		early, late = 2, 1
	}
	var initiation []byte
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(31)
		hosts, members := fakeHosts(t, 2, fn, false)
		fn.tap = func(_, _ netip.AddrPort, p []byte) {
			if p[0] == 1 && initiation == nil {
				initiation = slices.Clone(p)
			}
		}
		time.Sleep(ahead)
		hosts[early-1].mustSet(t, members)
		until(t, time.Second, func() bool { fn.mu.Lock(); defer fn.mu.Unlock(); return initiation != nil })
	})
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(37)
		hosts, members := fakeHosts(t, 2, fn, false)
		started := map[netip.AddrPort]int{}
		fn.tap = func(from, _ netip.AddrPort, p []byte) {
			if p[0] == 1 {
				started[from]++
			}
		}
		a, b := hosts[early-1], hosts[late-1]
		aBind, bBind := a.opts.bind.(*fakeBind), b.opts.bind.(*fakeBind)
		b.mustSet(t, members)
		bBind.deliver(aBind.addr, initiation) // b has seen a's clock an hour ahead
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		a.mustSet(t, members)
		all := []*ears{hosts[0].heartbeats(t, hosts, time.Second), hosts[1].heartbeats(t, hosts, time.Second)}
		took := until(t, 30*time.Second, func() bool { return allHeard(hosts, all, begin) })
		fn.mu.Lock()
		defer fn.mu.Unlock()
		t.Logf("clock set back by %s: heard after %s, handshakes started: %d in vain, %d by the other side",
			ahead, took, started[aBind.addr], started[bBind.addr])
		if started[aBind.addr] < 2 || started[bBind.addr] == 0 || took > 5*time.Second {
			t.Error("the other side should have started, after a few tries in vain and within 5 s")
		}
	})
}

// The one candidate of five that works is found in one turn, and the endpoints
// in use are what a host remembers for its next start.
func TestBubbleAllCandidates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fn := newFakeNet(41)
		hosts, members := fakeHosts(t, 2, fn, false)
		for i := range members {
			right := members[i].Endpoints
			members[i].Endpoints = nil
			for j := range 4 {
				members[i].Endpoints = append(members[i].Endpoints, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + 4*i + j)}), 1))
			}
			members[i].Endpoints = append(members[i].Endpoints, right...)
		}
		begin := time.Now()
		var all []*ears
		for _, h := range hosts {
			h.mustSet(t, members)
			all = append(all, h.heartbeats(t, hosts, time.Second))
		}
		took := until(t, time.Minute, func() bool { return allHeard(hosts, all, begin) })
		t.Logf("the last of five candidates: heard after %s", took)
		if took > 4*(reach.RotateEvery+reach.RotateJitter)+time.Second {
			t.Errorf("took %s", took)
		}
		time.Sleep(2 * time.Second)
		want := hosts[1].opts.bind.(*fakeBind).addr
		if got := hosts[0].Endpoints()[hosts[1].node]; got != want {
			t.Errorf("in use is %s, want %s", got, want)
		}
	})
}
