package coord

import (
	"testing"
	"time"

	"github.com/skein-project/skein/coord/wire"
)

// TestFirstRoundTripDoesNotCount: it waited for a handshake of the mesh.
func TestFirstRoundTripDoesNotCount(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, p := &Service{m: m}, &peerState{node: "b"}
	for i, trip := range []time.Duration{900 * time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond} {
		sent := time.Duration(i+1) * time.Second
		if !s.measure(p, wire.Heartbeat{EchoUS: uint64(sent.Microseconds())}, sent+trip) || p.echoed != sent {
			t.Fatalf("answer %d is none", i)
		}
		if want := []time.Duration{0, 3 * time.Millisecond, 2 * time.Millisecond}[i]; p.rtt != want {
			t.Errorf("after %d answers: %s, want %s", i+1, p.rtt, want)
		}
	}
}
