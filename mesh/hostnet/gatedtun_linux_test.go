package hostnet

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/tun"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// pipeTUN is a tun.Device whose packets come out of a pipe, one byte a packet:
// the last one of its destination address. A read returns all that is there.
type pipeTUN struct {
	tun.Device
	r, w   *os.File
	events chan tun.Event
}

func newPipeTUN(t *testing.T) *pipeTUN {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeTUN{r: r, w: w, events: make(chan tun.Event)}
	t.Cleanup(func() { r.Close(); w.Close(); close(p.events) })
	return p
}

func (p *pipeTUN) File() *os.File                          { return p.r }
func (p *pipeTUN) Events() <-chan tun.Event                { return p.events }
func (p *pipeTUN) Write(bufs [][]byte, _ int) (int, error) { return len(bufs), nil }
func (p *pipeTUN) Read(bufs [][]byte, sizes []int, at int) (int, error) {
	raw := make([]byte, len(bufs))
	n, err := p.r.Read(raw)
	for i := range n {
		sizes[i] = copy(bufs[i][at:], packetTo(netip.MustParseAddr("10.86.0.1"), addrOf(raw[i])))
	}
	return n, err
}

func addrOf(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 86, 1, b}) }

// Packets of a peer keep their order across the gate, others pass, and a
// reader that waits is woken by who opens it.
func TestGatedTUN(t *testing.T) {
	inner := newPipeTUN(t)
	g := device.NewGate()
	dev := newGatedTUN(inner, g)
	const offset = 16
	bufs, sizes := make([][]byte, 4), make([]int, 4)
	for i := range bufs {
		bufs[i] = make([]byte, 200)
	}
	read := func() string {
		t.Helper()
		var got []byte
		n, err := dev.Read(bufs, sizes, offset)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if sizes[i] > 0 {
				got = append(got, bufs[i][offset+19])
			}
		}
		return string(got)
	}
	put := func(s string) {
		t.Helper()
		if _, err := io.WriteString(inner.w, s); err != nil {
			t.Fatal(err)
		}
	}
	a, b := topo.Key{1}, topo.Key{2}
	g.Close(a, []netip.Addr{addrOf('a')})
	g.Close(b, []netip.Addr{addrOf('b')})
	put("abca")
	if got := read(); got != "c" {
		t.Errorf("while two are held: %q", got)
	}
	// A reader waits; what it waits for is let go by a packet from the peer.
	woken := make(chan string)
	go func() { woken <- read() }()
	if _, err := dev.Write([][]byte{append(make([]byte, offset), packetTo(addrOf('a'), addrOf('z'))...)}, offset); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-woken:
		if got != "aa" {
			t.Errorf("let go: %q", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("reader not woken")
	}
	// What comes after the gate opened stays behind what it held.
	put("bb")
	put("ab")
	if got := read(); got != "a" {
		t.Errorf("with one held: %q", got)
	}
	put("bc")
	g.Open(b)
	if got := read() + read(); got != "bbbbbc" {
		t.Errorf("after the gate opened: %q", got)
	}
	if c := g.Counters(); c.Dropped != 0 {
		t.Errorf("%d packets dropped", c.Dropped)
	}
	inner.w.Close()
	if _, err := dev.Read(bufs, sizes, offset); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// packetTo is an IPv4 header of a packet to an address.
func packetTo(from, to netip.Addr) []byte {
	p := []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0}
	return append(append(p, from.AsSlice()...), to.AsSlice()...)
}
