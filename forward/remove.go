package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// RemoveNode asks a sponsor to end a member's key.
type RemoveNode struct {
	Node   cluster.NodeID `json:"node"`
	Reason string         `json:"reason,omitempty"`
}

// Removed names the sponsor that did it.
type Removed struct {
	By cluster.NodeID `json:"by,omitempty"`
}

// Remove ends a member's key.
var Remove = &Op[RemoveNode, Removed]{
	Name: "remove", At: Sponsor, Lane: overload.Control,
	Doc: "ends a member's key", Answers: "which sponsor did it",
	Who: "any member; for a sponsor, only sponsors", Quota: Quota{Name: "remove", Burst: 16, Every: 20 * time.Second, Late: true},
	Check: func(req RemoveNode) error { return (api.RemoveRequest{Reason: req.Reason}).Check() },
}
