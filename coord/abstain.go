package coord

import (
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Abstaining lists the voters that are known to grant nothing because they lost
// their record of votes, and this host as well while it is out of the voters to
// be admitted again.
func (v *View) Abstaining() []cluster.NodeID {
	out := slices.DeleteFunc(slices.Clone(v.Lease.Config.Voters), func(id cluster.NodeID) bool { return v.Abstains(id) == "" })
	if v.Lease.Abstaining != "" && !slices.Contains(out, v.Self) {
		out = append(out, v.Self)
		slices.Sort(out)
	}
	return out
}

// Abstains returns why voter id grants nothing, empty if it does as far as this
// host knows: of itself a host knows the reason, others report only the fact.
func (v *View) Abstains(id cluster.NodeID) string {
	if id == v.Self {
		return v.Lease.Abstaining
	}
	const lost = "its record of votes was lost"
	for _, a := range v.Lease.Acks {
		if a.Node == id && a.Abstaining {
			return lost
		}
	}
	if m, ok := v.Member(id); ok && m.Health == cluster.Alive && m.Abstains {
		return lost
	}
	return ""
}
