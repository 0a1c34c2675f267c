package mesh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

func TestThreeHostsEcho(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	hosts := newCluster(t, 3, nil)
	for _, h := range hosts {
		eventually(t, string(h.node)+" reaches all", func() bool { return h.reached(2) })
	}
	t.Logf("3 devices, full mesh after %s", time.Since(begin).Round(time.Millisecond))
	for _, h := range hosts {
		h.serveEcho(t)
	}
	for _, a := range hosts {
		for _, b := range hosts {
			for _, to := range []netip.Addr{b.ip4, b.ip6} {
				if err := a.tcpEcho(t, to, strings.Repeat("hello ", 5000)); err != nil {
					t.Errorf("tcp %s to %s: %v", a.node, to, err)
				}
				if err := a.udpEcho(t, to, "hi", time.Second, waitFor); err != nil {
					t.Errorf("udp %s to %s: %v", a.node, to, err)
				}
			}
		}
	}
}

// One socket on all addresses serves both families of the underlay.
func TestUnderlayFamilies(t *testing.T) {
	t.Parallel()
	probe, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	probe.Close()
	all := func(o *Options) { o.Listen = netip.MustParseAddrPort("[::]:0") }
	for _, at := range []string{"127.0.0.1", "::1"} {
		a, b := newHost(t, 1, all), newHost(t, 2, all)
		a.start(t)
		b.start(t)
		b.mustSet(t, []cluster.Member{a.member(), b.member()})
		b.serveEcho(t)
		to := netip.AddrPortFrom(netip.MustParseAddr(at), b.ListenPort())
		a.mustSet(t, []cluster.Member{a.member(), b.member(to)})
		if err := a.tcpEcho(t, b.ip6, "hello"); err != nil {
			t.Errorf("over %s: %v", to, err)
		}
		if got := a.Observe()[0].Endpoint; got != to {
			t.Errorf("endpoint is %s, want %s", got, to)
		}
	}
}

