package step

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/reserve"
)

// Event is an input of Step.
type Event interface {
	fmt.Stringer
	event()
}

// JobAdded brings a job to the plan, a new one or one that an earlier term
// left.
type JobAdded struct {
	Job     job.ID
	Spec    job.Spec
	Owner   string
	Age     time.Duration // since it was submitted
	Restore *Restore      // nil: nothing has happened to it yet
}

// Restore is how far a job came before.
type Restore struct {
	Open     []OpenChunk // all but those with a result that nobody disputes
	Failures int         // failed attempts, of all chunks
	Reason   string      // of the latest failure
	Metrics  []string
	Stopped  bool
	Actor    string // who stopped it
}

// OpenChunk is a chunk of a restored job.
type OpenChunk struct {
	Chunk    int
	GivenUp  bool
	Disputed bool // it has a result of FailedOn, and another was accepted as well
	Attempts int  // highest attempt number used
	Failed   int
	Lost     int
	FailedOn []cluster.NodeID
	Tries    []job.Attempt
}

// JobStopped asks to end a job.
type JobStopped struct {
	Job   job.ID
	Actor string
}

// JobReleased lets what was given up of a job be tried again.
type JobReleased struct {
	Job   job.ID
	Actor string
}

// JobMoved says in which zones what has not begun of a job runs from now on.
type JobMoved struct {
	Job   job.ID
	Zones []string
}

// JobConcluded ends a job that waits for an operator, as one that does not wait.
type JobConcluded struct{ Job job.ID }

// WorkerConnected says that a stream to a worker is open. Assigned is what it
// has queued or running; results that it keeps follow as Results.
type WorkerConnected struct {
	Worker    cluster.NodeID
	Slots     int
	Credits   int      // attempts that it takes in all; 0: it does not say
	Executors []string // see job.Spec.Needs
	Memory    uint64   // bytes that an attempt may have there; 0: it does not say
	Assigned  []job.Attempt
	Owner     string         // whose worker it is; empty: nobody's in particular
	Accept    job.Acceptance // whose jobs its host runs, settled
	Stranger  bool           // it is not run by a member of the cluster
	Draining  bool
	Files     bool // it runs jobs with files
}

// WorkerStatus is what a worker tells of itself.
type WorkerStatus struct {
	Worker   cluster.NodeID
	Ready    bool // it takes new work
	Draining bool
	Full     bool       // it has no room for outputs
	Strain   uint64     // 1: its host has more to do than usual
	Progress []Progress // of what runs
}

// Progress is how far a running attempt is. Done never falls; 0: its work does
// not say.
type Progress struct {
	job.Attempt
	Done uint64 // iterations
	Ask  *Ask   // the latest; nil: none
	// Saved is the latest checkpoint; nil: none.
	Saved *job.Checkpoint
}

// Ask is an attempt's request for more time.
type Ask struct {
	Number int // rises with each of the attempt, from 1
	For    time.Duration
	Reason string
}

// WorkerHolds lists all that a worker has.
type WorkerHolds struct {
	Worker cluster.NodeID
	Refs   []job.Attempt // queued or running
	Kept   []job.Attempt // results that were not accepted yet
}

// Draining says that a worker takes nothing new, or does again. What it has
// goes on.
type Draining struct {
	Worker cluster.NodeID
	On     bool
}

// RoundTrip is how long it takes to hear from a worker, the log included.
type RoundTrip struct {
	Worker cluster.NodeID
	Time   time.Duration
}

// HostKnown describes the host of a worker.
type HostKnown struct {
	Worker cluster.NodeID
	Zone   string
}

// OwnerChanged says whose worker one is from now on, and whose jobs it runs.
type OwnerChanged struct {
	Worker cluster.NodeID
	Owner  string         // empty: nobody's in particular
	Accept job.Acceptance // settled
}

// Reserved replaces which slots of zones are kept for whom, in the order in which they are
// granted.
type Reserved struct{ List []reserve.Reservation }

// GroupChanged replaces the members of a group: owners, as jobs and workers
// have them. No members means that there is no such group.
type GroupChanged struct {
	Group   string
	Members []string
}

// WorkerDisconnected says that the stream to a worker is gone.
type WorkerDisconnected struct{ Worker cluster.NodeID }

// HealthChanged says what is believed of a worker's host.
type HealthChanged struct {
	Worker cluster.NodeID
	Health cluster.Health
}

