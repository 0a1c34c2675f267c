package forward

import (
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/overload"
)

// Conflict reports membership records that contradict each other. The holder
// believes only the signatures in them.
var Conflict = &Op[event.MemberConflict, None]{
	Name: "conflict", At: Holder, Lane: overload.Control,
	Doc: "reports membership records that contradict each other", Answers: "nothing, once they are proven",
	Who: "any member", Quota: Quota{Name: "conflict", Burst: 16, Every: time.Minute, Late: true},
}
