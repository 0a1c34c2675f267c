package plan

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Ref names one attempt at a chunk.
type Ref struct {
	Job     cluster.JobID
	Chunk   int
	Attempt int
}

// String returns "job/chunk#attempt".
func (r Ref) String() string { return fmt.Sprintf("%s/%d#%d", r.Job, r.Chunk, r.Attempt) }

// Event is an input of Step.
type Event interface {
	fmt.Stringer
	event()
}

// JobAdded brings a job to the plan, a new one or one that an earlier term
// left. Jobs take turns in the order in which they are added.
type JobAdded struct {
	Job     cluster.JobID
	Spec    cluster.JobSpec
	Restore *Restore // nil: nothing has happened to it yet
}

// Restore is how far a job came before.
type Restore struct {
	Open     []OpenChunk // neither accepted nor given up
	GivenUp  int
	Failures int    // failed attempts, of all chunks
	Reason   string // of the latest failure
	Metrics  []string
	Stopped  bool
	Actor    string // who stopped it
}

// OpenChunk is a chunk of a restored job.
type OpenChunk struct {
	Chunk    int
	Attempts int // highest attempt number used
	Failed   int
	Lost     int
	FailedOn []cluster.NodeID
	Tries    []OpenTry
}

// OpenTry is an attempt that may still run.
type OpenTry struct {
	Attempt int
	Worker  cluster.NodeID
}

// JobStopped asks to end a job.
type JobStopped struct {
	Job   cluster.JobID
	Actor string
}

// WorkerConnected says that a stream to a worker is open. Assigned is what it
// has queued or running; results that it keeps follow as Results.
type WorkerConnected struct {
	Worker    cluster.NodeID
	Slots     int
	Executors []string // see cluster.JobSpec.Needs
	Assigned  []Ref
	Draining  bool
}

// Draining says that a worker takes nothing new, or does again. What it has
// goes on.
type Draining struct {
	Worker cluster.NodeID
	On     bool
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
	Ref
	Worker  cluster.NodeID
	Result  *cluster.ChunkResult
	Error   string
	Class   cluster.FailureClass // of Error
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
func (WorkerConnected) event()    {}
func (WorkerDisconnected) event() {}
func (HealthChanged) event()      {}
func (Draining) event()           {}
func (Result) event()             {}
func (Tick) event()               {}
func (Quiesce) event()            {}
func (Hold) event()               {}

// String implements fmt.Stringer.
func (e JobAdded) String() string { return fmt.Sprintf("job_added %s", e.Job) }

// String implements fmt.Stringer.
func (e JobStopped) String() string { return fmt.Sprintf("job_stopped %s by %s", e.Job, e.Actor) }

// String implements fmt.Stringer.
func (e WorkerConnected) String() string {
	return fmt.Sprintf("worker_connected %s slots=%d assigned=%v", e.Worker, e.Slots, e.Assigned)
}

// String implements fmt.Stringer.
func (e WorkerDisconnected) String() string { return fmt.Sprintf("worker_disconnected %s", e.Worker) }

// String implements fmt.Stringer.
func (e HealthChanged) String() string { return fmt.Sprintf("health %s %s", e.Worker, e.Health) }

// String implements fmt.Stringer.
func (e Draining) String() string { return fmt.Sprintf("draining %s %t", e.Worker, e.On) }

// String implements fmt.Stringer.
func (e Result) String() string {
	if e.Result == nil {
		return fmt.Sprintf("result %s from %s: %s error %q", e.Ref, e.Worker, e.Class, e.Error)
	}
	return fmt.Sprintf("result %s from %s", e.Ref, e.Worker)
}

// String implements fmt.Stringer.
func (Tick) String() string { return "tick" }

// String implements fmt.Stringer.
func (Quiesce) String() string { return "quiesce" }

// String implements fmt.Stringer.
func (e Hold) String() string { return fmt.Sprintf("hold %t", e.On) }
