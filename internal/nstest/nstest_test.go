//go:build linux

package nstest

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pair makes two hosts and checks that they see each other.
func pair(t *testing.T) (n *Network, a, b *Host) {
	t.Helper()
	n = New(t)
	a, b = n.Host("a"), n.Host("b")
	return n, a, b
}

func stream(t *testing.T, a, b *Host, during func()) PingResult {
	t.Helper()
	p := Ping(a, b, a.Addr(), b.Addr(), time.Millisecond)
	want := 0
	if during != nil {
		during()
		want = p.Sent()
	}
	for deadline := time.Now().Add(20 * time.Second); p.Sent() < want+200; {
		if time.Now().After(deadline) {
			t.Fatal("pings are not sent")
		}
		time.Sleep(time.Millisecond) // between two looks
	}
	return p.Stop()
}

func TestLossCutAndHeal(t *testing.T) {
	_, a, b := pair(t)
	if r := stream(t, a, b, nil); r.Lost > 0 {
		t.Errorf("%d of %d lost on a link without faults", r.Lost, r.Sent)
	}
	a.Shape(Shape{Loss: 50})
	if r := stream(t, a, b, nil); r.Lost < r.Sent/4 || r.Lost > 3*r.Sent/4 {
		t.Errorf("%d of %d lost at 50 %% loss", r.Lost, r.Sent)
	}
	a.Shape(Shape{Loss: 100})
	if r := stream(t, a, b, nil); r.Lost != r.Sent {
		t.Errorf("%d of %d lost at 100 %% loss", r.Lost, r.Sent)
	}
	a.Shape(Shape{})
	if r := stream(t, a, b, nil); r.Lost > 0 {
		t.Errorf("%d of %d lost after the loss ended", r.Lost, r.Sent)
	}
	a.Shape(Shape{Apart: []netip.Addr{b.Addr()}})
	if r := stream(t, a, b, nil); r.Lost != r.Sent {
		t.Errorf("%d of %d lost between hosts that are apart", r.Lost, r.Sent)
	}
	a.Shape(Shape{})
	b.Cut()
	if r := stream(t, a, b, nil); r.Lost != r.Sent {
		t.Errorf("%d of %d lost while cut", r.Lost, r.Sent)
	}
	b.Heal()
	if r := stream(t, a, b, nil); r.Lost > 0 {
		t.Errorf("%d of %d lost after the heal", r.Lost, r.Sent)
	}
}

func TestBlackHole(t *testing.T) {
	_, a, b := pair(t)
	a.Shape(Shape{Longest: 1400})
	for _, c := range []struct {
		payload int
		passes  bool
	}{{1372, true}, {1373, false}, {1400, false}} {
		pc, err := b.ListenPacket(t.Context(), b.Addr().String()+":7000")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := a.Dial(t.Context(), "udp", b.Addr().String()+":7000")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, c.payload)); err != nil {
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if !c.passes {
			wait = 200 * time.Millisecond
		}
		if err := pc.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, _, err = pc.ReadFrom(make([]byte, 2000))
		if (err == nil) != c.passes {
			t.Errorf("%d bytes of payload: %v", c.payload, err)
		}
		conn.Close()
		pc.Close()
	}
}

