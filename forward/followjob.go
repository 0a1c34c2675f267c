package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

// JobName names a job.
type JobName struct {
	Job job.ID `json:"job"`
}

// FollowJob sends what the holder knows of a job, whenever that changes, until
// the job has ended.
var FollowJob = &Stream[JobName, api.Job]{
	Name: "follow_job", At: Holder, Lane: overload.List,
	Doc: "follows a job", Answers: "the job, whenever it changes, until it has ended",
	Who: "any member",
}
