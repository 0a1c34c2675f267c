package mesh

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/mesh/topo"
)

// Cases of the backends that have a network interface.

// Sockets that know nothing of the mesh use it through the route.
func caseOtherProcess(t *testing.T, backend string) {
	a, b := pair(t, backend, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	for _, to := range []netip.Addr{b.ip4, b.ip6} {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 7).String(), waitFor)
		if err != nil {
			t.Error(err)
			continue
		}
		from := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if from != a.ip4 && from != a.ip6 {
			t.Errorf("connected from %s", from)
		}
		c.Close()
	}
}

// Packets with mesh addresses that came in elsewhere reach no socket of the
// mesh, though they reach others.
func caseBoundSockets(t *testing.T, backend string) {
	a, b := pair(t, backend, 1, 2)
	bothReach(t, a, b)
	at := netip.AddrPortFrom(a.ip4, 99)
	pc, err := a.ListenPacket(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	l, err := a.Listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.ListenPacket("udp4", netip.AddrPortFrom(a.ip4, 100).String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	underlay, err := openTUNFile("evil0")
	if err != nil {
		t.Fatal(err)
	}
	defer underlay.Close()
	link, err := netlink.LinkByName("evil0")
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got int
	eventually(t, "forged datagram at an ordinary socket", func() bool {
		for _, port := range []uint16{99, 100} {
			packet := append(make([]byte, 10), udpPacket(b.ip4, a.ip4, port, "forged")...) // after the offload header
			if _, err := underlay.Write(packet); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.ReadFrom(make([]byte, 100)); err == nil {
			got++
		}
		return got > 2
	})
	if err := pc.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := pc.ReadFrom(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes from %s past the mesh", n, from)
	}
}

// udpPacket is an IPv4 datagram from port 99, without a UDP checksum.
func udpPacket(from, to netip.Addr, port uint16, text string) []byte {
	p := []byte{0x45, 0, 0, byte(28 + len(text)), 0, 0, 0, 0, 64, 17, 0, 0}
	p = append(append(p, from.AsSlice()...), to.AsSlice()...)
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(p[i])<<8 | uint32(p[i+1])
	}
	sum = ^(sum&0xffff + sum>>16)
	p[10], p[11] = byte(sum>>8), byte(sum)
	p = append(p, 0, 99, byte(port>>8), byte(port), 0, byte(8+len(text)), 0, 0)
	return append(p, text...)
}

// veth makes an interface that is none of ours.
func veth(t *testing.T, name string) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "p"}); err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	return link
}

func caseForeign(t *testing.T, backend string) {
	veth(t, "skt0")
	a := newHost(t, 1, on(backend))
	err := a.Run(t.Context())
	if !errors.Is(err, device.ErrForeign) {
		t.Errorf("with a foreign interface: %v", err)
	}
	t.Log(err)
	if _, err := hostnet.Cleanup(t.Context(), "skt0"); !errors.Is(err, device.ErrForeign) {
		t.Errorf("clean up a foreign interface: %v", err)
	}
	if err := hostnet.CheckInterface("skt0"); !errors.Is(err, device.ErrForeign) {
		t.Errorf("check of a foreign interface: %v", err)
	}
	if _, err := netlink.LinkByName("skt0"); err != nil {
		t.Error("foreign interface removed")
	}
}

