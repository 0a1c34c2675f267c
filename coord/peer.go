package coord

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

const (
	// maxRTT bounds a credible echo.
	maxRTT = time.Minute
	// firstRTTs are the samples of which the least counts, all but the very
	// first: that one waited for a handshake of the mesh.
	firstRTTs = 8
	// logSamples and caughtUpWithin say how old a state of the own log may be
	// for a host that has it to count as caught up.
	logSamples     = 32
	caughtUpWithin = 3 * time.Second
)

// peerState is what the loop remembers of another member.
type peerState struct {
	node         cluster.NodeID
	since        time.Duration  // when it became a member here
	beat         wire.Heartbeat // last one
	beatAt       time.Duration  // when it came; 0: none yet
	skew         time.Duration  // of its clock, by that one
	sentAt       time.Duration  // last heartbeat to it
	introducedAt time.Duration  // last introduction to it
	departs      time.Duration  // until when the lease does without it, see Depart
	caughtUp     bool
	core         reported
	rtt          roundTrips
	compat       compatibility
	left         lastWord
	probe        probeState
	twin         twinState
}

// reported is what the lease core was last told about a host.
type reported struct {
	lease.PeerChanged
	known bool // it was told something
}

// twinState is about a second process with a host's identity.
type twinState struct {
	seenBoot uint64 // what the host's last heartbeat says to hear of this host, if that is two
	found    bool   // two processes of the host are heard
}

// lastWord is the message by which a start of a host said that it leaves.
type lastWord struct{ boot, seq uint64 }

// overtakes reports whether m was on its way while its host ended.
func (w lastWord) overtakes(m wire.Message) bool { return m.Boot == w.boot && m.Seq < w.seq }

// compatibility says what a host cannot take part in.
type compatibility struct {
	major   bool   // it runs another major version
	profile bool   // it has another profile
	why     string // for people; empty: nothing
}

// roundTrips measures the way to a host and back.
type roundTrips struct {
	echoed  time.Duration // when the newest heartbeat that it answered was sent
	mean    time.Duration // smoothed; 0 if not measured
	samples int           // in mean, counted up to firstRTTs
}

// echo takes the round trip from a heartbeat's echo; ok says that the heartbeat
// answers one of this host.
func (r *roundTrips) echo(hb wire.Heartbeat, at time.Duration) (trip time.Duration, ok bool) {
	if hb.EchoUS == 0 {
		return 0, false
	}
	sent := time.Duration(hb.EchoUS) * time.Microsecond
	trip = at - sent - time.Duration(hb.HeldUS)*time.Microsecond
	if trip < -time.Millisecond || trip > maxRTT {
		return 0, false // of an earlier start, or nonsense
	}
	r.echoed = max(r.echoed, sent)
	return max(trip, time.Microsecond), true
}

// sample takes a round trip; it reports whether it counts.
func (r *roundTrips) sample(trip time.Duration) bool {
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

// restart begins anew: the path may be another one.
func (r *roundTrips) restart() { r.samples = 0 }

// ownLog remembers the latest states of the own log.
type ownLog struct {
	read    func() LogState
	within  time.Duration // that a host may be behind and count as caught up
	samples []logSample   // ring, newest last
}

// logSample is a state of the own log.
type logSample struct {
	LogState
	at time.Duration
}

// newest is the newest sample.
func (l *ownLog) newest() LogState {
	if len(l.samples) == 0 {
		return l.read()
	}
	return l.samples[len(l.samples)-1].LogState
}

// sample notes the state of the log, at most every 50 ms.
func (l *ownLog) sample(now time.Duration) {
	if n := len(l.samples); n > 0 && now-l.samples[n-1].at < 50*time.Millisecond {
		return
	}
	if len(l.samples) == logSamples {
		l.samples = append(l.samples[:0], l.samples[1:]...)
	}
	l.samples = append(l.samples, logSample{LogState: l.read(), at: now})
}

// coveredBy reports whether a log like this lacks nothing that the own one has
// had for a few seconds.
func (l *ownLog) coveredBy(digest wire.Digest, events uint64, now time.Duration) bool {
	for _, old := range slices.Backward(l.samples) {
		if digest == wire.Digest(old.Digest) {
			return true
		}
		if events >= old.Events && old.Events > 0 {
			return true
		}
		if now-old.at > l.within {
			break
		}
	}
	return false
}
