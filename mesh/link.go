package mesh

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/mesh/topo"
)

// Durations of reaching a peer. rnd is a jitter in [0,1).
const (
	// otherWait is what the higher key waits for the lower one, plus up to
	// otherJitter.
	otherWait   = 2 * time.Second
	otherJitter = time.Second
	// firstRetry and maxRetry bound the intervals between attempts; they grow
	// by half from one to the other.
	firstRetry = 300 * time.Millisecond
	maxRetry   = 60 * time.Second
	// deviceRetry is the interval at which the device repeats by itself.
	deviceRetry = 5 * time.Second
	// rotateEvery is the least time that a candidate gets, plus up to
	// rotateJitter.
	rotateEvery  = 5 * time.Second
	rotateJitter = time.Second
	// silence is how long a live peer may leave packets unanswered before its
	// candidates are tried; the device itself doubts it by then.
	silence = 15 * time.Second
	// silentBytes is what must have gone out meanwhile: more than a few
	// keepalives, which nobody answers.
	silentBytes = 148
	// freshRx is how recently bytes of a peer make another attempt needless.
	freshRx = time.Second
)

// link is what the owner knows of one peer.
//
//	         session                   180 s without one
//	held ---------------> open --------------------------> held
//	 |  attempts, rotation  |  silent 15 s: rotation only
type link struct {
	want      topo.Peer
	initiator bool
	held      bool
	addrs     []netip.Addr

	seen      bool  // false until the first reading
	handshake int64 // the device's stamp
	shookAt   time.Time
	rx, tx    uint64
	rxAt      time.Time // last time rx grew, zero for never
	silentAt  time.Time // since when bytes go out and none comes in
	silentTx  uint64    // tx at that time
	endpoint  netip.AddrPort
	keepalive time.Duration
	allowed   []netip.Prefix
	learned   netip.AddrPort // last endpoint of a live session

	tries    int
	nextTry  time.Time
	rotateAt time.Time
}

func newLink(p topo.Peer, own topo.Key, now time.Time, rnd float64) *link {
	l := &link{initiator: topo.Initiates(own, p.Key)}
	l.update(p)
	l.startOver(now, rnd)
	return l
}

// update takes over what is wanted of the peer now.
func (l *link) update(p topo.Peer) {
	l.want = p
	l.addrs = l.addrs[:0:0]
	for _, a := range p.Allowed {
		l.addrs = append(l.addrs, a.Addr())
	}
}

// startOver begins to look for the peer anew.
func (l *link) startOver(now time.Time, rnd float64) {
	l.tries = 0
	l.nextTry = now
	if !l.initiator {
		l.nextTry = now.Add(otherWait + scale(otherJitter, rnd))
	}
	l.rotateAt = now.Add(rotateEvery + scale(rotateJitter, rnd))
}

// see takes over a reading and reports whether a handshake was finished
// since the last one.
func (l *link) see(p peerReading, now time.Time) (shook bool) {
	if p.handshake != l.handshake && p.handshake != 0 {
		l.handshake, l.shookAt = p.handshake, now
		shook = true
	}
	switch {
	case p.Rx != l.rx:
		l.rxAt, l.silentAt = now, time.Time{}
	case p.Tx != l.tx && l.silentAt.IsZero():
		l.silentAt, l.silentTx = now, l.tx
	}
	l.rx, l.tx = p.Rx, p.Tx
	l.endpoint, l.keepalive, l.allowed = p.Endpoint, p.Keepalive, p.Allowed
	l.seen = true
	if l.live(now) && !l.silent(now) && l.endpoint.IsValid() {
		l.learned = l.endpoint
	}
	return shook
}

func (l *link) age(now time.Time) time.Duration {
	if l.shookAt.IsZero() {
		return topo.Never
	}
	return now.Sub(l.shookAt)
}

func (l *link) live(now time.Time) bool {
	age := l.age(now)
	return age >= 0 && age < topo.LiveFor
}

// silent reports whether a peer has left packets unanswered for too long.
func (l *link) silent(now time.Time) bool {
	return !l.silentAt.IsZero() && now.Sub(l.silentAt) >= silence && l.tx-l.silentTx >= silentBytes
}

// reachable reports whether there is no reason to look for the peer.
func (l *link) reachable(now time.Time) bool { return l.live(now) && !l.silent(now) }

// candidates are the wanted endpoints and the one learned last.
func (l *link) candidates() []netip.AddrPort {
	want := topo.Candidates(l.want.Endpoints)
	if !l.learned.IsValid() || slices.Contains(want, l.learned) {
		return want
	}
	if len(want) == topo.MaxEndpoints {
		want = want[:topo.MaxEndpoints-1]
	}
	return append(want, l.learned)
}

// attempt is what to do for a peer out of reach.
type attempt struct {
	endpoint  netip.AddrPort // zero: leave it
	handshake bool
	force     bool
}

// due decides what to do at now, and when to look again.
func (l *link) due(now time.Time, rnd float64) attempt {
	var a attempt
	if l.reachable(now) {
		// The next search begins with a full turn for the present endpoint.
		l.rotateAt = now.Add(rotateEvery + scale(rotateJitter, rnd))
		return a
	}
	live := l.live(now)
	if !now.Before(l.rotateAt) {
		l.rotateAt = now.Add(max(rotateEvery+scale(rotateJitter, rnd), l.interval()))
		if next, ok := topo.NextEndpoint(l.candidates(), l.endpoint); ok {
			a.endpoint = next
			// A new address deserves an attempt, by whose turn it is.
			a.handshake = l.initiator || l.tries > 0 || live
		}
	}
	if live {
		// The device has a session and tries by itself; giving that up to
		// try faster could harm one that only pauses.
		return a
	}
	if !now.Before(l.nextTry) {
		if l.justHeard(now) {
			// It is talking to us: a handshake is under way.
			l.nextTry = now.Add(freshRx)
			if !l.initiator {
				l.nextTry = now.Add(otherWait + scale(otherJitter, rnd))
			}
			return a
		}
		a.handshake = true
	}
	if a.handshake {
		a.force = !l.justHeard(now)
		l.tries++
		l.nextTry = now.Add(l.interval() + scale(l.interval()/4, rnd))
	}
	return a
}

func (l *link) justHeard(now time.Time) bool {
	return !l.rxAt.IsZero() && now.Sub(l.rxAt) < freshRx
}

// interval is the pause after the attempts so far.
func (l *link) interval() time.Duration {
	d := firstRetry
	if !l.initiator {
		d = deviceRetry
	}
	for range l.tries - 1 {
		if d += d / 2; d >= maxRetry {
			return maxRetry
		}
	}
	return d
}

func scale(d time.Duration, rnd float64) time.Duration { return time.Duration(float64(d) * rnd) }
