package mesh

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	wg "golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/netstack"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// plainPair is two plain wireguard-go devices on the stack that comes with
// it, joined over loopback.
func plainPair(t testing.TB) (a, b *netstack.Net, to netip.AddrPort) {
	t.Helper()
	addrs := []netip.Addr{netip.MustParseAddr("10.87.0.1"), netip.MustParseAddr("10.87.0.2")}
	var (
		nets  []*netstack.Net
		devs  []*wg.Device
		keys  []topo.Key
		ports []uint16
	)
	for i, addr := range addrs {
		tun, n, err := netstack.CreateNetTUN([]netip.Addr{addr}, nil, topo.DefaultMTU)
		if err != nil {
			t.Fatal(err)
		}
		dev := wg.NewDevice(tun, conn.NewDefaultBind(), &wg.Logger{Verbosef: wg.DiscardLogf, Errorf: wg.DiscardLogf})
		t.Cleanup(dev.Close)
		private := nextKey(90+i, 0)
		public, err := topo.PublicKey(private)
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.IpcSet("private_key=" + hex.EncodeToString(private[:]) + "\nlisten_port=0\n"); err != nil {
			t.Fatal(err)
		}
		if err := dev.Up(); err != nil {
			t.Fatal(err)
		}
		text, err := dev.IpcGet()
		if err != nil {
			t.Fatal(err)
		}
		r, err := device.ParseUAPI(text)
		if err != nil {
			t.Fatal(err)
		}
		nets, devs, keys, ports = append(nets, n), append(devs, dev), append(keys, public), append(ports, r.Port)
	}
	for i, dev := range devs {
		other := keys[1-i]
		if err := dev.IpcSet(fmt.Sprintf("public_key=%s\nallowed_ip=%s/32\nendpoint=127.0.0.1:%d\n",
			hex.EncodeToString(other[:]), addrs[1-i], ports[1-i])); err != nil {
			t.Fatal(err)
		}
	}
	return nets[0], nets[1], netip.AddrPortFrom(addrs[1], 9)
}

// push sends for d over a connection and returns bytes a second as received.
func push(t testing.TB, dial func() (net.Conn, error), l net.Listener, d time.Duration) float64 {
	t.Helper()
	got := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	chunk := make([]byte, 256<<10)
	begin := time.Now()
	for time.Since(begin) < d {
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	select {
	case n := <-got:
		return float64(n) / time.Since(begin).Seconds()
	case <-time.After(waitFor):
		t.Fatal("the other side got no end")
		return 0
	}
}

// BenchmarkBesidePlain sends TCP through this package's devices and through
// plain wireguard-go, in turn, and reports the ratio of the medians.
func BenchmarkBesidePlain(b *testing.B) {
	const round = 500 * time.Millisecond
	hosts := newCluster(b, 2, nil)
	at := netip.AddrPortFrom(hosts[1].ip4, 9)
	ours, err := hosts[1].Listen(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	from, to, plainAt := plainPair(b)
	plain, err := to.ListenTCPAddrPort(plainAt)
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()

	var mine, theirs []float64
	measure := func() {
		theirs = append(theirs, push(b, func() (net.Conn, error) { return from.DialContextTCPAddrPort(b.Context(), plainAt) }, plain, round))
		mine = append(mine, push(b, func() (net.Conn, error) { return hosts[0].Dial(b.Context(), at) }, ours, round))
	}
	measure() // to warm up
	mine, theirs = nil, nil
	for b.Loop() {
		measure()
	}
	median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	m, p := median(mine), median(theirs)
	b.ReportMetric(m/p, "ratio")
	b.ReportMetric(m*8/1e9, "Gbit/s")
	b.ReportMetric(p*8/1e9, "plain-Gbit/s")
	b.ReportMetric(0, "ns/op")
}
