package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// StepDownTerm asks the holder of one term to hand over.
type StepDownTerm struct {
	Term cluster.Term `json:"term"`
	api.StepDownRequest
}

// StepDown hands the lease over; a term that is over is no error.
var StepDown = &Op[StepDownTerm, None]{
	Name: "step_down", At: Holder, Lane: overload.Control,
	Doc: "hands the lease over", Answers: "nothing, once the release is decided",
	Who: "any member", Quota: Quota{Name: "step_down", Burst: 5, Every: 20 * time.Second, Late: true},
}
