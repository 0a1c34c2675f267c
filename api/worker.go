package api

import "github.com/skein-project/skein/cluster"

// Workers answers GET /v1/workers: what the holder knows of the workers, sorted
// by node. It is empty for a moment after a failover.
type Workers struct {
	Header
	Holder  cluster.NodeID `json:"holder"`
	Term    cluster.Term   `json:"term"`
	Workers []Worker       `json:"workers"`
	// Omitted is how many workers more there are: the list has the first
	// MaxWorkers.
	Omitted int `json:"omitted,omitempty"`
}

// MaxWorkers bounds Workers.Workers.
const MaxWorkers = 4096

// WorkerKind is what a worker is, or that it is many.
type WorkerKind string

// Values of WorkerKind. Results of strangers, named and visitor, are not believed alone.
const (
	WorkerHost    WorkerKind = "host"
	WorkerTrusted WorkerKind = "trusted" // no host runs it, and it gets what a host gets
	WorkerNamed   WorkerKind = "named"   // a user's
	WorkerVisitor WorkerKind = "visitor" // nobody's that is known
	WorkerGroup   WorkerKind = "outside" // all of the last three that are attached at one gateway
)

// WorkerOwner counts the workers of one owner in a group. Without an owner it counts those
// of all others.
type WorkerOwner struct {
	Owner   string     `json:"owner"`
	Kind    WorkerKind `json:"kind"`
	Workers int        `json:"workers"`
}

// MaxWorkerOwners bounds Worker.Owners.
const MaxWorkerOwners = 16

// Worker is a host as the scheduler sees it. Three signals decide what it gets:
// whether it lives, whether it is ready, and how it gets on. In a watch one row is all
// outside workers of a gateway; its numbers are their sums.
type Worker struct {
	Node      cluster.NodeID `json:"node"` // of a group "outside@" and the gateway, of those that are attached at none "outside@"
	Kind      WorkerKind     `json:"kind,omitempty"`
	Workers   int            `json:"workers,omitempty"` // in a group
	Owners    []WorkerOwner  `json:"owners,omitempty"`  // of a group, those with most workers
	Via       cluster.NodeID `json:"via,omitempty"`     // the gateway at which an outside worker is attached
	Live      cluster.Health `json:"live"`
	Stopped   bool           `json:"stopped,omitempty"` // it said that it stops
	Connected bool           `json:"connected"`         // its stream is open
	Ready     bool           `json:"ready"`             // it takes work
	Draining  bool           `json:"draining"`          // it finishes what it has and takes no more
	Progress  string         `json:"progress"`          // idle, normal, slow, degraded or stuck
	// Verdict is what follows: route, investigate (after others), drain or evict.
	Verdict string `json:"verdict"`
	Slots   int    `json:"slots"`
	Owner   string `json:"owner,omitempty"` // whose worker it is: "user:ann", or "node:n4" of a host that is nobody's in particular
	// Accept is whose jobs its host runs of those that permit it: public, owner, user,
	// group or none; AcceptNames the users or groups.
	Accept      string   `json:"accept,omitempty"`
	AcceptNames []string `json:"accept_names,omitempty"`
	// Assigned counts the attempts that it has, of at most Window.
	Assigned          int      `json:"assigned"`
	Window            int      `json:"window"`
	BacklogIterations uint64   `json:"backlog_iterations"`
	DrainSeconds      float64  `json:"drain_seconds"`    // until it is done with them
	RatePerSecond     *float64 `json:"rate_per_second"`  // iterations, at its latest work; null: not measured
	Trusted           bool     `json:"trusted"`          // its results count without another's
	ExcludedSeconds   *float64 `json:"excluded_seconds"` // it gets nothing for so long; null: it does
}
