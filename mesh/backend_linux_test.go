package mesh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/mesh/netstack"
)

// Every backend passes the same cases. The host under test is on the backend,
// the others are netstack devices of the same process.

func TestNetstackBackend(t *testing.T) { suite(t, device.BackendNetstack) }

func TestTUNBackend(t *testing.T) {
	require.Need(t, require.TUN)
	if inNamespace(t) {
		suite(t, device.BackendTUN)
	}
}

func TestKernelBackend(t *testing.T) {
	require.Need(t, require.KernelWG)
	if inNamespace(t) {
		suite(t, device.BackendKernel)
	}
}

func suite(t *testing.T, backend string) {
	for _, c := range []struct {
		name string
		host bool // only of backends with an interface
		run  func(t *testing.T, backend string)
	}{
		{"Echo", false, caseEcho},
		{"OneAddress", false, caseOneAddress},
		{"LateStart", false, caseLateStart},
		{"Changes", false, caseChanges},
		{"Rotation", false, caseRotation},
		{"Close", false, caseClose},
		{"Restart", false, caseRestart},
		{"PortInUse", false, casePortInUse},
		{"ManyPeers", false, caseManyPeers},
		{"OtherProcess", true, caseOtherProcess},
		{"BoundSockets", true, caseBoundSockets},
		{"Foreign", true, caseForeign},
		{"Overlap", true, caseOverlap},
		{"Permission", true, casePermission},
		{"Vanished", true, caseVanished},
		{"Cleanup", true, caseCleanup},
		{"NoIPv6", true, caseNoIPv6},
	} {
		if c.host && backend == device.BackendNetstack {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			c.run(t, backend)
			t.Logf("%s %s: %s", backend, c.name, time.Since(begin).Round(time.Millisecond))
		})
	}
}

var testNetworks = []netip.Prefix{netip.MustParsePrefix("10.86.0.0/16"), netip.MustParsePrefix("fd00:86::/48")}

// on sets a host's backend.
func on(backend string) func(*Options) {
	return func(o *Options) {
		o.Backend, o.Interface, o.Networks = backend, "skt0", testNetworks
		if backend != device.BackendNetstack {
			o.Listen = netip.MustParseAddrPort("0.0.0.0:0")
		}
	}
}

// tidy removes the kernel's device when the test ends.
func tidy(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := hostnet.Cleanup(context.Background(), "skt0"); err != nil {
			t.Error(err)
		}
	})
}

// pair starts a host on the backend and one on netstack, each knowing the
// other. The host with number 2 has the lower key.
func pair(t testing.TB, backend string, first, second int) (a, b *host) {
	t.Helper()
	tidy(t)
	a, b = newHost(t, first, on(backend)), newHost(t, second, nil)
	a.start(t)
	b.start(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	a.mustSet(t, members)
	b.mustSet(t, members)
	return a, b
}

func bothReach(t *testing.T, a, b *host) {
	t.Helper()
	eventually(t, "both reached", func() bool { return a.reached(1) && b.reached(1) })
}

// Each is the one that starts the handshake once.
func caseEcho(t *testing.T, backend string) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		t.Run(itoa(order[0]), func(t *testing.T) {
			begin := time.Now()
			a, b := pair(t, backend, order[0], order[1])
			if a.Backend() != backend {
				t.Errorf("backend is %s", a.Backend())
			}
			a.serveEcho(t)
			b.serveEcho(t)
			if err := a.udpEcho(t, b.ip4, "first", 20*time.Millisecond, waitFor); err != nil {
				t.Fatal(err)
			}
			first := time.Since(begin)
			if limit := time.Second; first > 5*limit {
				t.Errorf("first packet after %s", first)
			}
			bothReach(t, a, b)
			t.Logf("both reached after %s", time.Since(begin).Round(time.Millisecond))
			for _, pair := range [][2]*host{{a, b}, {b, a}} {
				from, to := pair[0], pair[1]
				for _, addr := range []netip.Addr{to.ip4, to.ip6} {
					begin := time.Now()
					if err := from.tcpEcho(t, addr, string(make([]byte, 10000))); err != nil {
						t.Errorf("tcp %s to %s: %v", from.node, addr, err)
					}
					if err := from.udpEcho(t, addr, "hi", time.Second, waitFor); err != nil {
						t.Errorf("udp %s to %s: %v", from.node, addr, err)
					}
					if took := time.Since(begin); took > time.Second {
						t.Logf("%s to %s: %s", from.node, addr, took)
					}
				}
			}
			p := a.Observe()[0]
			if p.Rx == 0 || p.Tx == 0 || p.Endpoint != b.loopback() || p.LastHandshake.IsZero() {
				t.Errorf("peer is %+v", p)
			}
			t.Logf("initiator %v: first packet there and back %s after the first start", p.Initiator, first.Round(time.Millisecond))
		})
	}
}

