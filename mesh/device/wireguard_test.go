package device

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/skein-project/skein/mesh/topo"
)

// idleTUN is a tun.Device through which nothing passes.
type idleTUN struct {
	events chan tun.Event
	closed chan struct{}
}

func (t *idleTUN) File() *os.File                          { return nil }
func (t *idleTUN) MTU() (int, error)                       { return topo.DefaultMTU, nil }
func (t *idleTUN) Name() (string, error)                   { return "idle", nil }
func (t *idleTUN) Events() <-chan tun.Event                { return t.events }
func (t *idleTUN) BatchSize() int                          { return 1 }
func (t *idleTUN) Write(bufs [][]byte, _ int) (int, error) { return len(bufs), nil }
func (t *idleTUN) Read([][]byte, []int, int) (int, error) {
	<-t.closed
	return 0, os.ErrClosed
}

func (t *idleTUN) Close() error {
	close(t.events)
	close(t.closed)
	return nil
}

// start runs a device without an interface on a free port.
func start(t *testing.T) *WireGuard {
	t.Helper()
	d := New(NewGate())
	listen := netip.MustParseAddrPort("127.0.0.1:0")
	o := Options{PrivateKey: [topo.KeyLen]byte{1: 1}, Listen: listen, Logger: zerolog.Nop()}
	none := &idleTUN{events: make(chan tun.Event), closed: make(chan struct{})}
	if err := d.Start(none, newBind(listen.Addr(), d.HintNow), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A handshake is not given up while its answer may be on its way through the
// device: the session would be deaf on this side.
func TestNoNewHandshakeWhileOneIsAnswered(t *testing.T) {
	d := start(t)
	peer, err := topo.PublicKey([topo.KeyLen]byte{1: 2})
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("127.0.0.1:9")
	for _, op := range []topo.Op{topo.AddPeer{Key: peer}, topo.SetEndpoint{Key: peer, Endpoint: at}} {
		if err := d.Apply(op); err != nil {
			t.Fatal(err)
		}
	}
	sent := func() uint64 {
		t.Helper()
		r, err := d.Observe()
		if err != nil {
			t.Fatal(err)
		}
		return r.Peers[0].Tx
	}
	shake := func() {
		t.Helper()
		if err := d.Handshake(peer, true); err != nil {
			t.Fatal(err)
		}
	}
	sent()
	shake()
	first := sent()
	shake()
	if second := sent(); first == 0 || second != 2*first {
		t.Fatalf("sent %d, then %d bytes", first, second)
	}
	answer := make([]byte, 92)
	answer[0] = 2
	d.HintNow(netip.MustParseAddrPort("127.0.0.1:10"), answer) // somebody else
	shake()
	d.HintNow(at, answer)
	before := sent()
	if before != 3*first {
		t.Errorf("sent %d bytes after another peer's answer, want %d", before, 3*first)
	}
	shake()
	if got := sent(); got != before {
		t.Errorf("sent %d bytes during the answer", got-before)
	}
	d.mu.Lock()
	d.answered[at] = time.Now().Add(-answerTime)
	d.mu.Unlock()
	shake()
	if got := sent(); got != before+first {
		t.Errorf("sent %d bytes after it, want %d", got-before, first)
	}
}
