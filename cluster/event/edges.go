package event

import "github.com/skein-project/skein/cluster/job"

// JobEdge is a change of state that a job may undergo, by an event of a kind.
type JobEdge struct {
	From, To job.State
	By       Kind
}

// JobEdges is the whole state machine of a job: what is not in it cannot happen.
func JobEdges() []JobEdge {
	edges := []JobEdge{
		{"", job.Pending, KindJobSubmitted},
		{job.Pending, job.Queued, KindJobQueued},
		{job.Pending, job.Running, KindChunksAssigned},
		{job.Queued, job.Running, KindChunksAssigned},
		{job.Pending, job.Cancelling, KindJobStopped},
		{job.Queued, job.Cancelling, KindJobStopped},
		{job.Running, job.Cancelling, KindJobStopped},
	}
	for _, from := range []job.State{job.Pending, job.Queued, job.Running, job.Cancelling} {
		for _, to := range []job.State{job.Completed, job.Failed, job.Partial, job.Cancelled, job.TimedOut} {
			edges = append(edges, JobEdge{from, to, KindJobDone})
		}
	}
	return append(edges, JobEdge{job.Pending, job.Skipped, KindJobDone}, JobEdge{job.Queued, job.Skipped, KindJobDone})
}

// ChunkEdge is a change of state that a chunk may undergo, by an event of a
// kind.
type ChunkEdge struct {
	From, To job.ChunkState
	By       Kind
}

// ChunkEdges is the whole state machine of a chunk. An event that reaches this
// host after a later one changes nothing: the states are ordered as they stand
// here, and a chunk never goes back but from assigned to pending, or where an
// operator releases it. It stays as it is when one of several attempts at it
// begins or ends.
func ChunkEdges() []ChunkEdge {
	edges := []ChunkEdge{
		{"", job.ChunkPending, KindJobSubmitted},
		{job.ChunkPending, job.ChunkAssigned, KindChunksAssigned},
		{job.ChunkAssigned, job.ChunkAssigned, KindChunksAssigned},
		{job.ChunkAssigned, job.ChunkAssigned, KindChunkFailed},
		{job.ChunkAssigned, job.ChunkAssigned, KindChunkReclaimed},
		{job.ChunkAccept, job.ChunkAccept, KindChunkFailed},
		{job.ChunkAccept, job.ChunkAccept, KindChunkReclaimed},
		{job.ChunkAssigned, job.ChunkPending, KindChunkFailed},
		{job.ChunkAssigned, job.ChunkPending, KindChunkReclaimed},
		{job.ChunkFail, job.ChunkParked, KindChunkFailed},
		{job.ChunkFail, job.ChunkPending, KindChunksReleased},
		{job.ChunkParked, job.ChunkPending, KindChunksReleased},
	}
	for _, from := range []job.ChunkState{job.ChunkPending, job.ChunkAssigned} {
		edges = append(edges, ChunkEdge{from, job.ChunkFail, KindChunkFailed}, ChunkEdge{from, job.ChunkParked, KindChunkFailed})
	}
	for _, from := range []job.ChunkState{job.ChunkPending, job.ChunkAssigned, job.ChunkFail, job.ChunkParked} {
		edges = append(edges, ChunkEdge{from, job.ChunkAccept, KindChunkAccepted}, ChunkEdge{from, job.ChunkAccept, KindChunksAccepted})
	}
	return edges
}
