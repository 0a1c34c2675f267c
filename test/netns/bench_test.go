//go:build linux

package netns_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.zx2c4.com/wireguard/conn"
	wg "golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/tun/netstack"

	"github.com/skein-project/skein/internal/nstest"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// benchRole makes the test program one end of a throughput measure: its value
// is a benchEnd.
const benchRole = "SKEIN_NETNS_BENCH"

const (
	benchMTU  = 1420
	benchPort = 5001 // inside the tunnel
)

// benchEnd is one end of a tunnel, a process of its own in its host.
type benchEnd struct {
	Skein        bool // else plain wireguard-go
	Backend      string
	Link         string
	Port         uint16
	Private      []byte
	Self, Peer   netip.Addr // in the tunnel
	PeerKey      []byte
	PeerEndpoint netip.AddrPort
}

// benchNet is what both kinds of device offer.
type benchNet struct {
	listen func(netip.AddrPort) (net.Listener, error)
	dial   func(context.Context, netip.AddrPort) (net.Conn, error)
}

// benchHelper is one end: it discards what arrives, tells the sender how much
// that was, and sends for as long as each line of stdin says.
func benchHelper(role string) int {
	err := func() error {
		var e benchEnd
		if err := json.Unmarshal([]byte(role), &e); err != nil {
			return err
		}
		open := e.plain
		if e.Skein {
			open = e.skein
		}
		n, err := open()
		if err != nil {
			return err
		}
		ln, err := n.listen(netip.AddrPortFrom(e.Self, benchPort))
		if err != nil {
			return err
		}
		go discard(ln)
		fmt.Println("ready") //nolint:forbidigo // the protocol with the test
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			d, err := time.ParseDuration(lines.Text())
			if err != nil {
				return err
			}
			rate, err := send(n, netip.AddrPortFrom(e.Peer, benchPort), d)
			if err != nil {
				return err
			}
			fmt.Println(rate) //nolint:forbidigo // the protocol with the test
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func discard(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 1<<17)
			var total uint64
			for {
				n, err := c.Read(buf)
				total += uint64(n)
				if total > 0 && n > 0 && buf[n-1] == 1 || err != nil {
					break
				}
			}
			_, _ = c.Write(binary.BigEndian.AppendUint64(nil, total)) // the sender waits with a deadline
		}()
	}
}

// send returns bits per second, by the receiver's count.
func send(n benchNet, to netip.AddrPort, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d+20*time.Second)
	defer cancel()
	c, err := n.dial(ctx, to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return 0, err
	}
	buf := make([]byte, 1<<17)
	start := time.Now()
	for time.Since(start) < d {
		if _, err := c.Write(buf); err != nil {
			return 0, err
		}
	}
	if _, err := c.Write([]byte{1}); err != nil { // the last byte
		return 0, err
	}
	var count [8]byte
	if _, err := io.ReadFull(c, count[:]); err != nil {
		return 0, err
	}
	return 8 * float64(binary.BigEndian.Uint64(count[:])) / time.Since(start).Seconds(), nil
}

// kernelNet is the network of the process's namespace.
func kernelNet() benchNet {
	return benchNet{
		listen: func(a netip.AddrPort) (net.Listener, error) {
			var lc net.ListenConfig
			return lc.Listen(context.Background(), "tcp", a.String())
		},
		dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", a.String())
		},
	}
}

// plain opens wireguard-go as its own programs and examples do.
func (e benchEnd) plain() (benchNet, error) {
	var t tun.Device
	var n benchNet
	var err error
	if e.Backend == backendTUN {
		n = kernelNet()
		t, err = tun.CreateTUN(e.Link, benchMTU)
	} else {
		var stack *netstack.Net
		t, stack, err = netstack.CreateNetTUN([]netip.Addr{e.Self}, nil, benchMTU)
		n.listen = func(a netip.AddrPort) (net.Listener, error) { return stack.ListenTCPAddrPort(a) }
		n.dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			return stack.DialContextTCPAddrPort(ctx, a)
		}
	}
	if err != nil {
		return n, err
	}
	d := wg.NewDevice(t, conn.NewDefaultBind(), wg.NewLogger(wg.LogLevelError, ""))
	uapi := fmt.Sprintf("private_key=%x\nlisten_port=%d\npublic_key=%x\nendpoint=%s\nallowed_ip=%s/32\n",
		e.Private, e.Port, e.PeerKey, e.PeerEndpoint, e.Peer)
	if err := errors.Join(d.IpcSet(uapi), d.Up()); err != nil || e.Backend != backendTUN {
		return n, err
	}
	for _, args := range []string{
		fmt.Sprintf("addr add %s/32 dev %s", e.Self, e.Link), "link set up dev " + e.Link,
		fmt.Sprintf("route add %s/32 dev %s", e.Peer, e.Link),
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return n, fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return n, nil
}

