package artefact

import (
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestCopies: all hosts choose the same, in two zones where there are two, evenly, and a
// host that goes moves only the copies that it had.
func TestCopies(t *testing.T) {
	var places []Place
	zones := map[cluster.NodeID]string{}
	for i := range 9 {
		p := Place{Node: cluster.NodeID(fmt.Sprint("n", i)), Zone: []string{"a", "a", "b"}[i%3]}
		places, zones[p.Node] = append(places, p), p.Zone
	}
	turned := slices.Clone(places)
	slices.Reverse(turned)
	had := map[cluster.NodeID]int{}
	moved := 0
	for i := range 900 {
		h := cluster.Hash{byte(i), byte(i >> 8)}
		got := Copies(h, places, 2)
		if len(got) != 2 || zones[got[0]] == zones[got[1]] || !slices.Equal(got, Copies(h, turned, 2)) {
			t.Fatalf("%s: %v, or %v", h, got, Copies(h, turned, 2))
		}
		had[got[0]]++
		if without := Copies(h, places[1:], 2); !slices.Contains(got, "n0") && !slices.Equal(got, without) {
			moved++
		}
	}
	for n, k := range had {
		if k < 50 || k > 170 {
			t.Errorf("%s is the first for %d of 900", n, k)
		}
	}
	if moved > 0 {
		t.Errorf("%d moved that %s did not have", moved, "n0")
	}
	if got := Copies(cluster.Hash{1}, places[:1], 2); len(got) != 1 {
		t.Errorf("of one host: %v", got)
	}
}
