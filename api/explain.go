package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// JobExplanation answers GET /v1/jobs/{id}/explain: what keeps each worker from a job,
// as the holder knows it now.
type JobExplanation struct {
	Header
	Job    job.ID         `json:"job"`
	State  job.State      `json:"state"`
	Holder cluster.NodeID `json:"holder"` // who says so
	Term   cluster.Term   `json:"term"`
	// Waits says it in words: "0 of 3 workers eligible: permission 2, zone 1". It is
	// empty of a job that is over, or about to be, of which no worker is told.
	Waits string `json:"waits"`
	// Since is when something of the job ran last, if something is to be done of it and
	// nothing runs; null: it is not so.
	Since    *time.Time   `json:"since"`
	Eligible int          `json:"eligible"` // as in Waiting
	Reasons  []WaitReason `json:"reasons"`  // as in Waiting
	Hint     string       `json:"hint"`
	// Workers are the first MaxWorkers, sorted by node; Omitted is how many more there are.
	Workers []ExplainedWorker `json:"workers"`
	Omitted int               `json:"omitted,omitempty"`
}

// ExplainedWorker is what keeps one worker from a job, and what it does of it.
type ExplainedWorker struct {
	Node     cluster.NodeID `json:"node"`
	Eligible bool           `json:"eligible"`
	Reason   string         `json:"reason"`   // as in WaitReason; empty: nothing keeps it from the job
	Text     string         `json:"text"`     // the same in words
	Assigned int            `json:"assigned"` // attempts of the job that it has now
	Accepted int            `json:"accepted"` // chunks of the job that count
}
