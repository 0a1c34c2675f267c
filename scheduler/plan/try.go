package plan

import (
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/ends"
	"github.com/skein-project/skein/scheduler/plan/pace"
)

// try is one open attempt. It stands in its chunk, in its job and in its
// worker.
type try struct {
	job        *openJob
	chunk      int
	attempt    int
	worker     *worker
	iterations uint64
	load       time.Duration // estimated time of it in one slot
	started    time.Duration
	timer      timer // of its deadline
	ends.Deadline
	said ends.Said
	pace.Progress
	ends.Presence
	marks
	inJob    int // index in job.tries
	inWorker int // index in worker.tries
}

// marks is what is so of an attempt.
type marks struct {
	runs    bool   // the worker said that it began
	strange bool   // it is at a stranger
	copied  bool   // it copies another attempt, near the end of the job
	gone    bool   // it ended
	zone    string // in which it was begun
}

func (t *try) ref() job.Attempt {
	return job.Attempt{Job: t.job.id, Chunk: t.chunk, Number: t.attempt, Worker: t.worker.node}
}