// A packet written before there is a session arrives once there is one.
func TestFirstPacketIsHeld(t *testing.T) {
	t.Parallel()
	a, b := newHost(t, 1, nil), newHost(t, 2, nil)
	a.start(t)
	b.start(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	b.mustSet(t, members[1:])
	b.serveEcho(t)
	a.mustSet(t, members)
	got := make(chan error, 1)
	go func() { got <- a.udpEcho(t, b.ip4, "early", waitFor, waitFor) }()
	eventually(t, "packet held", func() bool { return a.snap.Load().counters.Held > 0 })
	b.mustSet(t, members)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if n := a.snap.Load().counters.Dropped; n != 0 {
		t.Errorf("%d packets dropped", n)
	}
}

func TestRestartHeals(t *testing.T) {
	t.Parallel()
	hosts := newCluster(t, 3, nil)
	for _, h := range hosts {
		h.serveEcho(t)
		eventually(t, "mesh", func() bool { return h.reached(2) })
	}
	// The same key on the same port, once as each role of a pair.
	for i := range hosts {
		h := hosts[i]
		members := []cluster.Member{}
		for _, o := range hosts {
			members = append(members, o.member(o.loopback()))
		}
		at := h.loopback()
		h.stop(t)
		again := newHost(t, i+1, func(o *Options) { o.Listen = at })
		again.start(t)
		begin := time.Now()
		again.mustSet(t, members)
		again.serveEcho(t)
		hosts[i] = again
		for j, o := range hosts {
			if j == i {
				continue
			}
			if err := o.udpEcho(t, again.ip4, "back?", 50*time.Millisecond, waitFor); err != nil {
				t.Fatal(err)
			}
			if err := again.tcpEcho(t, o.ip4, "I am back"); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s restarted: healed after %s", h.node, time.Since(begin).Round(time.Millisecond))
	}
}

func TestRemovedPeerIsGone(t *testing.T) {
	t.Parallel()
	hosts := newCluster(t, 2, nil)
	a, b := hosts[0], hosts[1]
	b.serveEcho(t)
	if err := a.tcpEcho(t, b.ip4, "x"); err != nil {
		t.Fatal(err)
	}
	a.mustSet(t, []cluster.Member{a.member()})
	if ps := a.Observe(); len(ps) != 0 {
		t.Fatalf("peers left: %+v", ps)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := a.Dial(ctx, netip.AddrPortFrom(b.ip4, 7)); err == nil {
		c.Close()
		t.Error("connected to a removed peer")
	}
	// And back again.
	a.mustSet(t, []cluster.Member{a.member(a.loopback()), b.member(b.loopback())})
	if err := a.tcpEcho(t, b.ip4, "x"); err != nil {
		t.Fatal(err)
	}
}

// The first candidate is wrong: the next one is tried.
func TestCandidatesRotate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 6 s")
	}
	a, b := newHost(t, 1, nil), newHost(t, 2, nil)
	a.start(t)
	b.start(t)
	nobody, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	wrong := netip.MustParseAddrPort(nobody.LocalAddr().String())
	a.mustSet(t, []cluster.Member{a.member(), b.member(wrong, b.loopback())})
	b.mustSet(t, []cluster.Member{b.member(), a.member()}) // knows no endpoint at all
	eventually(t, "reached over the second candidate", func() bool { return a.reached(1) && b.reached(1) })
	if got := a.Observe()[0].Endpoint; got != b.loopback() {
		t.Errorf("endpoint is %s, want %s", got, b.loopback())
	}
}

func TestKeepaliveAfterHandshake(t *testing.T) {
	t.Parallel()
	a, b := newHost(t, 1, nil), newHost(t, 2, nil)
	a.start(t)
	b.start(t)
	nat := b.member(b.loopback())
	nat.NAT = true
	a.mustSet(t, []cluster.Member{a.member(a.loopback()), nat})
	if got := a.Observe()[0].Keepalive; got != 0 {
		t.Fatalf("keepalive before the handshake: %s", got)
	}
	b.mustSet(t, []cluster.Member{a.member(a.loopback()), nat})
	eventually(t, "keepalive", func() bool { return a.Observe()[0].Keepalive == topo.NATKeepalive })
	if err := b.udpEchoFromPeer(t, a); err != nil {
		t.Error(err)
	}
}

func (h *host) udpEchoFromPeer(t *testing.T, server *host) error {
	server.serveEcho(t)
	return h.udpEcho(t, server.ip4, "x", time.Second, waitFor)
}

func TestMTUChange(t *testing.T) {
	hosts := newCluster(t, 2, nil)
	a, b := hosts[0], hosts[1]
	b.serveEcho(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	for _, mtu := range []int{1280, 4000} {
		for _, h := range hosts {
			h.mtu = mtu
			h.mustSet(t, members)
			if h.MTU() != mtu {
				t.Fatalf("mtu is %d, want %d", h.MTU(), mtu)
			}
		}
		if err := a.tcpEcho(t, b.ip4, strings.Repeat("x", 100_000)); err != nil {
			t.Fatalf("mtu %d: %v", mtu, err)
		}
	}
}

func TestPortConflict(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := netip.MustParseAddrPort(taken.LocalAddr().String())
	h := newHost(t, 1, func(o *Options) { o.Listen = at })
	err = h.Run(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), at.String()) {
		t.Fatalf("%v, want address already in use at %s", err, at)
	}
	if err := h.Set(t.Context(), h.desired([]cluster.Member{h.member()})); !errors.Is(err, ErrClosed) {
		t.Errorf("set after a failed run: %v", err)
	}

	// A running device that is asked to move there stays where it is.
	h = newHost(t, 1, nil)
	h.start(t)
	was := h.ListenPort()
	want := h.desired([]cluster.Member{h.member()})
	want.Port = at.Port()
	if err := h.Set(t.Context(), want); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("set: %v, want address already in use", err)
	}
	if got := h.ListenPort(); got != was {
		t.Errorf("port is %d, want %d", got, was)
	}
}

