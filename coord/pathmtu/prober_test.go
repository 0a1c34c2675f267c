package pathmtu

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// TestProbes: a host whose answers name the size is not probed again for a while;
// six datagrams without one, while small packets are answered, are a black hole.
func TestProbes(t *testing.T) {
	host := cluster.Member{Node: "b", IP4: netip.MustParseAddr("10.0.0.2")}
	now := time.Hour
	peer := Peer{Path: &Path{}, Answers: true}
	sent, size, holes := 0, 0, 0
	r, err := New(Options{
		MTU: func() int { return 1420 }, Rand: func() float64 { return 0 }, Large: func() bool { return false },
		Peer:   func(n cluster.NodeID) (Peer, bool) { return peer, n == host.Node },
		Member: func(cluster.NodeID) (cluster.Member, bool) { return host, true },
		Send: func(_ cluster.Member, n int, _ time.Duration) error {
			sent, size = sent+1, n
			return nil
		},
		Found: func(n cluster.NodeID, from, to int) {
			holes++
			if n != host.Node || from != 1420 || to != 1380 {
				t.Errorf("black hole to %s from %d to %d", n, from, to)
			}
		},
		Logger: zerolog.Nop(), Gate: loglimit.New(func() time.Duration { return now }, time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(d time.Duration) {
		for end := now + d; now < end; now += time.Second {
			peer.Answered = now // what is small is answered
			r.Look(now, []cluster.Member{{Node: "self"}, host}, 0)
		}
	}
	look(time.Second)
	if sent != 1 || size != 1392 {
		t.Fatalf("%d datagrams of %d bytes", sent, size)
	}
	r.Heard(peer.Path, host.Node, &wire.Heartbeat{ProbeEcho: 1392}, 2, now)
	if look(40 * time.Second); sent != 1 || peer.Proven() != 1420 {
		t.Fatalf("%d datagrams, proven %d", sent, peer.Proven())
	}
	peer.Again()
	if look(20 * time.Second); sent != 7 || holes != 1 || peer.Proven() != 0 {
		t.Errorf("%d datagrams, %d black holes, proven %d", sent, holes, peer.Proven())
	}
}

// TestEcho: what came is repeated for ten seconds.
func TestEcho(t *testing.T) {
	p := &Path{}
	r := &Prober{}
	r.Heard(p, "b", &wire.Heartbeat{Probe: 1392}, 2, time.Hour)
	for after, want := range map[time.Duration]uint32{9 * time.Second: 1392, 10 * time.Second: 0} {
		if got := p.Echo(time.Hour + after); got != want {
			t.Errorf("after %s: %d, want %d", after, got, want)
		}
	}
}