// Result ends an attempt, as its worker tells it: either Result or Error is
// set.
type Result struct {
	job.Attempt
	Result  *job.ChunkResult
	Error   string
	Class   job.FailureClass // of Error
	Seconds float64
}

// Tick lets time pass.
type Tick struct{}

// Quiesce stops all decisions for good: the lease is being handed over.
type Quiesce struct{}

// Hold says whether anything new may be given out. What runs goes on.
type Hold struct{ On bool }

func (JobAdded) event()           {}
func (JobStopped) event()         {}
func (JobReleased) event()        {}
func (JobConcluded) event()       {}
func (JobMoved) event()           {}
func (WorkerConnected) event()    {}
func (WorkerDisconnected) event() {}
func (HealthChanged) event()      {}
func (WorkerStatus) event()       {}
func (WorkerHolds) event()        {}
func (Draining) event()           {}
func (RoundTrip) event()          {}
func (HostKnown) event()          {}
func (Reserved) event()           {}
func (GroupChanged) event()       {}
func (OwnerChanged) event()       {}
func (Result) event()             {}
func (Tick) event()               {}
func (Quiesce) event()            {}
func (Hold) event()               {}

// String implements fmt.Stringer.
func (e JobAdded) String() string { return fmt.Sprintf("job_added %s", e.Job) }

// String implements fmt.Stringer.
func (e JobStopped) String() string { return fmt.Sprintf("job_stopped %s by %s", e.Job, e.Actor) }

// String implements fmt.Stringer.
func (e JobConcluded) String() string { return fmt.Sprintf("job_concluded %s", e.Job) }

// String implements fmt.Stringer.
func (e JobMoved) String() string { return fmt.Sprintf("job_moved %s to %v", e.Job, e.Zones) }

// String implements fmt.Stringer.
func (e JobReleased) String() string { return fmt.Sprintf("job_released %s by %s", e.Job, e.Actor) }

// String implements fmt.Stringer.
func (e WorkerConnected) String() string {
	return fmt.Sprintf("worker_connected %s slots=%d assigned=%v accepts %s", e.Worker, e.Slots, e.Assigned, e.Accept)
}

// String implements fmt.Stringer.
func (e WorkerDisconnected) String() string { return fmt.Sprintf("worker_disconnected %s", e.Worker) }

// String implements fmt.Stringer.
func (e HealthChanged) String() string { return fmt.Sprintf("health %s %s", e.Worker, e.Health) }

// String implements fmt.Stringer.
func (e WorkerStatus) String() string {
	return fmt.Sprintf("status of %s ready=%t draining=%t progress=%v", e.Worker, e.Ready, e.Draining, e.Progress)
}

// String implements fmt.Stringer.
func (e WorkerHolds) String() string {
	return fmt.Sprintf("worker_holds %s %v kept=%v", e.Worker, e.Refs, e.Kept)
}

// String implements fmt.Stringer.
func (e Draining) String() string { return fmt.Sprintf("draining %s %t", e.Worker, e.On) }

// String implements fmt.Stringer.
func (e RoundTrip) String() string { return fmt.Sprintf("round_trip %s %s", e.Worker, e.Time) }

// String implements fmt.Stringer.
func (e HostKnown) String() string { return fmt.Sprintf("host_known %s zone=%q", e.Worker, e.Zone) }

// String implements fmt.Stringer.
func (e OwnerChanged) String() string {
	return fmt.Sprintf("owner_changed %s %q accepts %s", e.Worker, e.Owner, e.Accept)
}

// String implements fmt.Stringer.
func (e Reserved) String() string { return fmt.Sprintf("reserved %v", e.List) }

// String implements fmt.Stringer.
func (e GroupChanged) String() string {
	return fmt.Sprintf("group_changed %q %d members", e.Group, len(e.Members))
}

// String implements fmt.Stringer.
func (e Result) String() string {
	if e.Result == nil {
		return fmt.Sprintf("result %s from %s: %s error %q", e.Attempt, e.Worker, e.Class, e.Error)
	}
	return fmt.Sprintf("result %s from %s", e.Attempt, e.Worker)
}

// String implements fmt.Stringer.
func (Tick) String() string { return "tick" }

// String implements fmt.Stringer.
func (Quiesce) String() string { return "quiesce" }

// String implements fmt.Stringer.
func (e Hold) String() string { return fmt.Sprintf("hold %t", e.On) }
