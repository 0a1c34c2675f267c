package deviceplan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// TestFoundEndpoints: peers whose endpoints are all dead get some that were found, each of them in
// its turn, none at which another peer is, and keep their own first ones; others keep what they have.
func TestFoundEndpoints(t *testing.T) {
	at := func(n int) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 1) }
	s := &seeker{dead: map[cluster.NodeID]bool{"gone": true}}
	taken := s.look([]mesh.PeerStatus{
		{Node: "n1", Reachable: true, Endpoint: at(1), Attempts: 9}, {Node: "n2", Attempts: deadTries}, {Node: "n3", Attempts: deadTries - 1},
	})
	if !slices.Equal(taken, []netip.AddrPort{at(1)}) || len(s.dead) != 1 || !s.dead["n2"] {
		t.Fatalf("taken %v, dead %v", taken, s.dead)
	}
	found := []netip.AddrPort{at(1)}
	for n := 10; n < 17; n++ {
		found = append(found, at(n))
	}
	tried := make(map[netip.AddrPort]bool)
	for turn := range 3 {
		peers := withFound([]topo.Peer{{Node: "n2", Endpoints: []netip.AddrPort{at(2), at(10), at(4), at(5)}}, {Node: "n3", Endpoints: []netip.AddrPort{at(3)}}}, s.dead, found, taken, turn)
		list := peers[0].Endpoints
		if fmt.Sprint(peers[1].Endpoints) != fmt.Sprint([]netip.AddrPort{at(3)}) || !slices.Equal(list[:2], []netip.AddrPort{at(2), at(10)}) || len(list) > topo.MaxEndpoints || slices.Contains(list, at(1)) {
			t.Fatalf("turn %d: %v", turn, peers)
		}
		for _, e := range list[1:] {
			tried[e] = true
		}
	}
	if len(tried) != 7 {
		t.Errorf("%d of 7 were tried", len(tried))
	}
	s.look([]mesh.PeerStatus{{Node: "n2"}})
	if !s.dead["n2"] {
		t.Error("a search that begins anew makes a peer live")
	}
	if s.look([]mesh.PeerStatus{{Node: "n2", Reachable: true}}); len(s.dead) != 0 {
		t.Error("a peer that answers is dead")
	}
	if peers := withFound([]topo.Peer{{Node: "n2", Endpoints: []netip.AddrPort{at(2)}}}, map[cluster.NodeID]bool{"n2": true}, found[:1], taken, 5); len(peers[0].Endpoints) != 1 {
		t.Errorf("%v", peers)
	}
	if !OwnEndpoint(netip.MustParseAddrPort("127.0.0.1:7"), 7) || OwnEndpoint(netip.MustParseAddrPort("127.0.0.1:8"), 7) || OwnEndpoint(at(1), 1) {
		t.Error("own endpoints")
	}
}
