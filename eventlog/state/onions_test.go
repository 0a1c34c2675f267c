package state

import (
	"crypto/ed25519"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// onionOf is a setting signed by the onion key that a byte names.
func onionOf(name byte, version uint64, clients ...event.OnionClient) event.OnionSet {
	key := ed25519.NewKeyFromSeed(append(make([]byte, 31), name))
	b := event.OnionSet{Key: key.Public().(ed25519.PublicKey), Version: version, Clients: clients, Removed: version == 2, Actor: "uid:0@a"}
	b.Sig = ed25519.Sign(key, b.SignedBytes())
	return b
}

// TestOnions: the highest version that the address's own key signed counts,
// whatever the order.
func TestOnions(t *testing.T) {
	forged := onionOf(1, 9)
	forged.Version = 10
	foreign := onionOf(2, 9)
	foreign.Key = onionOf(1, 1).Key
	a := newChain("a")
	a.add(1, 0, event.KindOnionSet, onionOf(1, 3, event.OnionClient{Name: "ann", Key: make([]byte, 32)}))
	for i, b := range []event.OnionSet{onionOf(1, 1), forged, foreign, onionOf(2, 2), onionOf(3, 1), {}} {
		a.add(cluster.HLC(2+i), 0, event.KindOnionSet, b)
	}
	s := New()
	for _, e := range a.events {
		s.Apply(e)
	}
	got := s.Onions()
	if len(got) != 2 || got[0].Version != 3 || len(got[0].Clients) != 1 || got[1].Version != 1 {
		t.Errorf("onions %+v", got)
	}
	if gone := s.Onion(onionKey(onionOf(2, 2).Key)); gone.Version != 2 {
		t.Errorf("removed onion %+v", gone)
	}
	if s.malformed != 3 {
		t.Errorf("%d malformed, want the forged, the foreign and the empty one", s.malformed)
	}
}
