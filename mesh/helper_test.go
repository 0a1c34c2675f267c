package mesh

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// waitFor is how long a test waits for what must happen.
const waitFor = 2 * time.Minute

// prove reports whether the full counts were asked for.
func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

// count returns quick, or full if the full counts were asked for.
func count(quick, full int) int {
	if prove() {
		return full
	}
	return quick
}

// eventually polls cond until it holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(waitFor)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", waitFor, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// host is one device of a test.
type host struct {
	*Mesh
	node cluster.NodeID
	key  [topo.KeyLen]byte
	ip4  netip.Addr
	ip6  netip.Addr
	mtu  int

	cancel context.CancelFunc
	ended  chan error
}

// newHost makes the i-th host; equal i, equal key and addresses.
func newHost(t testing.TB, i int, change func(*Options)) *host {
	t.Helper()
	h := &host{
		node: cluster.NodeID(fmt.Sprintf("n%d", i)),
		key:  sha256.Sum256(fmt.Appendf(nil, "test host %d", i)),
		ip4:  netip.AddrFrom4([4]byte{10, 86, byte(i >> 8), byte(i)}),
		ip6:  netip.MustParseAddr(fmt.Sprintf("fd00:86::%x", i)),
		mtu:  topo.DefaultMTU,
	}
	o := Options{
		Backend:    device.BackendNetstack,
		PrivateKey: h.key,
		Listen:     netip.MustParseAddrPort("127.0.0.1:0"),
		Logger:     zerolog.Nop(),
	}
	if change != nil {
		change(&o)
	}
	if o.MTU != 0 {
		h.mtu = o.MTU
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Mesh = m
	return h
}

// start runs the host until the test ends or stop is called.
func (h *host) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.ended = cancel, make(chan error, 1)
	go func() { h.ended <- h.Run(ctx) }()
	t.Cleanup(func() { h.stop(t) })
	select {
	case <-h.Ready():
	case err := <-h.ended:
		h.ended <- err
		t.Fatalf("run %s: %v", h.node, err)
	case <-time.After(waitFor):
		t.Fatal("not ready")
	}
}

func (h *host) stop(t testing.TB) {
	t.Helper()
	h.cancel()
	select {
	case err := <-h.ended:
		h.ended <- err
		if err != nil {
			t.Errorf("run %s: %v", h.node, err)
		}
	case <-time.After(waitFor):
		t.Errorf("%s did not stop", h.node)
	}
}

func (h *host) member(ports ...netip.AddrPort) cluster.Member {
	pub, _ := topo.PublicKey(h.key)
	return cluster.Member{Node: h.node, IDPub: pub[:], IP4: h.ip4, IP6: h.ip6, WGPub: pub[:], Endpoints: ports}
}

// loopback is the host's underlay endpoint.
func (h *host) loopback() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), h.ListenPort())
}

func (h *host) desired(members []cluster.Member) topo.Desired {
	self := members[slices.IndexFunc(members, func(m cluster.Member) bool { return m.Node == h.node })]
	want, _ := topo.Plan(topo.Input{Self: self, Members: members, Port: h.ListenPort(), MTU: h.mtu})
	return want
}

func (h *host) mustSet(t testing.TB, members []cluster.Member) {
	t.Helper()
	if err := h.Set(t.Context(), h.desired(members)); err != nil {
		t.Fatalf("set %s: %v", h.node, err)
	}
}

// reached reports whether all peers have a session.
func (h *host) reached(peers int) bool {
	ps := h.Observe()
	return len(ps) == peers && !slices.ContainsFunc(ps, func(p PeerStatus) bool { return !p.Live })
}

// newCluster has n started hosts, each knowing all others.
func newCluster(t testing.TB, n int, change func(*Options)) []*host {
	t.Helper()
	var hosts []*host
	var members []cluster.Member
	for i := 1; i <= n; i++ {
		h := newHost(t, i, change)
		h.start(t)
		hosts = append(hosts, h)
		members = append(members, h.member(h.loopback()))
	}
	for _, h := range hosts {
		h.mustSet(t, members)
	}
	return hosts
}

// serveEcho answers TCP connections and datagrams on port 7 until the test
// ends or the host stops.
func (h *host) serveEcho(t testing.TB) {
	t.Helper()
	for _, a := range []netip.Addr{h.ip4, h.ip6} {
		at := netip.AddrPortFrom(a, 7)
		l, err := h.Listen(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		pc, err := h.ListenPacket(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(); pc.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
		go func() {
			buf := make([]byte, 2048)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = pc.WriteTo(buf[:n], from)
			}
		}()
	}
}

// tcpEcho sends text to the echo service at to and wants it back.
func (h *host) tcpEcho(t testing.TB, to netip.Addr, text string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitFor)
	defer cancel()
	c, err := h.Dial(ctx, netip.AddrPortFrom(to, 7))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(waitFor)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("echo is %q, want %q", got, text)
	}
	return nil
}

// udpEcho sends text until it comes back, once every pause.
func (h *host) udpEcho(t testing.TB, to netip.Addr, text string, pause, limit time.Duration) error {
	t.Helper()
	from := h.ip4
	if to.Is6() {
		from = h.ip6
	}
	pc, err := h.ListenPacket(t.Context(), netip.AddrPortFrom(from, 0))
	if err != nil {
		return err
	}
	defer pc.Close()
	buf := make([]byte, 2048)
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if _, err := pc.WriteTo([]byte(text), &net.UDPAddr{IP: to.AsSlice(), Port: 7}); err != nil {
			return err
		}
		if err := pc.SetReadDeadline(time.Now().Add(pause)); err != nil {
			return err
		}
		n, _, err := pc.ReadFrom(buf)
		if err == nil {
			if string(buf[:n]) != text {
				return fmt.Errorf("echo is %q, want %q", buf[:n], text)
			}
			return nil
		}
	}
	return fmt.Errorf("no echo from %s within %s", to, limit)
}

// goroutines is the number of goroutines after the process came to rest.
func goroutines() int {
	n := runtime.NumGoroutine()
	for range 20 {
		runtime.Gosched()
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

func udpAddr(a netip.Addr, port uint16) *net.UDPAddr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, port))
}

func itoa(n int) string { return fmt.Sprint(n) }