func caseOverlap(t *testing.T, backend string) {
	link := veth(t, "other0")
	add := func(p string) func() error {
		addr := &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(p))}
		return func() error { return netlink.AddrAdd(link, addr) }
	}
	route := func(p string) func() error {
		return func() error {
			return netlink.RouteAdd(&netlink.Route{
				LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(p)), Table: 99, Scope: netlink.SCOPE_LINK,
			})
		}
	}
	for _, c := range []struct {
		name string
		add  func() error
	}{
		{"address", add("10.86.3.4/24")},
		{"wider route", route("10.0.0.0/8")},
		{"ipv6 route", route("fd00:86:0:1::/64")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.add(); err != nil {
				t.Fatal(err)
			}
			a := newHost(t, 1, on(backend))
			err := a.Run(t.Context())
			if !errors.Is(err, device.ErrOverlap) {
				t.Errorf("with an overlap: %v", err)
			}
			t.Log(err)
			if _, err := netlink.LinkByName("skt0"); err == nil {
				t.Error("interface left behind")
			}
			if err := hostnet.CheckOverlap("skt0", testNetworks); !errors.Is(err, device.ErrOverlap) {
				t.Errorf("check: %v", err)
			}
			addrs, _ := netlink.AddrList(link, netlink.FAMILY_ALL)
			for _, x := range addrs {
				_ = netlink.AddrDel(link, &x)
			}
			routes, _ := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: 99}, netlink.RT_FILTER_TABLE)
			for _, r := range routes {
				_ = netlink.RouteDel(&r)
			}
		})
	}
	if err := hostnet.CheckOverlap("skt0", testNetworks); err != nil {
		t.Error(err)
	}
}

func casePermission(t *testing.T, backend string) {
	a := newHost(t, 1, on(backend))
	var err error
	without(t, unix.CAP_NET_ADMIN, func() { _, err = openDevice(a.opts) })
	if !errors.Is(err, device.ErrPermission) {
		t.Errorf("without CAP_NET_ADMIN: %v", err)
	}
	t.Log(err)
	// The automatic choice stops there as well.
	a.opts.Backend = device.BackendAuto
	without(t, unix.CAP_NET_ADMIN, func() { _, err = openDevice(a.opts) })
	if !errors.Is(err, device.ErrPermission) {
		t.Errorf("auto without CAP_NET_ADMIN: %v", err)
	}
}

// Somebody removes the interface: the device ends rather than pretend.
func caseVanished(t *testing.T, backend string) {
	tidy(t)
	a := newHost(t, 1, on(backend))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	<-a.Ready()
	link, err := netlink.LinkByName("skt0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("ended without an error")
		}
	case <-time.After(waitFor):
		t.Fatal("goes on without an interface")
	}
}

func caseCleanup(t *testing.T, backend string) {
	a := newHost(t, 1, on(backend))
	a.start(t)
	a.mustSet(t, []cluster.Member{a.member(a.loopback())})
	a.stop(t)
	_, err := netlink.LinkByName("skt0")
	if stays := err == nil; stays != (backend == device.BackendKernel) {
		t.Errorf("interface stays: %v", stays)
	}
	if err := hostnet.CheckInterface("skt0"); err != nil {
		t.Errorf("check of an own or no interface: %v", err)
	}
	for i := range 3 {
		removed, err := hostnet.Cleanup(t.Context(), "skt0")
		if err != nil {
			t.Fatal(err)
		}
		if want := i == 0 && backend == device.BackendKernel; removed != want {
			t.Errorf("clean up number %d removed: %v, want %v", i, removed, want)
		}
	}
	if _, err := netlink.LinkByName("skt0"); err == nil {
		t.Error("interface left behind")
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Dst: ipNet(testNetworks[0])}, netlink.RT_FILTER_DST)
	if err != nil || len(routes) > 0 {
		t.Errorf("routes left: %v, %v", routes, err)
	}
}

// On a host without IPv6 the mesh is IPv4 only.
func caseNoIPv6(t *testing.T, backend string) {
	const off = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
	if err := os.WriteFile(off, []byte("1"), 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = os.WriteFile(off, []byte("0"), 0) }()
	a, b := pair(t, backend, 1, 2)
	for _, addr := range []netip.Addr{b.ip4, b.ip6} {
		l, err := b.Listen(t.Context(), netip.AddrPortFrom(addr, 7))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 7)); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if got := a.addresses(t); len(got) != 1 || got[0] != topo.HostPrefix(a.ip4) {
		t.Errorf("addresses are %s", got)
	}
}

// openTUNFile makes a TUN interface and returns the end that its packets pass.
func openTUNFile(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
