package cluster

// JobState is the state of a job.
type JobState string

// States of a job.
//
//	pending --> queued --> running --> cancelling --> cancelled | timeout
//	   \________\___________\___________\
//	                                     --> completed | failed | partial
const (
	JobPending    JobState = "pending"    // logged
	JobQueued     JobState = "queued"     // taken in; it waits, and the event says for what
	JobRunning    JobState = "running"    // attempts were handed out
	JobCancelling JobState = "cancelling" // it is to end; attempts may still run
	JobCompleted  JobState = "completed"
	JobFailed     JobState = "failed"
	JobPartial    JobState = "partial"
	JobCancelled  JobState = "cancelled"
	JobTimeout    JobState = "timeout"
)

// ChunkState is the state of a chunk.
type ChunkState string

// States of a chunk. An accepted one stays so; one that is failed or parked is
// given up, and still takes a late result while its job is open.
const (
	ChunkPending  ChunkState = "pending"  // never tried, or to be tried again
	ChunkAssigned ChunkState = "assigned" // an attempt was handed out and has not ended
	ChunkAccept   ChunkState = "accepted" // its result counts
	ChunkFail     ChunkState = "failed"   // given up: the work failed too often
	ChunkParked   ChunkState = "parked"   // given up: no host could run it
)

// JobEdge is a change of state that a job may undergo, by an event of a kind.
type JobEdge struct {
	From, To JobState
	By       Kind
}

// JobEdges is the whole state machine of a job: what is not in it cannot happen.
func JobEdges() []JobEdge {
	edges := []JobEdge{
		{"", JobPending, KindJobSubmitted},
		{JobPending, JobQueued, KindJobQueued},
		{JobPending, JobRunning, KindChunksAssigned},
		{JobQueued, JobRunning, KindChunksAssigned},
		{JobPending, JobCancelling, KindJobStopped},
		{JobQueued, JobCancelling, KindJobStopped},
		{JobRunning, JobCancelling, KindJobStopped},
	}
	for _, from := range []JobState{JobPending, JobQueued, JobRunning, JobCancelling} {
		for _, to := range []JobState{JobCompleted, JobFailed, JobPartial, JobCancelled, JobTimeout} {
			edges = append(edges, JobEdge{from, to, KindJobDone})
		}
	}
	return edges
}

// Final reports whether s is absorbing: no edge leads away from it.
func (s JobState) Final() bool {
	switch s {
	case JobCompleted, JobFailed, JobPartial, JobCancelled, JobTimeout:
		return true
	}
	return false
}

// ChunkEdge is a change of state that a chunk may undergo, by an event of a
// kind.
type ChunkEdge struct {
	From, To ChunkState
	By       Kind
}

// ChunkEdges is the whole state machine of a chunk. An event that reaches this
// host after a later one changes nothing: the states are ordered as they stand
// here, and a chunk never goes back but from assigned to pending, or where an
// operator releases it.
func ChunkEdges() []ChunkEdge {
	edges := []ChunkEdge{
		{"", ChunkPending, KindJobSubmitted},
		{ChunkPending, ChunkAssigned, KindChunksAssigned},
		{ChunkAssigned, ChunkPending, KindChunkFailed},
		{ChunkAssigned, ChunkPending, KindChunkReclaimed},
		{ChunkFail, ChunkParked, KindChunkFailed},
		{ChunkFail, ChunkPending, KindChunksReleased},
		{ChunkParked, ChunkPending, KindChunksReleased},
	}
	for _, from := range []ChunkState{ChunkPending, ChunkAssigned} {
		edges = append(edges, ChunkEdge{from, ChunkFail, KindChunkFailed}, ChunkEdge{from, ChunkParked, KindChunkFailed})
	}
	for _, from := range []ChunkState{ChunkPending, ChunkAssigned, ChunkFail, ChunkParked} {
		edges = append(edges, ChunkEdge{from, ChunkAccept, KindChunkAccepted}, ChunkEdge{from, ChunkAccept, KindChunksAccepted})
	}
	return edges
}
