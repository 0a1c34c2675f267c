package plan

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Action is an output of Step. Actions are carried out in order.
type Action interface {
	fmt.Stringer
	action()
}

// Assign hands new attempts at chunks of one job to a worker.
type Assign struct {
	Worker cluster.NodeID
	Job    cluster.JobID
	Chunks []Try
	Copies int // how many of them copy an attempt at a suspect worker
}

// Try is one chunk of an Assign.
type Try struct{ Chunk, Attempt int }

// Adopt records attempts that a worker has and the log does not know.
type Adopt struct {
	Worker cluster.NodeID
	Job    cluster.JobID
	Chunks []Try
}

// Accept makes a result the chunk's. The worker may drop it then.
type Accept struct {
	Ref
	Worker  cluster.NodeID
	Result  cluster.ChunkResult
	Seconds float64
}

// Fail ends an attempt without result. The worker may drop it then.
type Fail struct {
	Ref
	Worker cluster.NodeID
	Reason string
	Final  bool // the chunk is given up
}

// Reclaim takes an attempt back.
type Reclaim struct {
	Ref
	Worker cluster.NodeID
	Reason string
}

// Settled answers a result that changes nothing: the worker may drop it.
type Settled struct {
	Ref
	Worker cluster.NodeID
}

// Cancel stops attempts at a worker; no Chunks means the whole job.
type Cancel struct {
	Worker cluster.NodeID
	Job    cluster.JobID
	Chunks []Try
}

// Finish ends a job.
type Finish struct {
	Job    cluster.JobID
	State  cluster.JobState
	Reason string
}

// Offence says that a worker sent what no correct one sends.
type Offence struct {
	Worker cluster.NodeID
	Reason string
}

// Starved says that a job waits and no worker is fit for it.
type Starved struct{ Job cluster.JobID }

func (Assign) action()  {}
func (Adopt) action()   {}
func (Accept) action()  {}
func (Fail) action()    {}
func (Reclaim) action() {}
func (Settled) action() {}
func (Cancel) action()  {}
func (Finish) action()  {}
func (Offence) action() {}
func (Starved) action() {}

// String implements fmt.Stringer.
func (a Assign) String() string { return fmt.Sprintf("assign %s to %s: %v", a.Job, a.Worker, a.Chunks) }

// String implements fmt.Stringer.
func (a Adopt) String() string { return fmt.Sprintf("adopt %s at %s: %v", a.Job, a.Worker, a.Chunks) }

// String implements fmt.Stringer.
func (a Accept) String() string { return fmt.Sprintf("accept %s of %s", a.Ref, a.Worker) }

// String implements fmt.Stringer.
func (a Fail) String() string {
	return fmt.Sprintf("fail %s of %s final=%v: %s", a.Ref, a.Worker, a.Final, a.Reason)
}

// String implements fmt.Stringer.
func (a Reclaim) String() string {
	return fmt.Sprintf("reclaim %s of %s: %s", a.Ref, a.Worker, a.Reason)
}

// String implements fmt.Stringer.
func (a Settled) String() string { return fmt.Sprintf("settled %s of %s", a.Ref, a.Worker) }

// String implements fmt.Stringer.
func (a Cancel) String() string { return fmt.Sprintf("cancel %s at %s: %v", a.Job, a.Worker, a.Chunks) }

// String implements fmt.Stringer.
func (a Finish) String() string { return fmt.Sprintf("finish %s %s: %s", a.Job, a.State, a.Reason) }

// String implements fmt.Stringer.
func (a Offence) String() string { return fmt.Sprintf("offence of %s: %s", a.Worker, a.Reason) }

// String implements fmt.Stringer.
func (a Starved) String() string { return fmt.Sprintf("starved %s", a.Job) }
