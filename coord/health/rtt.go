package health

import (
	"time"

	"github.com/skein-project/skein/coord/wire"
)

const (
	// maxRTT bounds a credible echo.
	maxRTT = time.Minute
	// firstRTTs are the samples of which the least counts, all but the very
	// first: that one waited for a handshake of the mesh.
	firstRTTs = 8
)

// RoundTrips measures the way to a host and back. The zero value has measured
// nothing.
type RoundTrips struct {
	echoed  time.Duration // when the newest heartbeat that it answered was sent
	mean    time.Duration // smoothed; 0 if not measured
	samples int           // in mean, counted up to firstRTTs
}

// Mean is the smoothed round trip, 0 if none was measured.
func (r *RoundTrips) Mean() time.Duration { return r.mean }

// Answered is the local time when the newest heartbeat or probe that the host
// answered was sent, 0 if it answered none.
func (r *RoundTrips) Answered() time.Duration { return r.echoed }

// Measured reports whether there was a round trip since Restart.
func (r *RoundTrips) Measured() bool { return r.samples > 0 }

// Answer notes the answer to a probe of that time.
func (r *RoundTrips) Answer(sent time.Duration) { r.echoed = max(r.echoed, sent) }

// Echo takes the round trip from a heartbeat's echo; ok says that the heartbeat
// answers one of this host.
func (r *RoundTrips) Echo(hb wire.Heartbeat, at time.Duration) (trip time.Duration, ok bool) {
	if hb.EchoUS == 0 {
		return 0, false
	}
	sent := time.Duration(hb.EchoUS) * time.Microsecond
	trip = at - sent - time.Duration(hb.HeldUS)*time.Microsecond
	if trip < -time.Millisecond || trip > maxRTT {
		return 0, false // of an earlier start, or nonsense
	}
	r.Answer(sent)
	return max(trip, time.Microsecond), true
}

// Sample takes a round trip; it reports whether it counts.
func (r *RoundTrips) Sample(trip time.Duration) bool {
	switch {
	case r.samples == 0:
		r.samples++
		return false
	case r.samples == 1:
		r.mean = trip
	case r.samples < firstRTTs:
		r.mean = min(r.mean, trip)
	default:
		r.mean += (trip - r.mean) / 8
	}
	r.samples = min(r.samples+1, firstRTTs)
	return true
}

// Restart begins anew: the path may be another one.
func (r *RoundTrips) Restart() { r.samples = 0 }
