package step

import (
	"fmt"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Action is an output of Step. Actions are carried out in order.
type Action interface {
	fmt.Stringer
	action()
}

// Assign hands new attempts at chunks of one job to a worker.
type Assign struct {
	Worker cluster.NodeID
	Job    job.ID
	Chunks []job.Attempt
	Copies int // how many of them copy an open attempt
	Why    Why // of all of them
}

// Why is the reason of an assignment.
type Why string

// Values of Why.
const (
	WhyFirst Why = "first" // nobody tried the chunk before
	WhyRetry Why = "retry" // an attempt failed or was taken back
	WhyDoubt Why = "doubt" // the open attempts are at doubtful workers
	WhyEnd   Why = "end"   // the open attempt takes long, and the job has nothing else to give out
	WhyCheck Why = "check" // a result needs another host's
)

// Adopt records attempts that a worker has and the log does not know.
type Adopt struct {
	Worker cluster.NodeID
	Job    job.ID
	Chunks []job.Attempt
}

// Accept makes a result the chunk's. The worker may drop it then.
type Accept struct {
	job.Attempt
	Result  job.ChunkResult
	Seconds float64
	Settles bool // results that differ were accepted before, and this one decides
}

// Fail ends an attempt without result. The worker may drop it then.
type Fail struct {
	job.Attempt
	Reason string
	Class  job.FailureClass
	Final  bool // the chunk is given up
	Parked bool // with Final: that says nothing of the work
}

// Stop records why a job ends before its chunks are done; Finish follows.
type Stop struct {
	Job    job.ID
	Cause  job.StopCause
	Reason string
}

// Reclaim takes an attempt back.
type Reclaim struct {
	job.Attempt
	Reason string
}

// Extend answers an attempt that asked for more time: it has Given more, or none because
// of Denied.
type Extend struct {
	job.Attempt
	Asked, Given time.Duration
	Reason       string // of the attempt
	Denied       string
}

// Save records how far an attempt is, from where the next one at its chunk goes on.
type Save struct {
	job.Attempt
	job.Checkpoint
}

// Settled answers a result that changes nothing: the worker may drop it.
type Settled struct {
	job.Attempt
}

// Cancel stops attempts at a worker; no Chunks means the whole job.
type Cancel struct {
	Worker cluster.NodeID
	Job    job.ID
	Chunks []job.Attempt
	Reason string
}

// Finish ends a job.
type Finish struct {
	Job    job.ID
	State  job.State
	Reason string
}

// Notice tells operators of something that changes nothing in the log.
type Notice struct {
	What   NoticeKind
	Worker cluster.NodeID
	Job    job.ID // may be empty
	Reason string
}

// NoticeKind is what a Notice is about.
type NoticeKind string

// Values of NoticeKind.
const (
	NoticeAlarm    NoticeKind = "alarm"    // a result is unlikely beside the others
	NoticeDispute  NoticeKind = "dispute"  // hosts computed different results of a chunk
	NoticeDistrust NoticeKind = "distrust" // a host's result was contradicted by two others
	NoticeExcluded NoticeKind = "excluded" // a worker is left out of one kind of work
	NoticeEvicted  NoticeKind = "evicted"  // what a stuck worker had was taken away
	NoticeStray    NoticeKind = "stray"    // a worker runs what nobody asked for
)

// Offence says that a worker sent what no correct one sends.
type Offence struct {
	Worker cluster.NodeID
	Reason string
	Flood  bool // it was too much, not wrong
}

// Waiting says that all that is open of a job was given up, and that it goes on
// only when an operator says how.
type Waiting struct {
	Job    job.ID
	Reason string
}

// Released makes chunks pending again that were given up; their next attempts
// are higher than Attempt.
type Released struct {
	Job     job.ID
	Attempt int
	Chunks  []job.Span
	Actor   string
}

// Starved says that a job waits and no worker is fit for it.
type Starved struct {
	Job    job.ID
	Reason string // how many workers are eligible, and what keeps the others
}

func (Assign) action()  {}
func (Adopt) action()   {}
func (Accept) action()  {}
func (Fail) action()    {}
func (Reclaim) action() {}
func (Extend) action()  {}
func (Save) action()    {}
func (Settled) action() {}
func (Cancel) action()  {}
func (Finish) action()  {}
func (Stop) action()    {}
func (Offence) action() {}
func (Starved) action() {}
func (Notice) action()  {}

func (Waiting) action()  {}
func (Released) action() {}

// String implements fmt.Stringer.
func (a Assign) String() string {
	return fmt.Sprintf("assign %s to %s: %v", a.Job, a.Worker, listed(a.Chunks))
}

// String implements fmt.Stringer.
func (a Adopt) String() string {
	return fmt.Sprintf("adopt %s at %s: %v", a.Job, a.Worker, listed(a.Chunks))
}

// String implements fmt.Stringer.
func (a Accept) String() string { return fmt.Sprintf("accept %s of %s", a.Attempt, a.Worker) }

// String implements fmt.Stringer.
func (a Fail) String() string {
	return fmt.Sprintf("fail %s of %s final=%v: %s", a.Attempt, a.Worker, a.Final, a.Reason)
}

// String implements fmt.Stringer.
func (a Reclaim) String() string {
	return fmt.Sprintf("reclaim %s of %s: %s", a.Attempt, a.Worker, a.Reason)
}

// String implements fmt.Stringer.
func (a Extend) String() string {
	return fmt.Sprintf("extend %s of %s by %s of %s for %q: %s", a.Attempt, a.Worker, a.Given, a.Asked, a.Reason, a.Denied)
}

// String implements fmt.Stringer.
func (a Save) String() string {
	return fmt.Sprintf("save %s of %s after %d: %s", a.Attempt, a.Worker, a.Done, a.Hash)
}

// String implements fmt.Stringer.
func (a Settled) String() string { return fmt.Sprintf("settled %s of %s", a.Attempt, a.Worker) }

// String implements fmt.Stringer.
func (a Cancel) String() string {
	return fmt.Sprintf("cancel %s at %s: %v", a.Job, a.Worker, listed(a.Chunks))
}

// String implements fmt.Stringer.
func (a Finish) String() string { return fmt.Sprintf("finish %s %s: %s", a.Job, a.State, a.Reason) }

// String implements fmt.Stringer.
func (a Offence) String() string { return fmt.Sprintf("offence of %s: %s", a.Worker, a.Reason) }

// String implements fmt.Stringer.
func (a Starved) String() string { return fmt.Sprintf("starved %s: %s", a.Job, a.Reason) }

// String implements fmt.Stringer.
func (a Waiting) String() string { return fmt.Sprintf("waiting %s: %s", a.Job, a.Reason) }

// String implements fmt.Stringer.
func (a Released) String() string {
	return fmt.Sprintf("released %s %v after attempt %d for %s", a.Job, a.Chunks, a.Attempt, a.Actor)
}

// String implements fmt.Stringer.
func (a Notice) String() string {
	return fmt.Sprintf("notice %s of %s, job %q: %s", a.What, a.Worker, a.Job, a.Reason)
}

// String implements fmt.Stringer.
func (a Stop) String() string { return fmt.Sprintf("stop %s for %s: %s", a.Job, a.Cause, a.Reason) }

// listed are chunks and attempts of one job.
func listed(attempts []job.Attempt) string {
	out := make([]string, len(attempts))
	for i, a := range attempts {
		out[i] = fmt.Sprintf("{%d %d}", a.Chunk, a.Number)
	}
	return "[" + strings.Join(out, " ") + "]"
}
