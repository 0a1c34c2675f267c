package reach

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/internal/bucket"
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
	// RotateEvery is the least time that a candidate gets, plus up to
	// RotateJitter.
	RotateEvery  = 5 * time.Second
	RotateJitter = time.Second
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
	// Settle is how long packets still wait after the first handshake with a
	// new key of our own: the peer has to notice that handshake before it
	// takes our addresses from that key.
	Settle = 50 * time.Millisecond
)

// Link is what the owner knows of one peer.
//
//	         session                   180 s without one
//	held ---------------> open --------------------------> held
//	 |  attempts, rotation  |  silent 15 s: rotation only
//
// A staged link is one to a key that is only announced: nothing is done for
// it until its host starts a handshake.
type Link struct {
	Want topo.Peer
	// Initiator is whether this side starts handshakes: the lower key does,
	// but after a change of key the host that has changed, until there is a
	// session.
	Initiator bool
	Held      bool
	Rekeyed   bool // our own key is new to the peer; until Held ends
	Addrs     []netip.Addr

	Seen    bool             // false until the first reading
	Last    topo.PeerReading // as the device says; its Age means nothing
	shookAt time.Time        // when the stamp of the last handshake changed
	answer  answering
	learned netip.AddrPort   // last endpoint of a live session
	cands   []netip.AddrPort // what Candidates returns, nil if not known

	Search search
}

// answering says since when a peer leaves packets unanswered.
type answering struct {
	rxAt     time.Time // last time bytes came in, zero for never
	silentAt time.Time // since when bytes go out and none comes in
	silentTx uint64    // bytes sent by that time
}

// see takes over counters of bytes that were one and are another.
func (a *answering) see(was, is topo.PeerReading, now time.Time) {
	switch {
	case is.Rx != was.Rx:
		a.rxAt, a.silentAt = now, time.Time{}
	case is.Tx != was.Tx && a.silentAt.IsZero():
		a.silentAt, a.silentTx = now, was.Tx
	}
}

// silent reports whether packets were left unanswered for too long; tx is how
// many bytes went out so far.
func (a *answering) silent(tx uint64, now time.Time) bool {
	return !a.silentAt.IsZero() && now.Sub(a.silentAt) >= silence && tx-a.silentTx >= silentBytes
}

// search is the plan of attempts to reach a peer.
type search struct {
	Tries    int // attempts so far
	moves    int // candidates tried so far
	NextTry  time.Time
	RotateAt time.Time
}

// New is the link to a peer that was never seen; own is this side's key.
func New(p topo.Peer, own topo.Key, now time.Time, rnd float64) *Link {
	l := &Link{Initiator: topo.Initiates(own, p.Key)}
	l.Update(p)
	l.StartOver(now, rnd)
	return l
}

// Update takes over what is wanted of the peer now.
func (l *Link) Update(p topo.Peer) {
	l.Want, l.cands = p, nil
	l.Addrs = l.Addrs[:0:0]
	for _, a := range p.Allowed {
		l.Addrs = append(l.Addrs, a.Addr())
	}
}

// Staged reports whether the key is only announced.
func (l *Link) Staged() bool { return !l.Want.Follows.IsZero() }

// Yield leaves the first handshake to the peer, which has changed its key.
func (l *Link) Yield(now time.Time, rnd float64) {
	l.Initiator = false
	l.StartOver(now, rnd)
}

// Rekey ends all sessions, since our own key has changed, and lets this side
// start the next ones, without waiting.
func (l *Link) Rekey(now time.Time, rnd float64) {
	l.shookAt, l.answer.rxAt, l.answer.silentAt = time.Time{}, time.Time{}, time.Time{}
	l.Initiator, l.Rekeyed = true, true
	l.StartOver(now, rnd)
}

// StartOver begins to look for the peer anew.
func (l *Link) StartOver(now time.Time, rnd float64) {
	l.Search.Tries, l.Search.moves = 0, 0
	l.Search.NextTry = now
	if !l.Initiator {
		l.Search.NextTry = now.Add(otherWait + scale(otherJitter, rnd))
	}
	l.Search.RotateAt = now.Add(RotateEvery + scale(RotateJitter, rnd))
}

// See takes over a reading and reports whether a handshake was finished
// since the last one.
func (l *Link) See(p topo.PeerReading, now time.Time) (shook bool) {
	was := l.Last
	if p.Handshake != was.Handshake && p.Handshake != 0 {
		l.shookAt = now
		if !l.Seen {
			// The device had this peer before us; only now is the wall clock
			// all there is to tell how long.
			l.shookAt = now.Add(-max(now.Sub(time.Unix(0, p.Handshake)), 0))
		}
		shook = true
	} else {
		p.Handshake = was.Handshake
	}
	if p.Rx != was.Rx && !shook && !l.Rekeyed && now.Sub(l.answer.rxAt) >= wakeAfter {
		l.wake(now)
	}
	l.answer.see(was, p, now)
	l.Last, l.Seen = p, true
	if p.Endpoint != l.learned && p.Endpoint.IsValid() && l.Reachable(now) {
		l.learned, l.cands = p.Endpoint, nil
	}
	return shook
}

