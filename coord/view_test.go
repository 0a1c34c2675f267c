package coord

import (
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// TestUnaware: a kind waits for every member that lives, and for nobody else.
func TestUnaware(t *testing.T) {
	member := func(n cluster.NodeID, h cluster.Health, heard bool, level uint32) MemberView {
		return MemberView{Member: cluster.Member{Node: n}, Health: h, Heard: heard, Level: level}
	}
	v := &View{Members: []MemberView{
		member("a", cluster.Alive, true, event.Level), member("b", cluster.Alive, true, 0), member("c", cluster.Suspect, true, 0),
		member("d", cluster.Dead, true, 0), member("e", cluster.Left, true, 0), member("f", cluster.Joining, false, 0),
	}}
	if got := v.Unaware(event.KindUserSet); !slices.Equal(got, []cluster.NodeID{"b", "c"}) {
		t.Errorf("unaware of users: %v", got)
	}
	if got := v.Unaware(event.KindGroupSet); got != nil {
		t.Errorf("unaware of groups: %v", got)
	}
}
