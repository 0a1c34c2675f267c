package kept

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// Near lists the hosts that live in the zone of this one; none where all hosts are in it,
// or it names no zone.
func Near(v *coord.View) (out []cluster.NodeID) {
	self, ok := v.Member(v.Self)
	if !ok || self.Zone == "" {
		return nil
	}
	elsewhere := false
	for _, m := range v.Members {
		switch {
		case m.Zone != self.Zone:
			elsewhere = true
		case m.Node != v.Self && m.Health == cluster.Alive:
			out = append(out, m.Node)
		}
	}
	if !elsewhere {
		return nil
	}
	return out
}

// nearFirst puts those of this host's zone before the others, each in the order that
// they have.
func nearFirst(list, near []cluster.NodeID) []cluster.NodeID {
	if len(near) == 0 {
		return list
	}
	out := make([]cluster.NodeID, 0, len(list))
	for _, here := range []bool{true, false} {
		for _, n := range list {
			if slices.Contains(near, n) == here {
				out = append(out, n)
			}
		}
	}
	return out
}
