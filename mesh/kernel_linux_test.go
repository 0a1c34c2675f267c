package mesh

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
)

// Traffic of other processes continues while the daemon restarts: not one
// datagram is lost.
func TestKernelRestartLosesNothing(t *testing.T) {
	require.Need(t, require.KernelWG)
	if !inNamespace(t) {
		return
	}
	a, b := pair(t, device.BackendKernel, 1, 2)
	b.serveEcho(t)
	bothReach(t, a, b)
	at := netip.AddrPortFrom(netip.IPv4Unspecified(), a.ListenPort())
	members := []cluster.Member{a.member(a.loopback()), b.member(b.loopback())}

	c, err := net.Dial("udp", netip.AddrPortFrom(b.ip4, 7).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const every = 5 * time.Millisecond
	pings := count(400, 1000)
	var (
		flow     sync.WaitGroup
		answered int
		third    = make(chan struct{})
		done     = make(chan struct{})
	)
	flow.Go(func() {
		buf := make([]byte, 100)
		for range pings {
			if err := c.SetReadDeadline(time.Now().Add(waitFor)); err != nil {
				return
			}
			if _, err := c.Read(buf); err != nil {
				return
			}
			answered++
		}
	})
	flow.Go(func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := range pings {
			if _, err := c.Write([]byte("ping")); err != nil {
				t.Errorf("ping %d: %v", i, err)
			}
			if i == pings/3 {
				close(third)
			}
			<-tick.C
		}
	})
	<-third
	restarts := 0
	for running := true; running; {
		a.stop(t)
		again := newHost(t, 1, func(o *Options) {
			on(device.BackendKernel)(o)
			o.Listen = at
		})
		again.start(t)
		again.mustSet(t, members)
		if p := again.Observe(); len(p) != 1 || !p[0].Live {
			t.Errorf("peers after the restart: %+v", p)
		}
		a = again
		restarts++
		select {
		case <-done:
			running = false
		default:
		}
	}
	flow.Wait()
	t.Logf("%d restarts: %d of %d pings answered", restarts, answered, pings)
	if answered != pings {
		t.Errorf("%d of %d pings lost", pings-answered, pings)
	}
}

// An interface of an earlier run is taken over only under a key of ours.
func TestKernelAdoption(t *testing.T) {
	require.Need(t, require.KernelWG)
	if !inNamespace(t) {
		return
	}
	tidy(t)
	first := newHost(t, 1, on(device.BackendKernel))
	first.start(t)
	at := first.ListenPort()
	first.stop(t)

	other := newHost(t, 2, on(device.BackendKernel))
	if err := other.Run(t.Context()); !errors.Is(err, device.ErrForeign) {
		t.Errorf("with the interface of another key: %v", err)
	}
	rotated := newHost(t, 2, func(o *Options) {
		on(device.BackendKernel)(o)
		o.Listen = netip.AddrPortFrom(netip.IPv4Unspecified(), at)
		o.AdoptKeys = append(o.AdoptKeys, first.Key())
	})
	rotated.start(t)
	if got := rotated.ListenPort(); got != at {
		t.Errorf("port is %d, want %d", got, at)
	}
	wg, err := wgctrl.New()
	if err != nil {
		t.Fatal(err)
	}
	defer wg.Close()
	dev, err := wg.Device("skt0")
	if err != nil || dev.PublicKey != wgtypes.Key(rotated.Key()) {
		t.Errorf("key of the device is %v, %v", dev.PublicKey, err)
	}
	rotated.stop(t)

	// What a start left that was killed before it set a key.
	if _, err := hostnet.Cleanup(t.Context(), "skt0"); err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "skt0"
	if err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs}); err != nil {
		t.Fatal(err)
	}
	again := newHost(t, 1, on(device.BackendAuto))
	again.start(t)
	if again.Backend() != device.BackendKernel {
		t.Errorf("automatic choice is %s", again.Backend())
	}
	again.stop(t)
	// One in use without a key of ours is somebody else's.
	if _, err := hostnet.Cleanup(t.Context(), "skt0"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs}), netlink.LinkSetUp(&netlink.Wireguard{LinkAttrs: attrs})); err != nil {
		t.Fatal(err)
	}
	if err := newHost(t, 1, on(device.BackendKernel)).Run(t.Context()); !errors.Is(err, device.ErrForeign) {
		t.Errorf("with an interface that somebody uses: %v", err)
	}
	if _, err := hostnet.Cleanup(t.Context(), "skt0"); !errors.Is(err, device.ErrForeign) {
		t.Errorf("clean it up: %v", err)
	}
	if err := netlink.LinkDel(&netlink.Wireguard{LinkAttrs: attrs}); err != nil {
		t.Fatal(err)
	}
}

// 1000 times open, traffic, close and remove.
func TestKernelCycles(t *testing.T) {
	require.Need(t, require.KernelWG)
	if inNamespace(t) {
		cycles(t, device.BackendKernel, count(4, 1000))
	}
}
