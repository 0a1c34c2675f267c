package reach

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/mesh/topo"
)

var (
	low  = topo.Key{1}
	high = topo.Key{2}
	t0   = time.Unix(1_800_000_000, 0)
)

func endpoints(n int) []netip.AddrPort {
	var eps []netip.AddrPort
	for i := range n {
		eps = append(eps, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 51820))
	}
	return eps
}

// seek runs a link that nobody answers and returns when it tried and moved.
func seek(l *Link, until time.Duration) (tries, moves []time.Duration) {
	var tokens Pace
	for d := time.Duration(0); d <= until; d += 10 * time.Millisecond {
		a := l.Due(t0.Add(d), 0, &tokens)
		if a.Endpoint.IsValid() {
			moves = append(moves, d)
			l.Last.Endpoint = a.Endpoint
		}
		if a.Handshake {
			tries = append(tries, d)
			if !a.Force {
				panic("an attempt that the device would skip")
			}
		}
	}
	return tries, moves
}

func TestLowerKeyStartsAtOnce(t *testing.T) {
	l := New(topo.Peer{Key: high, Endpoints: endpoints(1)}, low, t0, 0.5)
	l.Last.Endpoint = endpoints(1)[0]
	tries, moves := seek(l, 10*time.Minute)
	if tries[0] != 0 || tries[1] != firstRetry {
		t.Errorf("attempts at %v", tries[:2])
	}
	if len(moves) != 0 {
		t.Errorf("moved with one candidate: %v", moves)
	}
	for i, at := range tries[1:] {
		if gap := at - tries[i]; gap > maxRetry {
			t.Errorf("gap of %s", gap)
		}
	}
	if last := tries[len(tries)-1] - tries[len(tries)-2]; last != maxRetry {
		t.Errorf("last gap is %s, want %s", last, maxRetry)
	}
}

func TestHigherKeyWaits(t *testing.T) {
	for _, rnd := range []float64{0, 0.5, 0.999} {
		l := New(topo.Peer{Key: low, Endpoints: endpoints(1)}, high, t0, rnd)
		l.Last.Endpoint = endpoints(1)[0]
		tries, _ := seek(l, time.Minute)
		want := (otherWait + scale(otherJitter, rnd)).Round(10 * time.Millisecond)
		if d := tries[0] - want; d < 0 || d > 10*time.Millisecond {
			t.Errorf("jitter %g: first attempt after %s, want %s", rnd, tries[0], want)
		}
	}
	// Heard meanwhile: the other one is at it, wait again.
	l := New(topo.Peer{Key: low, Endpoints: endpoints(1)}, high, t0, 0)
	l.See(topo.PeerReading{ObservedPeer: topo.ObservedPeer{Rx: 148}}, t0.Add(otherWait-freshRx/2))
	if a := l.Due(t0.Add(otherWait), 0, &Pace{}); a.Handshake {
		t.Error("started although the other side is talking")
	}
	if a := l.Due(t0.Add(2*otherWait), 0, &Pace{}); !a.Handshake || !a.Force {
		t.Error("did not start in the end")
	}
}

func TestRotation(t *testing.T) {
	l := New(topo.Peer{Key: high, Endpoints: endpoints(3)}, low, t0, 0)
	l.Last.Endpoint = endpoints(1)[0]
	_, moves := seek(l, 10*time.Minute)
	if want := []time.Duration{5 * time.Second, 10 * time.Second}; !slices.Equal(moves[:2], want) {
		t.Errorf("moved at %v, want %v", moves[:2], want)
	}
	for i, at := range moves[1:] {
		if gap := at - moves[i]; gap < RotateEvery || gap > maxRetry {
			t.Errorf("gap of %s", gap)
		}
	}
}

func TestLinkLife(t *testing.T) {
	eps := endpoints(3)
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	reading := func(rx, tx uint64) topo.PeerReading {
		return topo.PeerReading{Handshake: 1, ObservedPeer: topo.ObservedPeer{Rx: rx, Tx: tx, Endpoint: eps[2]}}
	}
	l := New(topo.Peer{Key: high, Endpoints: eps[:2]}, low, t0, 0)
	if l.Reachable(t0) || l.Age(t0) != topo.Never {
		t.Error("reachable before a handshake")
	}
	l.See(topo.PeerReading{}, t0)
	if !l.See(reading(1000, 1000), at(0)) || l.See(reading(1000, 1000), at(0)) {
		t.Error("handshake reported not once")
	}
	if !l.Reachable(at(0)) || !slices.Equal(l.Candidates(), eps) {
		t.Errorf("reachable %t, candidates %v: what the device learned must be one", l.Reachable(at(0)), l.Candidates())
	}
	if a := l.Due(at(time.Second), 0, &Pace{}); a != (Attempt{}) {
		t.Errorf("tried for a peer in reach: %+v", a)
	}
	// Only a keepalive goes out: nobody answers those.
	l.See(reading(1000, 1032), at(25*time.Second))
	if l.See(reading(1000, 1064), at(50*time.Second)); !l.Reachable(at(50 * time.Second)) {
		t.Error("an idle peer is out of reach")
	}
	// Data goes out and nothing comes back: other candidates, same session.
	l.See(reading(2000, 1100), at(60*time.Second))
	l.See(reading(2000, 2000), at(61*time.Second))
	if !l.Reachable(at(61*time.Second)) || l.Reachable(at(61*time.Second+silence)) {
		t.Error("silence not noticed, or too early")
	}
	l.Due(at(61*time.Second), 0, &Pace{})
	a := l.Due(at(61*time.Second+silence), 0, &Pace{})
	if !a.Endpoint.IsValid() || !a.Handshake || a.Force {
		t.Errorf("a live, silent peer: %+v, want another endpoint and a gentle attempt", a)
	}
	// It answers: all is well.
	l.See(reading(3000, 2000), at(80*time.Second))
	if !l.Reachable(at(80 * time.Second)) {
		t.Error("out of reach though it answers")
	}
	if l.Live(at(topo.LiveFor)) {
		t.Error("session outlives its keys")
	}
	if l.Live(at(-time.Second)) {
		t.Error("session before its handshake")
	}
}

