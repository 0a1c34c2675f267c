package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// DepartNode asks the holder to go on without a voter.
type DepartNode struct {
	Node cluster.NodeID `json:"node"`
}

// Depart takes a voter out of the configuration while it can still agree. A
// host asks that for itself, a sponsor for a host that it is about to remove.
var Depart = &Op[DepartNode, None]{
	Name: "depart", At: Holder, Lane: overload.Control,
	Doc: "takes a departing host out of the voters", Answers: "nothing, once the others have agreed",
	Who: "that host itself, sponsors", Quota: Quota{Name: "depart", Burst: 16, Every: 20 * time.Second, Late: true},
	Allow: func(a Asker, req DepartNode) error {
		if a.From == req.Node || a.Sponsor() {
			return nil
		}
		return api.Errorf(api.CodeForbidden, "%s may not take %s out of the voters", a.From, req.Node)
	},
}
