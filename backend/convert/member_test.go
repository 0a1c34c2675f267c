package convert

import (
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// An old member that was not heard since a start is not said to join.
func TestAiling(t *testing.T) {
	for want, m := range map[string]coord.MemberView{
		"n1 not heard yet": {Health: cluster.Joining}, "n1 suspect": {Health: cluster.Suspect},
		"n1 dead": {Health: cluster.Dead}, "n1 stopped": {Health: cluster.Dead, Stopped: true},
	} {
		if m.Node = "n1"; Ailing(m) != want {
			t.Errorf("%q, want %q", Ailing(m), want)
		}
	}
}