func TestCandidatesBounded(t *testing.T) {
	l := New(topo.Peer{Key: high, Endpoints: endpoints(7)}, low, t0, 0)
	l.learned = netip.MustParseAddrPort("198.51.100.1:1")
	if c := l.Candidates(); len(c) != topo.MaxEndpoints || !slices.Contains(c, l.learned) {
		t.Errorf("candidates %v", c)
	}
}

// Each candidate gets its turn before the search slows down.
func TestFirstRoundIsQuick(t *testing.T) {
	l := New(topo.Peer{Key: high, Endpoints: endpoints(5)}, low, t0, 0)
	l.Last.Endpoint = endpoints(1)[0]
	_, moves := seek(l, time.Minute)
	for i := range 4 {
		if want := time.Duration(i+1) * RotateEvery; moves[i] != want {
			t.Errorf("candidate %d after %s, want %s", i+2, moves[i], want)
		}
	}
}

func TestHandshakesArePaced(t *testing.T) {
	var (
		b     Pace
		taken int
	)
	for d := time.Duration(0); d < 10*time.Second; d += time.Millisecond {
		for b.take(t0.Add(d)) {
			taken++
		}
		if limit := tokenBurst + int(d/tokenEvery); taken > limit {
			t.Fatalf("%d handshakes after %s, at most %d are allowed", taken, d, limit)
		}
	}
	if want := tokenBurst + 10*20 - 1; taken != want {
		t.Errorf("%d handshakes in 10 s, want %d", taken, want)
	}
	// A link without a token waits for it and loses no turn.
	l := New(topo.Peer{Key: high, Endpoints: endpoints(1)}, low, t0, 0)
	at := t0.Add(10 * time.Second)
	for b.take(at) {
	}
	if a := l.Due(at, 0, &b); a.Handshake || l.Search.Tries != 0 || !l.Search.NextTry.Equal(at.Add(tokenEvery)) {
		t.Errorf("without a token: %+v, %d tries, next in %s", a, l.Search.Tries, l.Search.NextTry.Sub(at))
	}
	if a := l.Due(at.Add(tokenEvery), 0, &b); !a.Handshake {
		t.Error("no handshake although there is a token")
	}
	// A new key of our own goes out to everyone at once.
	for b.take(at) {
	}
	l.Rekey(at, 0)
	if a := l.Due(at, 0, &b); !a.Handshake || !a.Force {
		t.Errorf("after a change of key: %+v", a)
	}
	if a := l.Due(at.Add(firstRetry), 0, &b); !a.Handshake {
		t.Errorf("second attempt: %+v", a)
	}
}

// A change of key lets the host that changed start, whatever the order of keys.
func TestWhoStartsAfterAChangeOfKey(t *testing.T) {
	l := New(topo.Peer{Key: high, Endpoints: endpoints(1)}, low, t0, 0)
	l.Yield(t0, 0)
	if a := l.Due(t0, 0, &Pace{}); a.Handshake {
		t.Error("the peer has changed its key and starts, not we")
	}
	if a := l.Due(t0.Add(otherWait), 0, &Pace{}); !a.Handshake {
		t.Error("the peer did not start: our turn")
	}
	l = New(topo.Peer{Key: low, Endpoints: endpoints(1)}, high, t0, 0)
	l.See(topo.PeerReading{}, t0)
	l.See(topo.PeerReading{Handshake: 1, ObservedPeer: topo.ObservedPeer{Rx: 1000}}, t0)
	l.Rekey(t0.Add(time.Second), 0)
	if l.Live(t0.Add(time.Second)) {
		t.Error("sessions outlive the key")
	}
	if a := l.Due(t0.Add(time.Second), 0, &Pace{}); !a.Handshake || !a.Force {
		t.Errorf("our key is new: we start, but %+v", a)
	}
	l = New(topo.Peer{Key: high, Follows: low, Endpoints: endpoints(1)}, low, t0, 0)
	if a := l.Due(t0.Add(time.Hour), 0, &Pace{}); a != (Attempt{}) {
		t.Errorf("a key that is only announced: %+v", a)
	}
}

// A session that the device has from an earlier run counts by its real age.
func TestAdoptedSession(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		live bool
	}{{0, true}, {time.Minute, true}, {topo.LiveFor, false}, {time.Hour, false}, {-time.Hour, true}} {
		l := New(topo.Peer{Key: high, Endpoints: endpoints(1)}, low, t0, 0)
		l.See(topo.PeerReading{Handshake: t0.Add(-c.age).UnixNano()}, t0)
		if l.Live(t0) != c.live {
			t.Errorf("session of %s ago: live %t", c.age, l.Live(t0))
		}
	}
}
