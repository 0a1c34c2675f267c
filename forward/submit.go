package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Submit gives the scheduler a job. Every host that hands a job on has checked
// it; the holder checks again, because it answers for what is logged.
var Submit = &Op[api.SubmitRequest, api.SubmitResponse]{
	Name: "submit", At: Holder, Lane: overload.Submit, Key: "submit",
	Doc: "gives the scheduler a job", Answers: "the job's id and spec, and on how many voters' disks it is",
	Who: "any member", Owner: true,
	Check: func(req api.SubmitRequest) error {
		if req.Spread != "" {
			return api.Errorf(api.CodeInvalidRequest, "a job in each zone is a run of a workflow")
		}
		return req.Spec.Validate()
	},
}
