package coord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// TestFloodsStarveNobody: somebody who can send from a member's address, and
// does not have its key, sends 10 000 datagrams a second for longer than hosts
// may be silent. Neither that member nor the others lose a heartbeat by it, the
// holder goes on, and nothing changes.
func TestFloodsStarveNobody(t *testing.T) {
	large(t)
	for name, flood := range map[string]func(*testing.T, *world, *host, *host, uint64) []byte{
		"forged heartbeats": func(t *testing.T, _ *world, a, b *host, n uint64) []byte {
			return seal(t, seedKey("mallory"), wire.Header{
				Node: b.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: MarkBoot(1+n%3, uint32(n)), Seq: n + 1,
			}, wire.Heartbeat{Role: cluster.RolePublisher, Version: "0.1.0", SentUS: 1})
		},
		"forged votes": func(t *testing.T, w *world, a, b *host, n uint64) []byte {
			return seal(t, seedKey("mallory"), wire.Header{
				Node: b.node, Time: time.Now().Unix(), Type: wire.TypeLeaseClaim, To: a.node, Boot: MarkBoot(1, uint32(n)), Seq: n + 1,
			}, claim(t, b, 1000, cluster.VoterConfig{}))
		},
		"strangers": func(t *testing.T, w *world, a, b *host, n uint64) []byte {
			return seal(t, seedKey("mallory"), wire.Header{
				Node: cluster.NodeID(fmt.Sprintf("host-%d", n)), Time: time.Now().Unix(), Type: wire.TypePeerAnnounce, To: a.node, Boot: 1, Seq: 1,
			}, wire.PeerAnnounce{ClusterToken: "v2:x", TunnelIP: b.addr, Cert: b.cert.String(), Ann: b.ann.String()})
		},
		"garbage": func(_ *testing.T, _ *world, _, _ *host, n uint64) []byte {
			return slices.Repeat([]byte{byte(n), '{', '['}, 300)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, cluster.ProfileFast, 1, lan)
				for i, h := range []*host{w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)} {
					h.boot = MarkBoot(1, uint32(77777*(i+1))) - 1 // start adds one
				}
				a, b, c := w.hosts["host-a"], w.hosts["host-b"], w.hosts["host-c"]
				w.join(a, b, c)
				defer w.stopAll()
				time.Sleep(2 * time.Second)
				before, term := a.state(), a.svc.View().Lease.Term
				seconds := 2 * time.Second
				if prove() {
					seconds = time.Minute
				}
				n := uint64(0)
				for start := time.Now(); time.Since(start) < seconds; {
					n++
					data := flood(t, w, a, b, n)
					for range 100 {
						w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), data)
					}
					time.Sleep(10 * time.Millisecond)
					if !a.svc.MayAct(term) {
						t.Fatal("the holder was kept from renewing")
					}
					for _, h := range []*host{b, c} {
						if m, _ := a.svc.View().Member(h.node); m.Health != cluster.Alive {
							t.Fatalf("%s is %s after %s: %v", h.node, m.Health, time.Since(start), a.svc.View().Rejected)
						}
					}
				}
				synctest.Wait()
				if after := a.state(); after != before {
					t.Errorf("changed\n%s\ninto\n%s", before, after)
				}
				refused := uint64(0)
				for _, count := range a.svc.View().Rejected {
					refused += count
				}
				if refused < n*100 || a.rejected("queue") != 0 {
					t.Errorf("%d refused of %d: %v", refused, n*100, a.svc.View().Rejected)
				}
				if got := a.rejected("signature"); float64(got) > otherBootBurst+otherBootRate*(seconds+10*time.Second).Seconds()+strangerBurst {
					t.Errorf("%d signatures were checked for it", got)
				}
			})
		})
	}
}

// join makes hosts one cluster, the first its founder.
func (w *world) join(hosts ...*host) {
	w.t.Helper()
	a := hosts[0]
	a.founder = true
	a.start()
	w.until("the founder holds", 3*time.Second, func() bool { return w.holder(a.node) == a.node })
	for _, h := range hosts[1:] {
		h.knows(a)
		h.start()
		if err := a.svc.AddRecords(context.Background(), h.records()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.until("all vote", time.Minute, func() bool { return w.voters(len(hosts)) && w.holder() == a.node && w.allAlive() })
}

// TestPullsWithoutEnd: a member that asks and asks, and one that never ends its
// question, get what is their share; the others are served.
func TestPullsWithoutEnd(t *testing.T) {
	for _, proto := range []string{gossip.Proto, share.Proto} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, 1, lan)
			a, b, c := w.three()
			defer w.stopAll()
			question := map[string]any{}
			ask := func(h *host) error {
				conn, err := h.svc.Dial(t.Context(), a.node, proto)
				if err != nil {
					return err
				}
				defer conn.Close()
				if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
					return err
				}
				if err := transport.WriteFrame(conn, question); err != nil {
					return err
				}
				var reply map[string]any
				return transport.ReadFrame(conn, 1<<20, &reply)
			}
			if err := ask(b); err != nil {
				t.Fatal(err)
			}
			busy := a.metric("skein_coord_stream_errors_total", "busy")
			var open []net.Conn
			for range 40 { // each begins a question and waits
				conn, err := c.svc.Dial(t.Context(), a.node, proto)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte{0, 0}); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Log(err)
				}
				open = append(open, conn)
			}
			time.Sleep(100 * time.Millisecond) // the last ones are on their way
			if got := a.metric("skein_coord_stream_errors_total", "busy") - busy; got != 38 {
				t.Errorf("%v of 40 streams refused, want 38", got)
			}
			if err := ask(b); err != nil {
				t.Errorf("another was not served: %v", err)
			}
			time.Sleep(10*time.Second + time.Second)
			if err := ask(b); err != nil {
				t.Errorf("another was not served: %v", err)
			}
			for _, conn := range open {
				_ = conn.Close() // the other end closed it
			}
			served := 0
			for start := time.Now(); time.Since(start) < 10*time.Second; {
				if ask(c) == nil {
					served++
				}
				time.Sleep(50 * time.Millisecond)
			}
			limits := map[string]transport.Limits{gossip.Proto: gossip.Limits, share.Proto: share.Limits}[proto]
			if most := limits.Burst + limits.Rate*11; float64(served) > most || served < 15 {
				t.Errorf("%d questions answered in 10 s, at most %v", served, most)
			}
			if err := ask(b); err != nil || w.holder() != a.node || !w.allAlive() {
				t.Errorf("afterwards: %v, holder %s", err, w.holder())
			}
		})
	}
}

// TestHandshakesWithoutEnd: a member opens connections and says nothing. It
// cannot take all places, and what it took it loses.
func TestHandshakesWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		var open []net.Conn
		for range 2 * maxHandshakes {
			conn, err := w.net.Host(c.addr).Dial(t.Context(), netip.AddrPortFrom(a.addr, Port))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
		synctest.Wait()
		conn, err := b.svc.Dial(t.Context(), a.node, share.Proto)
		if err != nil {
			t.Errorf("another host found no place: %v", err)
		} else {
			_ = conn.Close() // not used
		}
		time.Sleep(handshakeTimeout + time.Second)
		for _, conn := range open {
			_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // a stream always has deadlines
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error("a silent connection stayed open")
			}
			_ = conn.Close()
		}
	})
}
