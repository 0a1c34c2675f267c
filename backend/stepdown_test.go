package backend

import (
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// TestMaySucceed refuses each host that could not take the lease over.
func TestMaySucceed(t *testing.T) {
	able := func(id cluster.NodeID, change func(*coord.MemberView)) coord.MemberView {
		m := coord.MemberView{Member: cluster.Member{Node: id}, Health: cluster.Alive, Eligible: true, CaughtUp: true}
		change(&m)
		return m
	}
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		able("n1", func(*coord.MemberView) {}),
		able("n2", func(*coord.MemberView) {}),
		able("dead", func(m *coord.MemberView) { m.Health = cluster.Dead }),
		able("witness", func(m *coord.MemberView) { m.Witness = true }),
		able("drained", func(m *coord.MemberView) { m.Eligible = false }),
		able("outside", func(*coord.MemberView) {}),
		able("behind", func(m *coord.MemberView) { m.CaughtUp = false }),
		able("other", func(m *coord.MemberView) { m.Incompatible = "has profile \"lan\"" }),
	}}
	slices.SortFunc(v.Members, func(a, b coord.MemberView) int { return strings.Compare(string(a.Node), string(b.Node)) })
	v.Lease.Config.Voters = []cluster.NodeID{"n1", "n2", "dead", "witness", "drained", "behind", "other"}
	for to, want := range map[cluster.NodeID]string{
		"": "", "n2": "", "n9": "no member", "n1": "already", "dead": "dead", "witness": "witness", "drained": "lease.eligible",
		"outside": "no voter", "behind": "behind", "other": "profile",
	} {
		p := maySucceed(v, to)
		if (p == nil) != (want == "") || p != nil && (!strings.Contains(p.Detail, want) || !strings.Contains(p.Detail, string(to))) {
			t.Errorf("%q: %v, want %q", to, p, want)
		}
	}
}
