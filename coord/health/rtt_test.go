package health

import (
	"testing"
	"time"

	"github.com/skein-project/skein/coord/wire"
)

// TestFirstRoundTripDoesNotCount: it waited for a handshake of the mesh.
func TestFirstRoundTripDoesNotCount(t *testing.T) {
	p := &RoundTrips{}
	for i, trip := range []time.Duration{900 * time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond} {
		sent := time.Duration(i+1) * time.Second
		if !taken(p, wire.Heartbeat{EchoUS: uint64(sent.Microseconds())}, sent+trip) || p.Answered() != sent {
			t.Fatalf("answer %d is none", i)
		}
		if want := []time.Duration{0, 3 * time.Millisecond, 2 * time.Millisecond}[i]; p.Mean() != want {
			t.Errorf("after %d answers: %s, want %s", i+1, p.Mean(), want)
		}
	}
}

// taken takes the round trip of an answer, if it is one.
func taken(p *RoundTrips, hb wire.Heartbeat, at time.Duration) bool {
	trip, ok := p.Echo(hb, at)
	if ok {
		p.Sample(trip)
	}
	return ok
}

// TestFirstRoundTripsDoNotLast: the first answers wait for a handshake of the
// mesh.
func TestFirstRoundTripsDoNotLast(t *testing.T) {
	p := &RoundTrips{}
	at := time.Hour
	for i, trip := range []time.Duration{2 * time.Second, time.Second, time.Millisecond, 3 * time.Millisecond} {
		at += time.Second
		taken(p, wire.Heartbeat{EchoUS: uint64((at - trip).Microseconds())}, at)
		if i >= 2 && p.Mean() > 3*time.Millisecond {
			t.Errorf("round trip %s after %d answers", p.Mean(), i+1)
		}
	}
	for range 100 {
		at += time.Second
		taken(p, wire.Heartbeat{EchoUS: uint64((at - 9*time.Millisecond).Microseconds())}, at)
	}
	if p.Mean() < 8*time.Millisecond || p.Mean() > 9*time.Millisecond {
		t.Errorf("round trip %s, all answers take 9 ms", p.Mean())
	}
}
