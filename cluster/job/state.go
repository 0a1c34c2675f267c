package job

// State is the state of a job.
type State string

// States of a job.
//
//	pending --> queued --> running --> cancelling --> cancelled | timeout
//	   \________\___________\___________\
//	                                     --> completed | failed | partial
//	pending | queued --> skipped
const (
	Pending    State = "pending"    // logged
	Queued     State = "queued"     // taken in; it waits, and the event says for what
	Running    State = "running"    // attempts were handed out
	Cancelling State = "cancelling" // it is to end; attempts may still run
	Completed  State = "completed"
	Failed     State = "failed"
	Partial    State = "partial"
	Cancelled  State = "cancelled"
	TimedOut   State = "timeout"
	Skipped    State = "skipped" // a job that it waited for ended otherwise than it wants
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

// Final reports whether s is absorbing: no edge leads away from it.
func (s State) Final() bool {
	switch s {
	case Completed, Failed, Partial, Cancelled, TimedOut, Skipped:
		return true
	}
	return false
}

// StopCause says what ends a job before its chunks are done.
type StopCause string

// Causes of a stop.
const (
	StopAsked    StopCause = ""         // somebody wants it
	StopDeadline StopCause = "deadline" // its deadline has come
	StopStuck    StopCause = "stuck"    // it made no progress for too long
)

// Known reports whether c is one of the causes.
func (c StopCause) Known() bool { return c == StopAsked || c == StopDeadline || c == StopStuck }

// State is how a job that was stopped for c ends.
func (c StopCause) State() State {
	if c == StopAsked {
		return Cancelled
	}
	return TimedOut
}
