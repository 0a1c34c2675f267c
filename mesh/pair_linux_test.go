package mesh

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
)

// Two hosts that are configured at the same moment and both send at once find
// each other without the 5 s that two crossing handshakes cost.

func TestTUNPair(t *testing.T) {
	require.Need(t, require.Netns)
	if inNamespace(t) {
		pairs(t, device.BackendTUN, count(4, 18))
	}
}

func TestKernelPair(t *testing.T) {
	require.Need(t, require.KernelWG)
	if inNamespace(t) {
		pairs(t, device.BackendKernel, count(4, 18))
	}
}

// pairLimit is less than the 5 s that a collision costs.
const pairLimit = 4500 * time.Millisecond

func pairs(t *testing.T, backend string, rounds int) {
	other := newNamespace(t, "u0", "u1", [2]netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.2/24"),
	})
	here := func(t *testing.T, f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	var worst time.Duration
	for i := range rounds {
		first, second := 1, 2
		if i%2 == 1 {
			first, second = second, first
		}
		took := together(t, backend, here, other.do, first, second)
		t.Logf("round %d: first packets there and back after %s", i, took.Round(time.Millisecond))
		worst = max(worst, took)
	}
	if worst > pairLimit {
		t.Errorf("took up to %s", worst)
	}
}

// together starts a host in each of two places, configures both at once and
// returns when each has heard the other.
func together(t *testing.T, backend string, here, there func(*testing.T, func() error), first, second int) time.Duration {
	places := []func(*testing.T, func() error){here, there}
	hosts := []*host{newHost(t, first, on(backend)), newHost(t, second, on(backend))}
	ends := make([]chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		for i := range ends {
			if err := <-ends[i]; err != nil {
				t.Error(err)
			}
			places[i](t, func() error {
				_, err := hostnet.Cleanup(t.Context(), "skt0")
				return err
			})
		}
	}()
	var members []cluster.Member
	for i, h := range hosts {
		ends[i] = make(chan error, 1)
		go places[i](t, func() error { ends[i] <- h.Run(ctx); return nil })
		select {
		case <-h.Ready():
		case err := <-ends[i]:
			ends[i] <- err
			t.Fatal(err)
		}
		at := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		members = append(members, h.member(netip.AddrPortFrom(at, h.ListenPort())))
	}
	begin := time.Now()
	set := make(chan error, 2)
	for _, h := range hosts {
		go func() { set <- h.Set(t.Context(), h.desired(members)) }()
	}
	for range hosts {
		if err := <-set; err != nil {
			t.Fatal(err)
		}
	}
	heard := make(chan error, 2)
	for i, h := range hosts {
		var pc net.PacketConn
		places[i](t, func() (err error) {
			pc, err = h.ListenPacket(t.Context(), netip.AddrPortFrom(h.ip4, 77))
			return err
		})
		defer pc.Close()
		to := udpAddr(hosts[1-i].ip4, 77)
		go func() { heard <- exchange(pc, to) }()
	}
	for range hosts {
		if err := <-heard; err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(begin)
}

// exchange sends every 20 ms until it has heard something and once more.
func exchange(pc net.PacketConn, to net.Addr) error {
	buf := make([]byte, 100)
	for end := time.Now().Add(waitFor); ; {
		if _, err := pc.WriteTo([]byte("hello"), to); err != nil {
			return err
		}
		if err := pc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			return err
		}
		_, _, err := pc.ReadFrom(buf)
		if err == nil {
			_, err = pc.WriteTo([]byte("heard"), to)
			return err
		}
		if time.Now().After(end) {
			return err
		}
	}
}
