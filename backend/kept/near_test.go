package kept

import (
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

func TestNear(t *testing.T) {
	view := func(self cluster.NodeID, zones ...string) *coord.View {
		v := &coord.View{Self: self}
		for i, z := range zones {
			m := coord.MemberView{Health: cluster.Alive}
			if m.Node, m.Zone = cluster.NodeID(fmt.Sprintf("n%d", i+1)), z; z == "dead" {
				m.Zone, m.Health = "a", cluster.Dead
			}
			v.Members = append(v.Members, m)
		}
		return v
	}
	for name, c := range map[string]struct {
		v    *coord.View
		want []cluster.NodeID
	}{
		"two zones":    {view("n1", "a", "b", "a", "dead", "a"), []cluster.NodeID{"n3", "n5"}},
		"one zone":     {view("n1", "a", "a", "a"), nil},
		"no zone":      {view("n1", "", "", "a"), nil},
		"alone there":  {view("n2", "a", "b", "a"), nil},
		"not a member": {view("n9", "a", "b"), nil},
		"some in none": {view("n1", "a", "a", ""), []cluster.NodeID{"n2"}},
	} {
		if got := Near(c.v); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	list := []cluster.NodeID{"n2", "n3", "n4", "n5"}
	if got := nearFirst(list, []cluster.NodeID{"n5", "n3"}); !slices.Equal(got, []cluster.NodeID{"n3", "n5", "n2", "n4"}) {
		t.Errorf("%v", got)
	}
	if got := nearFirst(list, nil); !slices.Equal(got, list) {
		t.Errorf("%v", got)
	}
}