// The underlay is one address; the kernel says that it listens on all.
func caseOneAddress(t *testing.T, backend string) {
	tidy(t)
	a, b := newHost(t, 1, func(o *Options) {
		on(backend)(o)
		o.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	}), newHost(t, 2, nil)
	a.start(t)
	b.start(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	a.mustSet(t, members)
	b.mustSet(t, members)
	b.serveEcho(t)
	for _, to := range []netip.Addr{b.ip4, b.ip6} {
		if err := a.tcpEcho(t, to, string(make([]byte, 10000))); err != nil {
			t.Error(err)
		}
	}
}

// The other host comes later: what was lost meanwhile does not cost the
// device's 5 s. A busy machine may, but not each time.
func caseLateStart(t *testing.T, backend string) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		took, most := time.Hour, 4*time.Second
		for try := 0; try < 3 && took > most; try++ {
			t.Run(itoa(order[0]), func(t *testing.T) { took = lateStart(t, backend, order) })
		}
		if took > most {
			t.Errorf("host %d first: took %s", order[0], took)
		}
	}
}

func lateStart(t *testing.T, backend string, order [2]int) time.Duration {
	t.Helper()
	tidy(t)
	a, b := newHost(t, order[0], on(backend)), newHost(t, order[1], nil)
	a.start(t)
	b.start(t)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	a.mustSet(t, members)
	eventually(t, "attempts", func() bool {
		ps := a.Observe()
		return len(ps) == 1 && (ps[0].Attempts > 1 || !ps[0].Initiator)
	})
	begin := time.Now()
	b.mustSet(t, members)
	b.serveEcho(t)
	if err := a.udpEcho(t, b.ip4, "hi", 20*time.Millisecond, waitFor); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

// The device follows what is wanted: MTU, addresses, port, peers.
func caseChanges(t *testing.T, backend string) {
	a, b := pair(t, backend, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}

	want := a.desired(members)
	want.MTU = 1300
	if err := a.Set(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if a.MTU() != 1300 {
		t.Errorf("mtu is %d", a.MTU())
	}
	if err := a.tcpEcho(t, b.ip4, string(make([]byte, 5000))); err != nil {
		t.Errorf("with another mtu: %v", err)
	}

	// Another pair of addresses, known to both.
	a.ip4, a.ip6 = netip.MustParseAddr("10.86.77.1"), netip.MustParseAddr("fd00:86::77")
	members = []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	b.mustSet(t, members)
	a.mustSet(t, members)
	if got, want := a.addresses(t), a.desired(members).Addrs; !slices.Equal(got, want) {
		t.Errorf("addresses are %s, want %s", got, want)
	}
	for _, to := range []netip.Addr{b.ip4, b.ip6} {
		if err := a.tcpEcho(t, to, "moved"); err != nil {
			t.Errorf("from another address: %v", err)
		}
	}
	if !a.Observe()[0].Live {
		t.Error("session lost over changes of addresses")
	}

	// A prefix less: the session stays.
	only4 := b.member(b.loopback())
	only4.IP6 = netip.Addr{}
	a.mustSet(t, []cluster.Member{a.member(), only4})
	if p := a.Observe()[0]; len(p.Allowed) != 1 || !p.Live {
		t.Errorf("peer with one address is %+v", p)
	}
	if err := a.tcpEcho(t, b.ip4, "still"); err != nil {
		t.Error(err)
	}

	port := freePort(t)
	want = a.desired(members)
	want.Port = port
	if err := a.Set(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if a.ListenPort() != port {
		t.Errorf("port is %d, want %d", a.ListenPort(), port)
	}
	if err := a.tcpEcho(t, b.ip4, "from another port"); err != nil {
		t.Error(err)
	}

	a.mustSet(t, members[:1])
	if ps := a.Observe(); len(ps) != 0 {
		t.Errorf("peers left: %+v", ps)
	}
	a.mustSet(t, members)
	if err := a.tcpEcho(t, b.ip4, "back"); err != nil {
		t.Error(err)
	}
}

// addresses of the device as of a new reading.
func (h *host) addresses(t *testing.T) []netip.Prefix {
	t.Helper()
	if h.Backend() == device.BackendNetstack {
		return h.sockets.(*netstack.Device).Addresses()
	}
	link, err := netlink.LinkByName("skt0")
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	var out []netip.Prefix
	for _, a := range addrs {
		p := netip.MustParsePrefix(a.IPNet.String())
		out = append(out, p)
	}
	return out
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	pc, err := net.ListenPacket("udp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// Both keys of a pair change while packets flow, the device's own and the
// peer's.
func caseRotation(t *testing.T, backend string) {
	a, b := pair(t, backend, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	for _, h := range []*host{a, b} {
		other := a
		if h == a {
			other = b
		}
		h.key[5] ^= 0xff
		if err := h.SetKey(t.Context(), h.key); err != nil {
			t.Fatal(err)
		}
		members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
		h.mustSet(t, members)
		other.mustSet(t, members)
		begin := time.Now()
		if err := a.udpEcho(t, b.ip4, "new key", 20*time.Millisecond, waitFor); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s has another key: healed after %s", h.node, time.Since(begin).Round(time.Millisecond))
	}
}

// Who waits at a socket is freed when the device goes.
func caseClose(t *testing.T, backend string) {
	a, b := pair(t, backend, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	before := descriptors(t)
	l, err := a.Listen(t.Context(), netip.AddrPortFrom(a.ip4, 80))
	if err != nil {
		t.Fatal(err)
	}
	pc, err := a.ListenPacket(t.Context(), netip.AddrPortFrom(a.ip4, 80))
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 7))
	if err != nil {
		t.Fatal(err)
	}
	freed := make(chan error, 3)
	go func() { _, err := l.Accept(); freed <- err }()
	go func() { _, _, err := pc.ReadFrom(make([]byte, 10)); freed <- err }()
	go func() { _, err := c.Read(make([]byte, 10)); freed <- err }()
	a.stop(t)
	for range 3 {
		select {
		case err := <-freed:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(waitFor):
			t.Fatal("somebody still waits")
		}
	}
	if _, err := a.Listen(t.Context(), netip.AddrPortFrom(a.ip4, 81)); !errors.Is(err, ErrClosed) {
		t.Errorf("listen on a closed mesh: %v", err)
	}
	if backend != device.BackendNetstack {
		eventually(t, "descriptors closed", func() bool { return descriptors(t) < before })
	}
}

// The same key on the same port, once as each role.
func caseRestart(t *testing.T, backend string) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		t.Run(itoa(order[0]), func(t *testing.T) {
			a, b := pair(t, backend, order[0], order[1])
			b.serveEcho(t)
			bothReach(t, a, b)
			at := netip.AddrPortFrom(netip.IPv4Unspecified(), a.ListenPort())
			members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
			a.stop(t)
			again := newHost(t, order[0], func(o *Options) {
				on(backend)(o)
				o.Listen = at
			})
			again.start(t)
			begin := time.Now()
			again.mustSet(t, members)
			if err := again.udpEcho(t, b.ip4, "back", 20*time.Millisecond, waitFor); err != nil {
				t.Fatal(err)
			}
			t.Logf("healed after %s", time.Since(begin).Round(time.Millisecond))
		})
	}
}

func casePortInUse(t *testing.T, backend string) {
	tidy(t)
	pc, err := net.ListenPacket("udp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	taken := pc.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	a := newHost(t, 1, func(o *Options) {
		on(backend)(o)
		o.Listen = netip.AddrPortFrom(netip.IPv4Unspecified(), taken)
	})
	err = a.Run(t.Context())
	if !errors.Is(err, device.ErrPortInUse) {
		t.Errorf("start on a taken port: %v", err)
	}
	t.Log(err)
	if backend != device.BackendNetstack {
		if _, err := netlink.LinkByName("skt0"); err == nil {
			t.Error("interface left behind")
		}
	}
	// A move to a taken port fails and changes nothing.
	a, b := pair(t, backend, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	before := a.ListenPort()
	want := a.desired([]cluster.Member{a.member(a.loopback()), b.member(b.loopback())})
	want.Port = taken
	if err := a.Set(t.Context(), want); !errors.Is(err, device.ErrPortInUse) {
		t.Errorf("move to a taken port: %v", err)
	}
	if a.ListenPort() != before {
		t.Errorf("port is %d, was %d", a.ListenPort(), before)
	}
	if err := a.tcpEcho(t, b.ip4, "still here"); err != nil {
		t.Error(err)
	}
}

func caseManyPeers(t *testing.T, backend string) {
	tidy(t)
	a := newHost(t, 1, on(backend))
	a.start(t)
	members := []cluster.Member{a.member(a.loopback())}
	nowhere := netip.MustParseAddrPort("127.0.0.1:9")
	for i := 2; i <= count(100, 500); i++ {
		o := newHost(t, i, nil)
		members = append(members, o.member(nowhere))
	}
	begin := time.Now()
	a.mustSet(t, members)
	t.Logf("%d peers configured in %s", len(members)-1, time.Since(begin).Round(time.Millisecond))
	if n := len(a.Observe()); n != len(members)-1 {
		t.Errorf("%d peers, want %d", n, len(members)-1)
	}
	begin = time.Now()
	a.mustSet(t, members[:2])
	t.Logf("all but one removed in %s", time.Since(begin).Round(time.Millisecond))
	if n := len(a.Observe()); n != 1 {
		t.Errorf("%d peers, want 1", n)
	}
}
