package api

import "github.com/skein-project/skein/cluster/job"

// MaxChunkRuns and MaxWatchedRuns bound ChunkRuns.Runs in an answer and in a watch.
const (
	MaxChunkRuns   = 4096
	MaxWatchedRuns = 256
)

// ChunkMap answers GET /v1/jobs/{id}/map.
type ChunkMap struct {
	Header
	Job job.ID `json:"job"`
	ChunkRuns
}

// ChunkRuns says where in a job its chunks are how far.
type ChunkRuns struct {
	Chunks int `json:"chunks"`
	// Step is 1 while each chunk is told. With more runs than there is room for so many
	// chunks stand together, in the state of the one that most needs a look: failed,
	// parked, assigned, pending, skipped, unknown, accepted.
	Step int        `json:"step"`
	Runs []ChunkRun `json:"runs"` // of all chunks, in order
}

// ChunkRun is chunks that follow each other and are in the same state: pending, assigned,
// accepted, failed or parked (given up, for its failures or for want of hosts); skipped
// (no result, and the job has ended), or unknown (the job has ended, and its result names
// no more of those that were skipped).
type ChunkRun struct {
	State string `json:"state"`
	Count int    `json:"count"`
}
