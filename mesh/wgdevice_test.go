package mesh

import (
	"net/netip"
	"testing"
	"time"

	"github.com/skein-project/skein/mesh/topo"
)

// A handshake is not given up while its answer may be on its way through the
// device: the session would be deaf on this side.
func TestNoNewHandshakeWhileOneIsAnswered(t *testing.T) {
	a := newHost(t, 1, nil)
	d, err := openNetstack(a.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.close() }()
	peer, at := newHost(t, 2, nil).Key(), netip.MustParseAddrPort("127.0.0.1:9")
	for _, op := range []topo.Op{topo.AddPeer{Key: peer}, topo.SetEndpoint{Key: peer, Endpoint: at}} {
		if err := d.apply(op); err != nil {
			t.Fatal(err)
		}
	}
	sent := func() uint64 {
		t.Helper()
		r, err := d.observe()
		if err != nil {
			t.Fatal(err)
		}
		return r.peers[0].Tx
	}
	start := func() {
		t.Helper()
		if err := d.handshake(peer, true); err != nil {
			t.Fatal(err)
		}
	}
	sent()
	start()
	first := sent()
	start()
	if second := sent(); first == 0 || second != 2*first {
		t.Fatalf("sent %d, then %d bytes", first, second)
	}
	answer := make([]byte, 92)
	answer[0] = 2
	d.hintNow(netip.MustParseAddrPort("127.0.0.1:10"), answer) // somebody else
	start()
	d.hintNow(at, answer)
	before := sent()
	if before != 3*first {
		t.Errorf("sent %d bytes after another peer's answer, want %d", before, 3*first)
	}
	start()
	if got := sent(); got != before {
		t.Errorf("sent %d bytes during the answer", got-before)
	}
	d.mu.Lock()
	d.answered[at] = time.Now().Add(-answerTime)
	d.mu.Unlock()
	start()
	if got := sent(); got != before+first {
		t.Errorf("sent %d bytes after it, want %d", got-before, first)
	}
}
