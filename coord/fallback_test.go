package coord

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

const protoBulk = "bulk/1"

// onionPort is where hosts of a test have their onion services, on a network
// of their own.
const onionPort = 9001

// onions is a network of onion services: slow, and untouched by what happens
// to the mesh.
type onions struct {
	net   *simnet.Network
	addrs map[string]netip.Addr // by onion address
}

func newOnions() *onions {
	return &onions{net: simnet.New(7, simnet.Link{Delay: 50 * time.Millisecond, Jitter: 100 * time.Millisecond}), addrs: map[string]netip.Addr{}}
}

// give makes h one with an onion service.
func (o *onions) give(t *testing.T, h *host) {
	t.Helper()
	ann, err := member.ParseAnn(h.ann)
	if err != nil {
		t.Fatal(err)
	}
	ann.Onion = member.Onion(publicKey(seedKey("onion of " + string(h.node))))
	o.addrs[ann.Onion.String()] = h.addr
	if h.ann, err = ann.Sign(h.key); err != nil {
		t.Fatal(err)
	}
	h.known = h.records()
	h.tweak = func(opts *Options) {
		nh := o.net.Host(h.addr)
		ln, err := nh.Listen(onionPort)
		if err != nil {
			t.Fatal(err)
		}
		opts.Fallback = &transport.Fallback{
			Listener: ln, Bulk: []string{protoBulk},
			Dial: func(ctx context.Context, _ cluster.NodeID, onion string) (net.Conn, error) {
				return nh.Dial(ctx, netip.AddrPortFrom(o.addrs[onion], onionPort))
			},
		}
	}
}

// threeOnions is three with an onion service each.
func (w *world) threeOnions(o *onions) (a, b, c *host) {
	w.t.Helper()
	return w.threeWith(func(h *host) { o.give(w.t, h) })
}

func (w *world) cutMesh() {
	for i, a := range w.order {
		for _, b := range w.order[i+1:] {
			w.net.CutBoth(w.hosts[a].addr, w.hosts[b].addr)
		}
	}
}

// onPath reports whether all hosts reach all others that way.
func (w *world) onPath(way path.Way) bool {
	for _, n := range w.order {
		s := w.hosts[n].svc
		if s == nil {
			continue
		}
		for _, m := range s.View().Members {
			if m.Node != n && (m.Health != cluster.Alive || m.Path != string(way)) {
				return false
			}
		}
	}
	return true
}

// TestFallback: the mesh is cut between all hosts. They go on over onion
// services, alive to each other, with a holder, with streams and with records
// that spread; what is too big waits. When the mesh is back they return to it.
func TestFallback(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w, o := newWorld(t, cluster.ProfileLAN, 1, lan), newOnions()
		a, b, c := w.threeOnions(o)
		defer w.stopAll()
		served := make(chan cluster.NodeID, 8)
		for _, h := range []*host{a, b, c} {
			h.svc.Handle(protoEcho, echo(served))
			h.svc.Handle(protoBulk, echo(served))
		}
		if !w.onPath(path.Direct) {
			t.Fatal("not direct at first")
		}
		w.cutMesh()
		took := w.until("everyone over onions", 30*time.Second, func() bool { return w.onPath(path.Onion) })
		t.Logf("over onion services %s after the cut", took)
		w.until("a holder over onions", 60*time.Second, func() bool { return w.holder() != "" })

		// Alive stays alive, and no host ever was dead.
		for range 120 {
			time.Sleep(time.Second)
			if !w.onPath(path.Onion) {
				t.Fatal("a host is not alive over onion services")
			}
			if len(w.acters()) > 1 {
				t.Fatal("two hosts may act")
			}
		}
		conn, err := a.svc.Dial(t.Context(), b.node, protoEcho)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, conn, 100_000)
		conn.Close()
		if got := <-served; got != a.node {
			t.Errorf("served %s", got)
		}
		if _, err := a.svc.Dial(t.Context(), b.node, protoBulk); !errors.Is(err, transport.ErrBulk) {
			t.Errorf("bulk over an onion service: %v", err)
		}

		// A record that only one host got reaches all.
		d := w.add("host-d", 40)
		if err := c.svc.AddRecords(t.Context(), d.records()); err != nil {
			t.Fatal(err)
		}
		w.until("the record of d is everywhere", 90*time.Second, func() bool {
			for _, h := range []*host{a, b, c} {
				if _, ok := h.svc.View().Member(d.node); !ok {
					return false
				}
			}
			return true
		})
		w.order = w.order[:3] // d never runs
		w.net.Heal()
		took = w.until("back on the mesh", 30*time.Second, func() bool {
			for _, n := range w.order {
				for _, m := range w.hosts[n].svc.View().Members {
					if m.Node != n && m.Node != d.node && (m.Health != cluster.Alive || m.Path != string(path.Direct)) {
						return false
					}
				}
			}
			return true
		})
		t.Logf("back on the mesh %s after it healed", took)
		w.until("streams that nobody needs are closed", 3*time.Minute, func() bool {
			n := 0
			for _, h := range []*host{a, b, c} {
				n += int(h.gauge("skein_coord_onion_streams"))
			}
			return n == 0
		})
		for _, h := range []*host{a, b, c} {
			for _, reason := range []wire.Reason{wire.ReasonReplay, wire.ReasonSource, wire.ReasonSignature, wire.ReasonClock} {
				if n := h.rejected(string(reason)); n > 0 {
					t.Errorf("%s refused %d messages: %s", h.node, n, reason)
				}
			}
		}
	})
}

