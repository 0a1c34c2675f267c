package forward

import (
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

// ReleaseJob asks for what was given up of a job to be tried again.
type ReleaseJob struct {
	Job job.ID `json:"job"`
}

// Released is how many chunks are tried again.
type Released struct {
	Chunks int `json:"released,omitempty"`
}

// Release tries again what was given up of a job.
var Release = &Op[ReleaseJob, Released]{
	Name: "release", At: Holder, Lane: overload.Submit,
	Doc: "retries the chunks of a job that were given up", Answers: "how many there are",
	Who: "any member",
}
