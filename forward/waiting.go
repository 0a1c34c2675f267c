package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

// MaxWaiting bounds the jobs of an answer.
const MaxWaiting = 256

// WaitingJobs asks about one job, or about all if Job is empty.
type WaitingJobs struct {
	Job job.ID `json:"job,omitempty"`
}

// JobsWaiting lists jobs that wait while no worker may run them, those that wait
// longest first.
type JobsWaiting struct {
	Jobs    []JobWaiting `json:"jobs"`
	Omitted int          `json:"omitted"`
}

// JobWaiting is one such job.
type JobWaiting struct {
	Job   job.ID      `json:"job"`
	Waits string      `json:"waits"` // in words
	Why   api.Waiting `json:"why"`
}

// Waiting returns why jobs wait that no worker may run.
var Waiting = &Op[WaitingJobs, JobsWaiting]{
	Name: "waiting", At: Holder, Lane: overload.Status, Key: "waiting",
	Doc: "says why a job waits that no worker may run, or all such jobs", Answers: "the first 256 of them",
	Who: "any member",
}