// TestFallbackOneWay: b hears a, a does not hear b. Both use the stream.
func TestFallbackOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := newWorld(t, cluster.ProfileLAN, 2, lan), newOnions()
		a, b, c := w.threeOnions(o)
		defer w.stopAll()
		w.net.Cut(b.addr, a.addr)
		way := func(from, to *host) string {
			m, _ := from.svc.View().Member(to.node)
			return m.Path
		}
		w.until("a and b over onions", 30*time.Second, func() bool { return way(a, b) == "onion" && way(b, a) == "onion" })
		for range 60 {
			time.Sleep(time.Second)
			if !w.allHealthy() || way(a, b) != "onion" || way(b, a) != "onion" {
				t.Fatal("the two lost each other")
			}
		}
		if way(a, c) != "direct" || way(c, b) != "direct" {
			t.Errorf("c is reached by %s and %s", way(a, c), way(c, b))
		}
		w.net.Heal()
		w.until("direct again", 30*time.Second, func() bool { return w.onPath(path.Direct) })
	})
}

// allHealthy reports whether every running host sees every other alive.
func (w *world) allHealthy() bool {
	for _, n := range w.order {
		for _, m := range w.hosts[n].svc.View().Members {
			if m.Health != cluster.Alive {
				return false
			}
		}
	}
	return true
}

// TestFallbackRestart: a host that starts while the mesh is cut, and so never
// was heard, is found over its onion service; one that dies is dead.
func TestFallbackRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := newWorld(t, cluster.ProfileLAN, 3, lan), newOnions()
		_, _, c := w.threeOnions(o)
		defer w.stopAll()
		w.cutMesh()
		w.until("everyone over onions", 30*time.Second, func() bool { return w.onPath(path.Onion) })
		o.net.Host(c.addr).Crash()
		c.crash()
		health := func(h cluster.Health) bool {
			for _, n := range w.order[:2] {
				if m, _ := w.hosts[n].svc.View().Member(c.node); m.Health != h || m.Path != "" {
					return false
				}
			}
			return true
		}
		w.until("c is suspect", 30*time.Second, func() bool { return health(cluster.Suspect) })
		w.until("c is dead", 3*time.Minute, func() bool { return health(cluster.Dead) })
		o.net.Host(c.addr).Start()
		c.restart()
		w.until("c is back", 2*time.Minute, func() bool { return w.onPath(path.Onion) })
	})
}

// TestOnionStrangers: who comes through the onion service without a member's
// key is refused, whatever it sends, and a flood of silent ones keeps no member
// out.
func TestOnionStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := newWorld(t, cluster.ProfileLAN, 4, lan), newOnions()
		a, b, _ := w.threeOnions(o)
		defer w.stopAll()
		outside := o.net.Host(netip.MustParseAddr("10.9.9.9"))
		target := netip.AddrPortFrom(a.addr, onionPort)
		dial := func() net.Conn {
			c, err := outside.Dial(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		shake := func(key ed25519.PrivateKey, protos ...string) error {
			raw := dial()
			defer raw.Close()
			c := tls.Client(raw, clientTLS(t, key, protos...))
			if err := c.HandshakeContext(t.Context()); err != nil {
				return err
			}
			_, err := c.Read(make([]byte, 1)) // TLS 1.3: a server refuses a client's key later
			return err
		}
		for name, err := range map[string]error{
			"stranger": shake(seedKey("mallory"), transport.ProtoOnion),
			"itself":   shake(a.key, transport.ProtoOnion),
			"bulk":     shake(b.key, protoBulk),
			"unknown":  shake(b.key, "no/1"),
		} {
			if err == nil || strings.Contains(err.Error(), "EOF") && name != "bulk" {
				t.Errorf("%s: %v", name, err)
			}
		}
		garbage := dial()
		if _, err := garbage.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		defer garbage.Close()

		// A member whose frames are none, or too many, loses its stream.
		for name, raw := range map[string][]byte{
			"length 0":    {0, 0, 0, 0},
			"huge length": {255, 255, 255, 255, 1},
			"bad ping":    {0, 0, 0, 2, 2, 9},
			"flood":       []byte(strings.Repeat("\x00\x00\x00\x02\x01x", linkFlood)),
		} {
			conn := dial()
			var err error
			c := tls.Client(conn, clientTLS(t, b.key, transport.ProtoOnion))
			if err := c.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(raw); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			for err == nil {
				_, err = c.Read(make([]byte, 64))
			}
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				t.Errorf("%s: the stream lives on", name)
			}
			conn.Close()
			time.Sleep(10 * time.Second)
		}

		var flood []net.Conn
		for range 4 * maxNameless {
			flood = append(flood, dial())
		}
		w.cutMesh()
		w.until("everyone over onions in spite of the flood", 60*time.Second, func() bool { return w.onPath(path.Onion) })
		for _, c := range flood {
			c.Close()
		}
	})
}
