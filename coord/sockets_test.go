package coord

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
)

// loopback and mesh translate between a mesh address 10.x and the loopback address
// 127.x that stands for it: certificates do not name loopback addresses.
func loopback(a netip.Addr) netip.Addr { return first(a, 127) }

func mesh(a net.Addr) netip.AddrPort {
	ap := netip.MustParseAddrPort(a.String())
	return netip.AddrPortFrom(first(ap.Addr(), 10), ap.Port())
}

func first(a netip.Addr, b byte) netip.Addr {
	v := a.Unmap().As4()
	v[0] = b
	return netip.AddrFrom4(v)
}

type meshPackets struct{ net.PacketConn }

func (c meshPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	if err != nil {
		return n, from, err
	}
	return n, net.UDPAddrFromAddrPort(mesh(from)), nil
}

func (c meshPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	ap := netip.MustParseAddrPort(to.String())
	return c.PacketConn.WriteTo(b, net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback(ap.Addr()), ap.Port())))
}

type meshListener struct{ net.Listener }

func (l meshListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return meshConn{c}, nil
}

type meshConn struct{ net.Conn }

func (c meshConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(mesh(c.Conn.RemoteAddr())) }

// realHosts starts n services as one cluster on loopback sockets and the file
// store, on the real clock.
func realHosts(t *testing.T, n int) (w *world, hosts []*host, wait func(what string, f func() bool) time.Duration) {
	t.Helper()
	w = newWorld(t, cluster.ProfileFast, 1, simnet.Link{})
	var port uint16
	for i := range n {
		h := w.addAt(cluster.NodeID(fmt.Sprintf("host-%d", i)), uint32(10*(i+1)), netip.AddrFrom4([4]byte{10, 0, 77, byte(i + 1)}))
		h.founder = i == 0
		if i > 0 {
			h.knows(hosts[0])
		}
		hosts = append(hosts, h)
		o := h.baseOptions(MarkBoot(1, uint32(1000+i)))
		pc, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback(h.addr), port)))
		if err != nil {
			t.Skipf("no second loopback address: %v", err)
		}
		port = pc.LocalAddr().(*net.UDPAddr).AddrPort().Port() //nolint:errcheck // a UDP socket's
		ln, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback(h.addr), port)))
		if err != nil {
			t.Skipf("port %d is taken: %v", port, err)
		}
		h.port = port
		o.PacketConn, o.Listener, o.Port = meshPackets{pc}, meshListener{ln}, port
		o.DialTCP = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: loopback(h.addr).AsSlice()}}
			return d.DialContext(ctx, "tcp4", netip.AddrPortFrom(loopback(to.Addr()), to.Port()).String())
		}
		h.dir = t.TempDir()
		o.Store = store.New(h.dir, w.verify.Cluster, h.node)
		o.Timing = nil
		h.run(o)
		t.Cleanup(h.stop)
	}
	wait = func(what string, f func() bool) time.Duration {
		t.Helper()
		start := time.Now()
		for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
			if f() {
				tick.Stop()
				return time.Since(start)
			}
			if time.Since(start) > time.Minute { // a busy machine takes the clock's time too
				t.Fatalf("%s: not within a minute; %+v", what, hosts[n-1].svc.View().Lease)
			}
		}
	}
	wait("founder holds", func() bool { return len(w.acters()) == 1 })
	for _, h := range hosts[1:] {
		if err := hosts[0].svc.AddRecords(t.Context(), h.records()); err != nil {
			t.Fatal(err)
		}
	}
	return w, hosts, wait
}

// TestRealSockets runs three services on real sockets: they grow together, and
// when the first stops the second takes over.
func TestRealSockets(t *testing.T) {
	w, hosts, wait := realHosts(t, 3)
	grown := wait("three voters", func() bool { return w.voters(3) && w.allAlive() })
	for _, h := range hosts {
		// Another reader of the same files: the store itself is the service's. What
		// it reads while the service writes can be from before and after.
		wait("vote saved in "+filepath.Base(h.dir), func() bool {
			v, found, err := store.New(h.dir, w.verify.Cluster, h.node).LoadVote()
			return err == nil && found && slices.Contains(v.Config.Voters, hosts[2].node)
		})
	}
	wait("someone can take over", func() bool {
		m, ok := hosts[0].svc.View().Member(hosts[1].node)
		return ok && m.CaughtUp && m.Eligible
	})
	hosts[0].stop()
	took := wait("successor holds", func() bool { return w.holder(hosts[1].node, hosts[2].node) == hosts[1].node })
	t.Logf("three voters after %s; successor after %s", grown, took)
}

// TestRealFlood sends 10 000 datagrams a second from a member's address to the
// holder's socket: nobody is taken for dead by it. How long anything takes is
// not judged.
func TestRealFlood(t *testing.T) {
	w, hosts, wait := realHosts(t, 3)
	wait("three voters", func() bool { return w.voters(3) && w.allAlive() })
	a, b := hosts[0], hosts[1]
	from, err := net.DialUDP("udp4", &net.UDPAddr{IP: loopback(b.addr).AsSlice()},
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback(a.addr), a.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	seconds := 2
	if prove() {
		seconds = 20
	}
	n := uint64(0)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	dead := 0
	for range seconds * 100 {
		<-tick.C
		for range 100 {
			n++
			if n%100 > 1 {
				continue
			}
			beat := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: w.profile, Members: a.svc.View().Digest, SentUS: 1}
			if n%2 == 0 { // by its own key: more than its share
				onLoop(t, b, func() {
					for range 50 {
						_ = b.svc.net.Send(a.node, wire.TypeHeartbeat, beat) // lost if too many wait
					}
				})
				continue
			}
			data := seal(t, seedKey("mallory"), wire.Header{
				Node: b.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: MarkBoot(1, uint32(n)), Seq: n,
			}, beat)
			for range 50 {
				_, _ = from.Write(data) // lost if the socket is full
			}
		}
		for _, m := range a.svc.View().Members {
			if m.Health == cluster.Dead {
				dead++
			}
		}
	}
	v := a.svc.View()
	t.Logf("%d sent; refused %v", seconds*100*100, v.Rejected)
	if dead > 0 || v.Rejected["rate"]+v.Rejected["replay"] == 0 || v.Rejected["queue"] > 0 {
		t.Errorf("dead %d times, refused %v", dead, v.Rejected)
	}
	wait("all alive", w.allAlive)
}
