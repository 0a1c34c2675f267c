package coord

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

// roaming is the socket of one address that two processes use, as WireGuard
// has it: both may send, and what comes goes to the one that sent last.
type roaming struct {
	net.PacketConn

	mu   sync.Mutex
	last *roamingEnd
}

type roamingEnd struct {
	*roaming
	in     chan roamingPacket // capacity 64; what does not fit is lost
	closed chan struct{}
	once   sync.Once
}

type roamingPacket struct {
	data []byte
	from net.Addr
}

func roam(t *testing.T, pc net.PacketConn) (r *roaming) {
	r = &roaming{PacketConn: pc}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, wire.MaxProbe)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			r.mu.Lock()
			to := r.last
			r.mu.Unlock()
			if to == nil {
				continue
			}
			select {
			case to.in <- roamingPacket{slices.Clone(buf[:n]), from}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
	return r
}

func (r *roaming) end() *roamingEnd {
	return &roamingEnd{roaming: r, in: make(chan roamingPacket, 64), closed: make(chan struct{})}
}

func (e *roamingEnd) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-e.in:
		return copy(b, p.data), p.from, nil
	case <-e.closed:
		return 0, nil, net.ErrClosed
	}
}

func (e *roamingEnd) WriteTo(b []byte, to net.Addr) (int, error) {
	e.mu.Lock()
	e.last = e
	e.mu.Unlock()
	return e.PacketConn.WriteTo(b, to)
}

func (e *roamingEnd) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

// TestTwoProcessesOfOneHost: the disk of a voter is copied and started
// elsewhere. Everyone takes the same one of the two, says so, and nothing flaps;
// the other one learns that it does not count.
func TestTwoProcessesOfOneHost(t *testing.T) {
	for _, counters := range [][2]uint64{{5, 6}, {5, 5}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, 1, lan)
			a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
			b.knows(a)
			c.knows(a)
			pc, err := w.net.Host(b.addr).ListenPacket(Port)
			if err != nil {
				t.Fatal(err)
			}
			socket := roam(t, pc)
			var mu sync.Mutex
			found := make(map[cluster.NodeID][]uint64)
			watch := func(h *host) {
				h.tweak = func(o *Options) {
					o.OnDuplicate = func(node cluster.NodeID, boot uint64) {
						mu.Lock()
						defer mu.Unlock()
						if node == b.node {
							found[h.node] = append(found[h.node], boot)
						}
					}
				}
			}
			watch(a)
			watch(c)
			process := func(h *host, boot uint64, ln *simnet.Host) {
				t.Helper()
				o := h.baseOptions(boot)
				l, err := ln.Listen(Port)
				if err != nil {
					t.Fatal(err)
				}
				o.PacketConn, o.Listener, o.DialTCP = socket.end(), l, ln.Dial
				h.run(o)
			}
			a.founder = true
			a.start()
			w.until("the founder holds", 3*time.Second, func() bool { return w.holder(a.node) == a.node })
			c.start()
			process(b, MarkBoot(counters[0], 7), w.net.Host(b.addr))
			defer w.stopAll()
			for _, h := range []*host{b, c} {
				if err := a.svc.AddRecords(t.Context(), h.records()); err != nil {
					t.Fatal(err)
				}
			}
			w.until("three voters", 20*time.Second, func() bool { return w.voters(3) && w.allAlive() && w.holder() == a.node })
			time.Sleep(10 * time.Second)
			before, holder := a.state(), w.holder(a.node, c.node)

			twin := &host{
				w: w, node: b.node, addr: b.addr, key: b.key, store: &memStore{vote: b.store.vote, found: b.store.found},
				known: b.store.records, version: b.version, profile: b.profile, health: make(map[cluster.NodeID]cluster.Health),
			}
			twin.log.Store(&LogState{})
			process(twin, MarkBoot(counters[1], 9), w.net.Host(netip.MustParseAddr("10.0.0.200")))
			defer twin.stop()
			sees := func(h *host) bool {
				m, _ := h.svc.View().Member(b.node)
				return m.Duplicate
			}
			took := w.until("a and c see two", 30*time.Second, func() bool { return sees(a) && sees(c) })
			t.Logf("found after %s", took)
			// What is meant for b goes to whoever of the two sent last.
			w.until("the older process knows", 5*time.Minute, func() bool { return b.svc.View().Failing[identityCheck] != "" })
			w.until("the newer process knows that there are two", 5*time.Minute, func() bool {
				self, _ := twin.svc.View().Member(b.node)
				return self.Duplicate
			})
			watched := 40 * time.Second
			if prove() {
				watched = 10 * time.Minute
			}
			start := time.Now()
			for time.Since(start) < watched {
				time.Sleep(time.Second)
				if after := a.state(); after != before {
					t.Fatalf("changed\n%s\ninto\n%s", before, after)
				}
				if got := w.holder(a.node, c.node); got != holder || holder == "" {
					t.Fatalf("the lease went from %s to %q", holder, got)
				}
			}
			if !sees(a) || !sees(c) || b.svc.View().Failing[identityCheck] == "" || twin.svc.View().Failing[identityCheck] != "" {
				t.Errorf("a %t, c %t; the older fails %v, the newer %v", sees(a), sees(c), b.svc.View().Failing, twin.svc.View().Failing)
			}
			mu.Lock()
			want := []uint64{MarkBoot(counters[1], 9)}
			if !slices.Equal(found[a.node], want) || !slices.Equal(found[c.node], want) {
				t.Errorf("told %v, want %v once each", found, want)
			}
			mu.Unlock()
			if n := a.rejected(string(transport.ReasonDuplicate)); n < 20 {
				t.Errorf("%d messages of the older process counted", n)
			}
			twin.stop()
			time.Sleep(40 * time.Second)
			if m, _ := a.svc.View().Member(b.node); m.Health == cluster.Alive {
				t.Error("the older process counts again without a start")
			}
		})
	}
}

