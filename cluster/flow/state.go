package flow

import "github.com/skein-project/skein/cluster/job"

// State is the state of a run, of a step, or of one instance of a step.
//
//	step  blocked -> ready -> running -> completed | partial | failed | timeout | cancelled
//	         \-> skipped
//	run   queued -> running -> stopping -> completed | partial | failed | timeout | cancelled
type State string

// States.
const (
	Queued    State = "queued"   // a run that waits for others of its group
	Blocked   State = "blocked"  // waits for the steps before it
	Ready     State = "ready"    // may begin: waits for a place, its owner's quota or the time of a retry
	Running   State = "running"  // a job of it was submitted and has not ended
	Stopping  State = "stopping" // a run that is to end
	Skipped   State = "skipped"
	Completed State = "completed"
	Partial   State = "partial"
	Failed    State = "failed"
	TimedOut  State = "timeout"
	Cancelled State = "cancelled"
)

// Final reports whether s is absorbing.
func (s State) Final() bool {
	switch s {
	case Skipped, Completed, Partial, Failed, TimedOut, Cancelled:
		return true
	}
	return false
}

// Ended reports whether s is how an instance can end.
func (s State) Ended() bool { return s.Final() && s != Skipped }

// OfJob is the State of an instance whose job ended so.
func OfJob(s job.State) State {
	switch s {
	case job.Completed:
		return Completed
	case job.Partial:
		return Partial
	case job.TimedOut:
		return TimedOut
	case job.Cancelled:
		return Cancelled
	}
	return Failed
}

// Cause says what began to end a run before its steps were done.
type Cause string

// Causes.
const (
	StopAsked    Cause = ""         // somebody wants it
	StopTimeout  Cause = "timeout"  // its own time is over
	StopFailure  Cause = "failure"  // a step failed whose failure ends all
	StopTeardown Cause = "teardown" // its teardown took too long
	StopQuorum   Cause = "quorum"   // as many steps have completed as must
)

// Known reports whether c is one of the causes.
func (c Cause) Known() bool {
	return c == StopAsked || c == StopTimeout || c == StopFailure || c == StopTeardown || c == StopQuorum
}
