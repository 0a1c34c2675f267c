package device

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/skein-project/skein/mesh/topo"
)

// packet4 is an IPv4 header with a number in it.
func packet4(src, dst string, n int) []byte {
	p := make([]byte, 24)
	p[0] = 0x45
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(p[12:], s[:])
	copy(p[16:], d[:])
	binary.BigEndian.PutUint32(p[20:], uint32(n))
	return p
}

func packet6(src, dst string) []byte {
	p := make([]byte, 40)
	p[0] = 0x60
	s, d := netip.MustParseAddr(src).As16(), netip.MustParseAddr(dst).As16()
	copy(p[8:], s[:])
	copy(p[24:], d[:])
	return p
}

func drain(g *Gate) []int {
	var ns []int
	for p := g.Next(); p != nil; p = g.Next() {
		ns = append(ns, int(binary.BigEndian.Uint32(p[20:])))
	}
	return ns
}

func TestGateHoldsAndReleasesInOrder(t *testing.T) {
	g := NewGate()
	k := topo.Key{1}
	if g.Hold(packet4("10.0.0.1", "10.0.0.2", 0)) {
		t.Error("held without a closed peer")
	}
	g.Close(k, []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")})
	const extra = 5
	for i := range MaxHeld + extra {
		if !g.Hold(packet4("10.0.0.1", "10.0.0.2", i)) {
			t.Fatal("not held")
		}
	}
	if g.Hold(packet4("10.0.0.1", "10.0.0.3", 0)) || g.Hold(packet6("fd00::1", "fd00::3")) {
		t.Error("held for another peer")
	}
	if !g.Hold(packet6("fd00::1", "fd00::2")) {
		t.Error("second address not held")
	}
	if c := g.Counters(); c.Dropped != extra+1 || c.Held != MaxHeld+extra+1 {
		t.Errorf("counters %+v", c)
	}
	g.Open(k)
	select {
	case <-g.Released():
	default:
		t.Error("nobody was told")
	}
	for i := range MaxHeld - 1 {
		if p := g.Next(); p == nil || int(binary.BigEndian.Uint32(p[20:])) != extra+1+i {
			t.Fatalf("packet %d is %v: the oldest must go, the rest keep their order", i, p)
		}
	}
	if p := g.Next(); len(p) != 40 {
		t.Errorf("last packet has %d bytes", len(p))
	}
	if g.Next() != nil || g.Hold(packet4("10.0.0.1", "10.0.0.2", 0)) || g.closed.Load() != 0 {
		t.Error("still closed")
	}
}

func TestGateOpensWhenHeard(t *testing.T) {
	g := NewGate()
	k := topo.Key{1}
	g.Close(k, []netip.Addr{netip.MustParseAddr("10.0.0.2")})
	g.Hold(packet4("10.0.0.1", "10.0.0.2", 7))
	g.Heard(packet4("10.0.0.3", "10.0.0.1", 0))
	g.Heard([]byte{0x45})
	g.Heard(nil)
	if got := drain(g); len(got) != 0 {
		t.Fatalf("let go by strangers: %v", got)
	}
	g.Heard(packet4("10.0.0.2", "10.0.0.1", 0))
	if got := drain(g); len(got) != 1 || got[0] != 7 {
		t.Errorf("let go %v, want [7]", got)
	}
}

func TestGateForgetsAndMoves(t *testing.T) {
	g := NewGate()
	k := topo.Key{1}
	old, now := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	g.Close(k, []netip.Addr{old})
	g.Hold(packet4("10.0.0.1", "10.0.0.2", 1))
	g.Close(k, []netip.Addr{now}) // the peer's address changed
	if g.Hold(packet4("10.0.0.1", "10.0.0.2", 2)) || !g.Hold(packet4("10.0.0.1", "10.0.0.3", 3)) {
		t.Error("old address held or new one not")
	}
	g.Forget(k)
	if got := drain(g); len(got) != 0 {
		t.Errorf("let go %v", got)
	}
	if c := g.Counters(); c.Dropped != 2 || g.closed.Load() != 0 || len(g.byAddr) != 0 {
		t.Errorf("left behind: %+v, %d closed, %d addresses", c, g.closed.Load(), len(g.byAddr))
	}
}

// FuzzAddresses feeds any bytes to the gate as packets of either direction.
func FuzzAddresses(f *testing.F) {
	f.Add([]byte{})
	f.Add(packet4("10.0.0.1", "10.0.0.2", 1))
	f.Add(packet6("fd00::1", "fd00::2"))
	f.Add([]byte{0x45, 0})
	f.Add([]byte{0x6f, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		g := NewGate()
		g.Close(topo.Key{1}, []netip.Addr{netip.MustParseAddr("10.0.0.2")})
		src, dst, ok := addresses(p)
		if ok && (!src.IsValid() || !dst.IsValid()) {
			t.Error("accepted without addresses")
		}
		g.Heard(p)
		if g.Hold(p) && dst != netip.MustParseAddr("10.0.0.2") {
			t.Error("held for nobody")
		}
	})
}
