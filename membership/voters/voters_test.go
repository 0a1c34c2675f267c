package voters

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// TestMayVote: a set of which no majority can vote now is refused, whatever
// keeps its hosts from it.
func TestMayVote(t *testing.T) {
	view := func(change func(n2 *coord.MemberView)) *coord.View {
		v := &coord.View{Self: "n1", Lease: lease.Status{
			Self: "n1", Holder: "n1", Role: cluster.RoleHolder,
			Config: cluster.VoterConfig{Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum},
		}}
		for _, id := range v.Lease.Config.Voters {
			v.Members = append(v.Members, coord.MemberView{Member: cluster.Member{Node: id}, Health: cluster.Alive})
		}
		change(&v.Members[1])
		return v
	}
	two := []cluster.NodeID{"n1", "n2"}
	if p := mayVote(view(func(*coord.MemberView) {}), two); p != nil {
		t.Error(p)
	}
	for name, change := range map[string]func(*coord.MemberView){
		"dead":                 func(m *coord.MemberView) { m.Health = cluster.Dead },
		"has another profile":  func(m *coord.MemberView) { m.Incompatible = "has profile \"lan\", this host \"fast\"" },
		"lost its vote record": func(m *coord.MemberView) { m.Abstains = true },
	} {
		p := mayVote(view(change), two)
		if p == nil || !strings.Contains(p.Hint, "n2") {
			t.Errorf("one of two %s: %v", name, p)
		}
		if p := mayVote(view(change), []cluster.NodeID{"n1", "n2", "n3"}); p != nil {
			t.Errorf("one of three %s: %v", name, p)
		}
	}
}