func TestSetRefuses(t *testing.T) {
	a := newHost(t, 1, nil)
	a.start(t)
	b, c := newHost(t, 2, nil), newHost(t, 3, nil)
	want := a.desired([]cluster.Member{a.member(), b.member()})

	foreign := want
	foreign.Key = b.Key()
	if err := a.Set(t.Context(), foreign); err == nil {
		t.Error("another host's key was accepted")
	}
	small := want
	small.MTU = 100
	if err := a.Set(t.Context(), small); !errors.Is(err, topo.ErrDesired) {
		t.Errorf("mtu 100: %v", err)
	}
	// Own key and a stolen address are refused, the rest is carried out.
	greedy := want
	greedy.Peers = append(greedy.Peers,
		topo.Peer{Node: "self", Key: a.Key()},
		topo.Peer{Node: "n3", Key: c.Key(), Allowed: []netip.Prefix{topo.HostPrefix(b.ip4), topo.HostPrefix(c.ip4)}})
	err := a.Set(t.Context(), greedy)
	var refused *RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, ErrRefused) || len(refused.Refusals) != 2 {
		t.Fatalf("%v, want two refusals", err)
	}
	ps := a.Observe()
	if len(ps) != 2 || len(ps[0].Allowed) != 2 || len(ps[1].Allowed) != 1 {
		t.Errorf("peers: %+v", ps)
	}
}

func TestNewRefuses(t *testing.T) {
	good := Options{Backend: device.BackendNetstack, PrivateKey: [32]byte{1}, Listen: netip.MustParseAddrPort("127.0.0.1:0")}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"key missing":    func(o *Options) { o.PrivateKey = [32]byte{} },
		"listen missing": func(o *Options) { o.Listen = netip.AddrPort{} },
		"multicast":      func(o *Options) { o.Listen = netip.MustParseAddrPort("224.0.0.1:1") },
		"mtu":            func(o *Options) { o.MTU = 9000 },
		"long interface": func(o *Options) { o.Interface = "skein0123456789x" },
		"odd interface":  func(o *Options) { o.Interface = "skein/0" },
		"dot interface":  func(o *Options) { o.Interface = ".." },
		"network":        func(o *Options) { o.Networks = []netip.Prefix{netip.MustParsePrefix("10.86.0.1/16")} },
		"all networks":   func(o *Options) { o.Networks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, backend := range []string{"", "Kernel", "boringtun"} {
		o := good
		o.Backend = backend
		if _, err := New(o); !errors.Is(err, ErrBackend) || !strings.Contains(err.Error(), "this build has auto, kernel, tun, netstack") {
			t.Errorf("backend %q: %v", backend, err)
		}
	}
}

func TestRunOnce(t *testing.T) {
	h := newHost(t, 1, nil)
	h.start(t)
	if err := h.Run(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("second run: %v", err)
	}
	h.stop(t)
	if _, err := h.Dial(t.Context(), netip.MustParseAddrPort("10.0.0.1:1")); !errors.Is(err, ErrClosed) {
		t.Errorf("dial after the end: %v", err)
	}
}

func TestNotReady(t *testing.T) {
	h := newHost(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Listen(ctx, netip.AddrPortFrom(h.ip4, 7)); !errors.Is(err, context.Canceled) {
		t.Errorf("listen before run: %v", err)
	}
	if err := h.Set(ctx, h.desired([]cluster.Member{h.member()})); !errors.Is(err, context.Canceled) {
		t.Errorf("set before run: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	hosts := newCluster(t, 2, nil)
	a, b := hosts[0], hosts[1]
	l, err := b.Listen(t.Context(), netip.AddrPortFrom(b.ip4, 9))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 9))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}

	// Nobody answers a read, nobody drains a write.
	for what, f := range map[string]func() error{
		"read": func() error { _, err := c.Read(make([]byte, 1)); return err },
		"write": func() error {
			var err error
			for err == nil {
				_, err = c.Write(make([]byte, 1<<16))
			}
			return err
		},
	} {
		if err := c.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		err := f()
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s past its deadline: %v", what, err)
		}
	}
	// The other host vanishes without a word: the deadline still holds.
	b.stop(t)
	if err := c.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a dead host: %v", err)
	}
	if c.RemoteAddr() == nil || c.LocalAddr() == nil {
		t.Error("addresses forgotten")
	}
}

