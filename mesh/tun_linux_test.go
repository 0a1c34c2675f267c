package mesh

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
)

// Devices are opened and closed under load; nothing stays behind.
func TestTUNCycles(t *testing.T) {
	require.Need(t, require.TUN)
	if inNamespace(t) {
		cycles(t, device.BackendTUN, count(25, 1000))
	}
}

// cycles opens a device, floods it from both sides and closes it, again and
// again.
func cycles(t *testing.T, backend string, n int) {
	tidy(t)
	load(t, backend, 1) // what is made once for all
	files, routines := descriptors(t), goroutines()
	begin := time.Now()
	load(t, backend, n)
	t.Logf("%s: %d cycles in %s", backend, n, time.Since(begin).Round(time.Millisecond))
	eventually(t, "descriptors closed", func() bool { return descriptors(t) <= files })
	eventually(t, "goroutines gone", func() bool { return runtime.NumGoroutine() <= routines })
	t.Logf("descriptors %d before, %d after; goroutines %d and %d", files, descriptors(t), routines, runtime.NumGoroutine())
	entries, err := os.ReadDir(wgDir)
	if err != nil || len(entries) > 0 {
		t.Errorf("control sockets left: %v, %v", entries, err)
	}
}

// load is n cycles against one netstack device.
func load(t *testing.T, backend string, n int) {
	b := newHost(t, 2, nil)
	b.start(t)
	defer b.stop(t)
	b.mustSet(t, []cluster.Member{b.member(b.loopback())})
	b.serveEcho(t)
	for range n {
		cycle(t, backend, b)
	}
}

func cycle(t *testing.T, backend string, b *host) {
	a := newHost(t, 1, on(backend))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	// The other one starts the handshake.
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}
	a.mustSet(t, members)
	b.mustSet(t, members)
	c, err := a.Dial(t.Context(), netip.AddrPortFrom(b.ip4, 7))
	if err != nil {
		t.Fatalf("%v; peers here %+v, there %+v", err, a.Observe(), b.Observe())
	}
	var flow sync.WaitGroup
	flowing := make(chan struct{})
	chunk := make([]byte, 16<<10)
	flow.Go(func() {
		for i := 0; ; i++ {
			if _, err := c.Write(chunk); err != nil {
				return
			}
			if i == 3 {
				close(flowing)
			}
		}
	})
	flow.Go(func() { _, _ = io.Copy(io.Discard, c) })
	select {
	case <-flowing:
	case <-time.After(waitFor):
		t.Fatal("no load")
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(waitFor):
		t.Fatal("did not stop")
	}
	flow.Wait()
	if backend == device.BackendKernel {
		if removed, err := hostnet.Cleanup(t.Context(), "skt0"); err != nil || !removed {
			t.Fatalf("clean up: %v, %v", removed, err)
		}
	}
	if _, err := netlink.LinkByName("skt0"); err == nil {
		t.Fatal("interface left behind")
	}
	b.mustSet(t, members[1:])
}

// TestTUNControlSocket: wg(8) sees the device, and a socket that a killed process left is replaced.
func TestTUNControlSocket(t *testing.T) {
	require.Need(t, require.TUN)
	if !inNamespace(t) {
		return
	}
	path := filepath.Join(wgDir, "skt0.sock")
	leaveSocket(t, path)
	a, b := pair(t, device.BackendTUN, 1, 2)
	bothReach(t, a, b)
	wg, err := wgctrl.New()
	if err != nil {
		t.Fatal(err)
	}
	defer wg.Close()
	dev, err := wg.Device("skt0")
	if err != nil {
		t.Fatal(err)
	}
	if dev.PublicKey != wgtypes.Key(a.Key()) || len(dev.Peers) != 1 || dev.Peers[0].LastHandshakeTime.IsZero() {
		t.Errorf("device is %+v", dev)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v, %v", info, err)
	}
	// A program that just stays connected does not keep the device open.
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a.stop(t)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("socket left: %v", err)
	}
	// Cleanup removes a stale one as well, which is no interface.
	leaveSocket(t, path)
	for range 2 {
		if removed, err := hostnet.Cleanup(t.Context(), "skt0"); err != nil || removed {
			t.Errorf("clean up: %v, %v", removed, err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("socket left by clean up: %v", err)
		}
	}
	// Without the directory the device works all the same.
	if err := unix.Mount("", wgDir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	a, b = pair(t, device.BackendTUN, 1, 2)
	bothReach(t, a, b)
}

// The kernel has no WireGuard on most build machines; either way the choice is
// one that other processes can use.
func TestTUNAutomaticChoice(t *testing.T) {
	require.Need(t, require.TUN)
	if !inNamespace(t) {
		return
	}
	tidy(t)
	a := newHost(t, 1, on(device.BackendAuto))
	a.start(t)
	want := device.BackendTUN
	if require.Missing(require.KernelWG) == nil {
		want = device.BackendKernel
	}
	if a.Backend() != want || a.Interface() != "skt0" {
		t.Errorf("backend is %s on %q, want %s", a.Backend(), a.Interface(), want)
	}
}

// The largest packet follows link and route.
func TestTUNPathMTU(t *testing.T) {
	require.Need(t, require.TUN)
	if !inNamespace(t) {
		return
	}
	link := veth(t, "up0")
	other, err := netlink.LinkByName("up0p")
	if err == nil {
		err = netlink.LinkSetUp(other)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		netlink.LinkSetMTU(link, 1450),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("192.0.2.1/24"))}),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("2001:db8::1/64")), Flags: unix.IFA_F_NODAD}),
		netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("198.51.100.0/24")), MTU: 1400, Scope: netlink.SCOPE_LINK,
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for to, want := range map[string]int{"192.0.2.9": 1450, "198.51.100.7": 1400, "2001:db8::9": 1450, "::ffff:192.0.2.9": 1450} {
		if got, err := hostnet.PathMTU(netip.MustParseAddr(to)); err != nil || got != want {
			t.Errorf("towards %s: %d, %v; want %d", to, got, err, want)
		}
	}
	if got, err := hostnet.PathMTU(netip.MustParseAddr("203.0.113.1")); err == nil {
		t.Errorf("without a route: %d", got)
	}
	u, err := hostnet.ReadUnderlay("skt0")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", u)
	if len(u.Addrs) != 2 || len(u.Routes) != 3 {
		t.Errorf("networks of the host: %+v", u)
	}
}