// TestRestartsAreNoDuplicates: what an earlier start left on the way is none.
func TestRestartsAreNoDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileFast, 1, simnet.Link{Delay: 400 * time.Millisecond, Jitter: 2 * time.Second, Loss: 0.1})
		a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
		for _, h := range []*host{a, b, c} {
			h.knows(a, b, c)
			h.founder = h == a
			h.start()
		}
		defer w.stopAll()
		for range 10 {
			time.Sleep(3 * time.Second)
			b.stop()
			b.restart()
		}
		time.Sleep(10 * time.Second)
		for _, h := range []*host{a, c} {
			if n := h.rejected(string(transport.ReasonDuplicate)); n != 0 || h.svc.View().Rejected["boot"] == 0 {
				t.Errorf("%s: %d duplicates of %v", h.node, n, h.svc.View().Rejected)
			}
		}
	})
}

// TestLiesAboutDuplicates: one host alone cannot make another believe that it
// does not count.
func TestLiesAboutDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := pair(t)
		b, c := a.Members.hosts.peers["host-b"], a.Members.hosts.peers["host-c"]
		for _, p := range []*peerState{b, c} {
			p.beatAt = a.now()
		}
		fails := func() bool {
			a.duplicates.judge(a.now())
			return a.Lease.elector.Failing()[identityCheck] != ""
		}
		b.twin.seenBoot = wire.MaxNumber
		if fails() || a.duplicates.own {
			t.Error("one of two was believed")
		}
		c.twin.seenBoot = a.duplicates.boot
		if fails() || !a.duplicates.own {
			t.Error("they agree on two processes, not on this one being the wrong one")
		}
		c.twin.seenBoot = a.duplicates.boot + 1
		if !fails() {
			t.Error("both were not believed")
		}
		b.twin.seenBoot, c.twin.seenBoot = 0, 0
		if fails() || a.duplicates.own {
			t.Error("still believed")
		}
	})
}

func TestMarkBoot(t *testing.T) {
	last := uint64(0)
	for _, counter := range []uint64{1, 2, 3, 1 << 31, 1<<37 - 2} {
		low, high := MarkBoot(counter, 0), MarkBoot(counter, 1<<32-1)
		if low <= last || high <= low || high > wire.MaxNumber {
			t.Errorf("counter %d: %d to %d, after %d", counter, low, high, last)
		}
		if firstBoot(low) != (counter == 1) || firstBoot(high) != (counter == 1) {
			t.Errorf("counter %d: first %t", counter, firstBoot(low))
		}
		last = high
	}
	if MarkBoot(1<<60, 5) > wire.MaxNumber || !firstBoot(1) || firstBoot(2) {
		t.Error("bounds")
	}
}