// wake plans the next attempt of a search anew once something came from the
// peer: the network carries packets again. A handshake should be under way, but
// both sides' may have crossed. Each device then has taken the other's attempt
// for its own and does not try again, and the next one of ours may be a minute
// away.
func (l *Link) wake(now time.Time) {
	l.Search.Tries = min(l.Search.Tries, wakeTries)
	next := now.Add(freshRx)
	if !l.Initiator {
		next = now.Add(otherWait)
	}
	if next.Before(l.Search.NextTry) {
		l.Search.NextTry = next
	}
}

// Age is the time since the last handshake, topo.Never if there was none.
func (l *Link) Age(now time.Time) time.Duration {
	if l.shookAt.IsZero() {
		return topo.Never
	}
	return now.Sub(l.shookAt)
}

// Live reports whether there is a session that can carry data.
func (l *Link) Live(now time.Time) bool {
	age := l.Age(now)
	return age >= 0 && age < topo.LiveFor
}

// Reachable reports whether there is no reason to look for the peer.
func (l *Link) Reachable(now time.Time) bool { return l.Live(now) && !l.answer.silent(l.Last.Tx, now) }

// Candidates are the wanted endpoints and the one learned last.
func (l *Link) Candidates() []netip.AddrPort {
	if l.cands != nil {
		return l.cands
	}
	l.cands = topo.Candidates(l.Want.Endpoints)
	if l.learned.IsValid() && !slices.Contains(l.cands, l.learned) {
		l.cands = append(l.cands[:min(len(l.cands), topo.MaxEndpoints-1)], l.learned)
	}
	return l.cands
}

// Attempt is what to do for a peer out of reach.
type Attempt struct {
	Endpoint  netip.AddrPort // zero: leave it
	Handshake bool
	Force     bool
}

// Due decides what to do at now, and when to look again. A handshake takes a
// token; without one it waits for the next.
func (l *Link) Due(now time.Time, rnd float64, tokens *Pace) Attempt {
	var a Attempt
	if l.Staged() {
		return a
	}
	if l.Reachable(now) {
		// The next search begins with a full turn for the present endpoint.
		l.Search.RotateAt = now.Add(RotateEvery + scale(RotateJitter, rnd))
		return a
	}
	live := l.Live(now)
	if !now.Before(l.Search.RotateAt) {
		pause := RotateEvery + scale(RotateJitter, rnd)
		if l.Search.moves >= topo.MaxEndpoints {
			pause = max(pause, l.interval()) // each was tried once
		}
		l.Search.RotateAt = now.Add(pause)
		l.Search.moves++
		if next, ok := topo.NextEndpoint(l.Candidates(), l.Last.Endpoint); ok {
			a.Endpoint = next
			// A new address deserves an attempt, by whose turn it is.
			a.Handshake = l.Initiator || l.Search.Tries > 0 || live
		}
	}
	if live {
		// The device has a session and tries by itself; giving that up to
		// try faster could harm one that only pauses.
		return a
	}
	if !now.Before(l.Search.NextTry) {
		if l.justHeard(now) {
			// It is talking to us: a handshake is under way.
			l.Search.NextTry = now.Add(freshRx)
			if !l.Initiator {
				l.Search.NextTry = now.Add(otherWait + scale(otherJitter, rnd))
			}
			return a
		}
		a.Handshake = true
	}
	if a.Handshake && (!l.Rekeyed || l.Search.Tries > 0) && !tokens.take(now) {
		l.Search.NextTry = now.Add(tokenEvery)
		a.Handshake = false
	}
	if a.Handshake {
		a.Force = !l.justHeard(now)
		l.Search.Tries++
		l.Search.NextTry = now.Add(l.interval() + scale(l.interval()/4, rnd))
	}
	return a
}

func (l *Link) justHeard(now time.Time) bool {
	// Before a peer knows our new key, what it sends is of the old session.
	return !l.Rekeyed && !l.answer.rxAt.IsZero() && now.Sub(l.answer.rxAt) < freshRx
}

// interval is the pause after the attempts so far.
func (l *Link) interval() time.Duration {
	d := firstRetry
	if !l.Initiator {
		d = topo.RepeatEvery
	}
	for range l.Search.Tries - 1 {
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

// Pace holds the tokens for handshakes, full at first.
type Pace struct {
	bucket bucket.Bucket
	start  time.Time // of the first
}

func (b *Pace) take(now time.Time) bool { return b.bucket.Take(paceRate(), b.since(now)) }

// Few reports whether tokens may run out soon.
func (b *Pace) Few(now time.Time) bool { return b.bucket.Left(paceRate(), b.since(now)) < tokenBurst/2 }

func (b *Pace) since(now time.Time) time.Duration {
	if b.start.IsZero() {
		b.start = now
	}
	return now.Sub(b.start)
}

func paceRate() bucket.Rate {
	return bucket.Rate{PerSecond: float64(time.Second / tokenEvery), Burst: tokenBurst}
}

func scale(d time.Duration, rnd float64) time.Duration { return time.Duration(float64(d) * rnd) }