func TestSpoofAndCapture(t *testing.T) {
	n, a, b := pair(t)
	b.Sysctl("net.ipv4.conf.all.rp_filter", "0")
	b.Sysctl("net.ipv4.conf.eth0.rp_filter", "0")
	c := n.Capture()
	pc, err := b.ListenPacket(t.Context(), b.Addr().String()+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	src := netip.MustParseAddrPort("198.51.100.7:4242")
	if err := a.Spoof(src, netip.AddrPortFrom(b.Addr(), 7000), []byte("forged")); err != nil {
		t.Fatal(err)
	}
	if err := pc.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var buf [100]byte
	size, from, err := pc.ReadFrom(buf[:])
	if err != nil || string(buf[:size]) != "forged" || from.String() != src.String() {
		t.Errorf("got %q from %v, %v", buf[:size], from, err)
	}
	packets, err := c.Stop()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range packets {
		found = found || bytes.Contains(p, []byte("forged"))
	}
	if !found {
		t.Errorf("not among the %d packets captured", len(packets))
	}
}

func TestChangeAddress(t *testing.T) {
	_, a, b := pair(t)
	a.ChangeAddress(netip.MustParseAddr("192.0.2.200"))
	if r := stream(t, a, b, nil); r.Lost > 0 {
		t.Errorf("%d of %d lost after the change", r.Lost, r.Sent)
	}
}

// TestHidden: a host behind a router reaches others, and only answers reach it.
func TestHidden(t *testing.T) {
	n := New(t)
	a, b, c := n.Hidden("a"), n.Host("b"), n.Hidden("c")
	pc, err := b.ListenPacket(t.Context(), b.Addr().String()+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	for _, h := range []*Host{a, c} {
		conn, err := h.Dial(t.Context(), "udp", b.Addr().String()+":7000")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := pc.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := pc.ReadFrom(make([]byte, 10))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(from.String(), "192.0.2.") {
			t.Errorf("%s shows itself as %s", h.Name(), from)
		}
		if _, err := pc.WriteTo([]byte("answer"), from); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 10)); err != nil {
			t.Errorf("no answer reaches %s: %v", h.Name(), err)
		}
	}
	in, err := a.ListenPacket(t.Context(), a.Addr().String()+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := b.Dial(t.Context(), "udp", "192.0.2.1:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Write([]byte("unasked")); err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.ReadFrom(make([]byte, 10)); err == nil {
		t.Error("what nobody asked for reaches a hidden host")
	}
}

// TestOwnSocketDirectories: equal names of WireGuard sockets do not meet.
func TestOwnSocketDirectories(t *testing.T) {
	_, a, b := pair(t)
	a.Exec("touch", "/run/wireguard/skein0.sock")
	if out := b.Exec("ls", "/run/wireguard"); out != "" {
		t.Errorf("b sees %q", out)
	}
	if out := a.Exec("ls", "/run/wireguard"); strings.TrimSpace(out) != "skein0.sock" {
		t.Errorf("a sees %q", out)
	}
	if entries, err := os.ReadDir("/run/wireguard"); err == nil {
		for _, e := range entries {
			if e.Name() == "skein0.sock" {
				t.Error("the machine sees the socket of a host")
			}
		}
	}
}

func TestDoAs(t *testing.T) {
	_, a, _ := pair(t)
	if err := a.DoAs(65534, func() error { return os.WriteFile(a.Dir()+"/x", nil, 0o600) }); !os.IsPermission(err) {
		t.Errorf("another user writes to a root's directory: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Error("the process lost its user")
	}
}

// TestSweep: namespaces of runs that died are removed with what runs in them,
// those of living ones are not.
func TestSweep(t *testing.T) {
	n := New(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := strings.Replace(n.prefix, n.prefix[len(namePrefix):strings.Index(n.prefix, "x")], strconv.Itoa(dead.Process.Pid), 1) + "left"
	if err := command("", "ip", "netns", "add", left); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("ip", "netns", "exec", left, "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if ids, err := pidsIn(left); err == nil && len(ids) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the sleeper does not enter its namespace")
		}
	}
	go func() { _ = sleeper.Wait() }() // killed by the sweep
	sweep(t)
	if statNamespace(left) == nil {
		t.Error("the namespace of a dead run is still there")
	}
	if err := statNamespace(n.bridge); err != nil {
		t.Errorf("the namespace of this run: %v", err)
	}
}

func TestOwnerOf(t *testing.T) {
	for name, want := range map[string]int{
		"sktest12x1-br": 12, "sktest": 0, "sktestx1": 0, "sktest-5x1": 0, "other12x1": 0, "sktest12": 0,
	} {
		if pid, ok := ownerOf(name); pid != want || ok != (want > 0) {
			if ok || want > 0 {
				t.Errorf("%q: %d, %t", name, pid, ok)
			}
		}
	}
}
