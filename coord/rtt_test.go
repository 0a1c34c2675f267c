package coord

import (
	"testing"
	"time"

	"github.com/skein-project/skein/coord/wire"
)

// TestFirstRoundTripDoesNotCount: it waited for a handshake of the mesh.
func TestFirstRoundTripDoesNotCount(t *testing.T) {
	p := &peerState{node: "b"}
	for i, trip := range []time.Duration{900 * time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond} {
		sent := time.Duration(i+1) * time.Second
		if !taken(p, wire.Heartbeat{EchoUS: uint64(sent.Microseconds())}, sent+trip) || p.rtt.echoed != sent {
			t.Fatalf("answer %d is none", i)
		}
		if want := []time.Duration{0, 3 * time.Millisecond, 2 * time.Millisecond}[i]; p.rtt.mean != want {
			t.Errorf("after %d answers: %s, want %s", i+1, p.rtt.mean, want)
		}
	}
}

// taken takes the round trip of an answer, if it is one.
func taken(p *peerState, hb wire.Heartbeat, at time.Duration) bool {
	trip, ok := p.rtt.echo(hb, at)
	if ok {
		p.rtt.sample(trip)
	}
	return ok
}