// skein opens the mesh as the daemon does.
func (e benchEnd) skein() (benchNet, error) {
	ctx := context.Background()
	network, err := e.Self.Prefix(24)
	if err != nil {
		return benchNet{}, err
	}
	m, err := mesh.New(mesh.Options{
		Backend: e.Backend, Interface: e.Link, Networks: []netip.Prefix{network}, PrivateKey: [32]byte(e.Private),
		Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), e.Port), MTU: benchMTU, Logger: zerolog.Nop(),
	})
	if err != nil {
		return benchNet{}, err
	}
	ended := make(chan error, 1) // one answer
	go func() { ended <- m.Run(ctx) }()
	select {
	case err := <-ended:
		return benchNet{}, err
	case <-m.Ready():
	}
	own, err := topo.PublicKey([32]byte(e.Private))
	if err != nil {
		return benchNet{}, err
	}
	err = m.Set(ctx, topo.Desired{
		Key: own, Port: e.Port, MTU: benchMTU, Addrs: []netip.Prefix{netip.PrefixFrom(e.Self, 32)},
		Peers: []topo.Peer{{
			Node: "peer", Key: topo.Key(e.PeerKey), Allowed: []netip.Prefix{netip.PrefixFrom(e.Peer, 32)},
			Endpoints: []netip.AddrPort{e.PeerEndpoint},
		}},
	})
	return benchNet{
		listen: func(a netip.AddrPort) (net.Listener, error) { return m.Listen(ctx, a) },
		dial:   m.Dial,
	}, err
}

// benchPair is a tunnel between two hosts, sending from the first.
type benchPair struct {
	in  io.Writer
	out *bufio.Scanner
}

// newBenchPair starts both ends; index tells several tunnels between the same
// hosts apart.
func newBenchPair(tb testing.TB, a, b *nstest.Host, backend string, skein bool, index int) *benchPair {
	tb.Helper()
	var ends [2]benchEnd
	var public [2][]byte
	for i := range ends {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		public[i] = key.PublicKey().Bytes()
		ends[i] = benchEnd{
			Skein: skein, Backend: backend, Link: fmt.Sprintf("bench%d", index), Port: uint16(52000 + index),
			Private: key.Bytes(), Self: netip.AddrFrom4([4]byte{10, 99, byte(index), byte(i + 1)}),
			Peer: netip.AddrFrom4([4]byte{10, 99, byte(index), byte(2 - i)}),
		}
	}
	p := &benchPair{}
	for i, h := range []*nstest.Host{a, b} {
		o := []*nstest.Host{b, a}[i]
		ends[i].PeerKey, ends[i].PeerEndpoint = public[1-i], netip.AddrPortFrom(o.Addr(), ends[i].Port)
		in, out := startBenchEnd(tb, h, ends[i])
		if i == 0 {
			p.in, p.out = in, out
		}
	}
	return p
}

func startBenchEnd(tb testing.TB, h *nstest.Host, e benchEnd) (io.Writer, *bufio.Scanner) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	role, err := json.Marshal(e)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := h.Command(context.Background(), self)
	cmd.Env = append(os.Environ(), benchRole+"="+string(role))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		if tb.Failed() {
			tb.Logf("%s: %s", e.Link, errs.String())
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		tb.Fatalf("%s of %s does not start", e.Link, h.Name())
	}
	return in, lines
}

// round sends for d and returns bits per second.
func (p *benchPair) round(tb testing.TB, d time.Duration) float64 {
	tb.Helper()
	if _, err := fmt.Fprintln(p.in, d); err != nil {
		tb.Fatal(err)
	}
	if !p.out.Scan() {
		tb.Fatal("the sender ended")
	}
	var rate float64
	if _, err := fmt.Sscan(p.out.Text(), &rate); err != nil {
		tb.Fatal(err)
	}
	return rate
}

// throughput sends TCP through plain wireguard-go and through skein's device
// in turn, and returns the medians of the rates and of the ratio of each round.
func throughput(tb testing.TB, backend string, rounds int, each time.Duration) (plain, skein, ratio float64) {
	tb.Helper()
	n := nstest.New(tb)
	a, b := n.Host("a"), n.Host("b")
	pairs := [2]*benchPair{newBenchPair(tb, a, b, backend, false, 1), newBenchPair(tb, a, b, backend, true, 2)}
	var rates [2][]float64
	var ratios []float64
	for i := range rounds + 1 {
		var got [2]float64
		for k := range pairs {
			turn := (i + k) % 2 // who goes first changes
			got[turn] = pairs[turn].round(tb, each)
		}
		if i == 0 {
			continue // warm-up
		}
		rates[0], rates[1] = append(rates[0], got[0]), append(rates[1], got[1])
		ratios = append(ratios, got[1]/got[0])
	}
	return median(rates[0]), median(rates[1]), median(ratios)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v)%2 == 0 {
		return (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return v[len(v)/2]
}

// TestThroughput compares with wireguard-go alone in the same run. Only at
// full length the figure means something; else it shows that bytes flow.
func TestThroughput(t *testing.T) {
	parallel(t)
	for _, backend := range []string{backendTUN, backendNetstack} {
		t.Run(backend, func(t *testing.T) {
			plain, skein, ratio := throughput(t, backend, pick(1, 15), pick(200*time.Millisecond, time.Second))
			t.Logf("plain wireguard-go %.2f Gbit/s, skein %.2f Gbit/s, ratio %.3f", plain/1e9, skein/1e9, ratio)
			if least := pick(0, 0.95); ratio <= least {
				t.Errorf("skein has %.3f of the throughput of plain wireguard-go, want %.2f", ratio, least)
			}
		})
	}
}

// BenchmarkThroughput prints the comparison of TestThroughput.
func BenchmarkThroughput(b *testing.B) {
	for _, backend := range []string{backendTUN, backendNetstack} {
		b.Run(backend, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // says nothing here
			for b.Loop() {
				plain, skein, ratio := throughput(b, backend, 7, 500*time.Millisecond)
				b.ReportMetric(plain/1e9, "plain-Gbit/s")
				b.ReportMetric(skein/1e9, "skein-Gbit/s")
				b.ReportMetric(ratio, "ratio")
			}
		})
	}
}
