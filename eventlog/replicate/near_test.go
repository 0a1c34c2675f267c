package replicate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestUpstream: whoever does not vote hears of events from a voter of its zone, or there is one
// host in the zone that hears of them from elsewhere and all others from it, in few steps,
// and nobody has more to tell than it can.
func TestUpstream(t *testing.T) {
	for _, c := range []struct{ hosts, voters int }{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {33, 0}, {34, 0}, {40, 1}, {100, 2}, {500, 0}, {500, 1}, {500, 3}} {
		var zone []cluster.NodeID
		for i := range c.hosts {
			zone = append(zone, cluster.NodeID(fmt.Sprintf("n%d", i)))
		}
		rand.Shuffle(len(zone), func(i, j int) { zone[i], zone[j] = zone[j], zone[i] })
		votes := func(n cluster.NodeID) bool { return slices.Index(zone, n) < c.voters }
		up, children := map[cluster.NodeID]cluster.NodeID{}, map[cluster.NodeID]int{}
		for i, self := range zone {
			near := slices.Delete(slices.Clone(zone), i, i+1)
			if to, ok := upstream(self, near, votes); ok {
				up[self] = to
				children[to]++
			}
		}
		far, most, deepest := 0, 0, 0
		for _, n := range zone {
			if votes(n) && up[n] != "" {
				t.Errorf("%+v: voter %s follows %s", c, n, up[n])
			}
			if !votes(n) && up[n] == "" {
				far++
			}
			steps := 0
			for at := n; up[at] != ""; at = up[at] {
				if steps++; steps > c.hosts {
					t.Fatalf("%+v: %s follows itself", c, n)
				}
			}
			most, deepest = max(most, children[n]), max(deepest, steps)
		}
		if want := max(0, 1-c.voters); far != want {
			t.Errorf("%+v: %d hosts follow somebody elsewhere, want %d", c, far, want)
		}
		if most > upstreamChildren || deepest > 2 {
			t.Errorf("%+v: one tells %d hosts, one is %d steps away", c, most, deepest)
		}
	}
	if to, ok := upstream("n1", nil, func(cluster.NodeID) bool { return true }); ok {
		t.Errorf("without zones it follows %s", to)
	}
}
