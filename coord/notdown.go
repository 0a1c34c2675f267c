package coord

import (
	"slices"

	"github.com/skein-project/skein/cluster"
)

// NotDown returns those of list that are not believed to be down.
func (v *View) NotDown(list []cluster.NodeID) []cluster.NodeID {
	return slices.DeleteFunc(slices.Clone(list), func(id cluster.NodeID) bool {
		m, ok := v.Member(id)
		return ok && (m.Health == cluster.Suspect || m.Health == cluster.Dead || m.Health == cluster.Left)
	})
}
