package forward

import (
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

// StopJob asks for the end of a job.
type StopJob struct {
	Job    job.ID `json:"job"`
	Reason string `json:"reason,omitempty"`
}

// Stop ends a job.
var Stop = &Op[StopJob, None]{
	Name: "stop", At: Holder, Lane: overload.Control,
	Doc: "ends a job", Answers: "nothing, once it is logged",
	Who: "any member",
}
