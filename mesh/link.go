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
	// firstRetry and maxRetry bound the intervals between attempts; they double
	// from one to the other.
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
	// wakeAfter is the silence after which a sign of life changes the plan of
	// attempts; after it they go on as if wakeTries had been made.
	wakeAfter = 3 * time.Second
	wakeTries = 3
	// freshRx is how recently bytes of a peer make another attempt needless.
	freshRx = time.Second
	// settle is how long packets still wait after the first handshake with a
	// new key of our own: the peer has to notice that handshake before it
	// takes our addresses from that key.
	settle = 50 * time.Millisecond
)

// link is what the owner knows of one peer.
//
//	         session                   180 s without one
//	held ---------------> open --------------------------> held
//	 |  attempts, rotation  |  silent 15 s: rotation only
//
// A staged link is one to a key that is only announced: nothing is done for
// it until its host starts a handshake.
type link struct {
	want topo.Peer
	// initiator is whether this side starts handshakes: the lower key does,
	// but after a change of key the host that has changed, until there is a
	// session.
	initiator bool
	held      bool
	rekeyed   bool // our own key is new to the peer; until held ends
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
	learned   netip.AddrPort   // last endpoint of a live session
	cands     []netip.AddrPort // what candidates returns, nil if not known

	tries    int
	moves    int // candidates tried in this search
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
	l.want, l.cands = p, nil
	l.addrs = l.addrs[:0:0]
	for _, a := range p.Allowed {
		l.addrs = append(l.addrs, a.Addr())
	}
}

func (l *link) staged() bool { return !l.want.Follows.IsZero() }

// yield leaves the first handshake to the peer, which has changed its key.
func (l *link) yield(now time.Time, rnd float64) {
	l.initiator = false
	l.startOver(now, rnd)
}

// rekey ends all sessions, since our own key has changed, and lets this side
// start the next ones, without waiting.
func (l *link) rekey(now time.Time, rnd float64) {
	l.shookAt, l.rxAt, l.silentAt = time.Time{}, time.Time{}, time.Time{}
	l.initiator, l.rekeyed = true, true
	l.startOver(now, rnd)
}

// startOver begins to look for the peer anew.
func (l *link) startOver(now time.Time, rnd float64) {
	l.tries, l.moves = 0, 0
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
		if !l.seen {
			// The device had this peer before us; only now is the wall clock
			// all there is to tell how long.
			l.shookAt = now.Add(-max(now.Sub(time.Unix(0, p.handshake)), 0))
		}
		shook = true
	}
	switch {
	case p.Rx != l.rx:
		if !shook && !l.rekeyed && now.Sub(l.rxAt) >= wakeAfter {
			l.wake(now)
		}
		l.rxAt, l.silentAt = now, time.Time{}
	case p.Tx != l.tx && l.silentAt.IsZero():
		l.silentAt, l.silentTx = now, l.tx
	}
	l.rx, l.tx = p.Rx, p.Tx
	l.endpoint, l.keepalive, l.allowed = p.Endpoint, p.Keepalive, p.Allowed
	l.seen = true
	if l.endpoint != l.learned && l.endpoint.IsValid() && l.reachable(now) {
		l.learned, l.cands = l.endpoint, nil
	}
	return shook
}

// wake plans the next attempt of a search anew once something came from the
// peer: the network carries packets again. A handshake should be under way, but
// both sides' may have crossed. Each device then has taken the other's attempt
// for its own and does not try again, and the next one of ours may be a minute
// away.
func (l *link) wake(now time.Time) {
	l.tries = min(l.tries, wakeTries)
	next := now.Add(freshRx)
	if !l.initiator {
		next = now.Add(otherWait)
	}
	if next.Before(l.nextTry) {
		l.nextTry = next
	}
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
	if l.cands != nil {
		return l.cands
	}
	l.cands = topo.Candidates(l.want.Endpoints)
	if l.learned.IsValid() && !slices.Contains(l.cands, l.learned) {
		l.cands = append(l.cands[:min(len(l.cands), topo.MaxEndpoints-1)], l.learned)
	}
	return l.cands
}

// attempt is what to do for a peer out of reach.
type attempt struct {
	endpoint  netip.AddrPort // zero: leave it
	handshake bool
	force     bool
}

// due decides what to do at now, and when to look again. A handshake takes a
// token; without one it waits for the next.
func (l *link) due(now time.Time, rnd float64, tokens *bucket) attempt {
	var a attempt
	if l.staged() {
		return a
	}
	if l.reachable(now) {
		// The next search begins with a full turn for the present endpoint.
		l.rotateAt = now.Add(rotateEvery + scale(rotateJitter, rnd))
		return a
	}
	live := l.live(now)
	if !now.Before(l.rotateAt) {
		pause := rotateEvery + scale(rotateJitter, rnd)
		if l.moves >= topo.MaxEndpoints {
			pause = max(pause, l.interval()) // each was tried once
		}
		l.rotateAt = now.Add(pause)
		l.moves++
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
	if a.handshake && (!l.rekeyed || l.tries > 0) && !tokens.take(now) {
		l.nextTry = now.Add(tokenEvery)
		a.handshake = false
	}
	if a.handshake {
		a.force = !l.justHeard(now)
		l.tries++
		l.nextTry = now.Add(l.interval() + scale(l.interval()/4, rnd))
	}
	return a
}

func (l *link) justHeard(now time.Time) bool {
	// Before a peer knows our new key, what it sends is of the old session.
	return !l.rekeyed && !l.rxAt.IsZero() && now.Sub(l.rxAt) < freshRx
}

// interval is the pause after the attempts so far.
func (l *link) interval() time.Duration {
	d := firstRetry
	if !l.initiator {
		d = deviceRetry
	}
	for range l.tries - 1 {
		if d *= 2; d >= maxRetry {
			return maxRetry
		}
	}
	return d
}

// Handshakes towards peers out of reach are paced, since each costs both
// sides two key exchanges: a newcomer of a large cluster would otherwise keep
// itself and everyone else busy, up to the point where devices ask for cookies
// and the first tries are lost. Peers themselves are configured all at once:
// that is cheap, and the handshake of a peer that is not configured yet would
// be thrown away. With these numbers a host starts 99 handshakes within 2 s
// and 499 within 22 s, by when the other sides have long started theirs.
const (
	tokenBurst = 64
	tokenEvery = 50 * time.Millisecond
)

// bucket holds the tokens for handshakes, full at first.
type bucket struct {
	// full is when the bucket is full again.
	full time.Time
}

func (b *bucket) take(now time.Time) bool {
	if b.full.Before(now) {
		b.full = now
	}
	if b.full.Sub(now) > (tokenBurst-1)*tokenEvery {
		return false
	}
	b.full = b.full.Add(tokenEvery)
	return true
}

// few reports whether tokens may run out soon.
func (b *bucket) few(now time.Time) bool { return b.full.Sub(now) > tokenBurst/2*tokenEvery }

func scale(d time.Duration, rnd float64) time.Duration { return time.Duration(float64(d) * rnd) }
