package forward

import (
	"errors"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
)

// JobLogsWanted says of which attempts the words are wanted.
type JobLogsWanted struct {
	Job     job.ID `json:"job"`
	Chunk   *int   `json:"chunk,omitempty"`   // nil: of all
	Attempt int    `json:"attempt,omitempty"` // 0: of all
	Failed  bool   `json:"failed,omitempty"`  // of those that failed
	Follow  bool   `json:"follow,omitempty"`  // go on until nothing of the job runs and it has ended
}

// JobLogs sends what the attempts that a host ran wrote to standard error.
var JobLogs = &Stream[JobLogsWanted, api.JobLog]{
	Name: "job_logs", At: Host, Lane: overload.List,
	Doc: "tells what attempts that the host ran wrote to standard error", Answers: "the words of each, as far as they are kept; followed, what is added, until the job has ended",
	Who: "any member",
	Check: func(r JobLogsWanted) error {
		if _, err := job.ParseID(string(r.Job)); err != nil {
			return err
		}
		if r.Chunk != nil && (*r.Chunk < 0 || *r.Chunk >= job.MaxChunks) || r.Attempt < 0 {
			return errors.New("no such chunk or attempt")
		}
		return nil
	},
	Quota: Quota{Name: "job_logs", Burst: 64, Every: 100 * time.Millisecond},
}