// Close, of the socket or of the mesh, frees those who wait.
func TestCloseFreesWaiters(t *testing.T) {
	for _, whole := range []bool{false, true} {
		hosts := newCluster(t, 2, nil)
		a, b := hosts[0], hosts[1]
		l, err := b.Listen(t.Context(), netip.AddrPortFrom(b.ip4, 9))
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 9))
		if err != nil {
			t.Fatal(err)
		}
		al, err := a.Listen(t.Context(), netip.AddrPortFrom(a.ip4, 9))
		if err != nil {
			t.Fatal(err)
		}
		pc, err := a.ListenPacket(t.Context(), netip.AddrPortFrom(a.ip4, 9))
		if err != nil {
			t.Fatal(err)
		}
		type end struct {
			what string
			err  error
		}
		waiting := make(chan string, 3)
		ends := make(chan end, 3)
		wait := func(what string, f func() error) {
			go func() {
				waiting <- what
				ends <- end{what, f()}
			}()
		}
		wait("read", func() error { _, err := c.Read(make([]byte, 1)); return err })
		wait("accept", func() error { _, err := al.Accept(); return err })
		wait("receive", func() error { _, _, err := pc.ReadFrom(make([]byte, 1)); return err })
		for range 3 {
			<-waiting
		}
		if whole {
			a.stop(t)
		} else {
			for _, x := range []interface{ Close() error }{c, al, pc} {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		for range 3 {
			select {
			case e := <-ends:
				if !errors.Is(e.err, net.ErrClosed) {
					t.Errorf("whole=%t: %s: %v, want net.ErrClosed", whole, e.what, e.err)
				}
			case <-time.After(waitFor):
				t.Fatalf("whole=%t: someone still waits", whole)
			}
		}
		l.Close()
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	a := newHost(t, 1, func(o *Options) { o.Registerer = reg })
	b := newHost(t, 2, nil)
	a.start(t)
	b.start(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	a.mustSet(t, members)
	b.mustSet(t, members)
	eventually(t, "mesh", func() bool { return a.reached(1) })
	gather := func() map[string]float64 {
		fams, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range fams {
			for _, m := range f.GetMetric() {
				key := f.GetName()
				for _, l := range m.GetLabel() {
					key += " " + l.GetName() + "=" + l.GetValue()
				}
				got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return got
	}
	// A device counts what it has sent, which its peer may answer before.
	for _, key := range []string{
		"skein_mesh_info backend=netstack",
		"skein_mesh_mtu_bytes",
		"skein_mesh_last_handshake_timestamp_seconds peer=n2",
		"skein_mesh_receive_bytes_total peer=n2",
		"skein_mesh_transmit_bytes_total peer=n2",
		"skein_mesh_peers state=reachable",
	} {
		eventually(t, key+" above 0", func() bool { return gather()[key] > 0 })
	}
	if _, err := New(Options{Backend: device.BackendNetstack, PrivateKey: a.key, Listen: a.opts.Listen, Registerer: reg}); err == nil {
		t.Error("registered twice")
	}
	a.stop(t)
	if fams, _ := reg.Gather(); len(fams) != 0 {
		t.Error("metrics outlive the mesh")
	}
}
