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

// Worker is a host as the scheduler sees it. Three signals decide what it gets:
// whether it lives, whether it is ready, and how it gets on.
type Worker struct {
	Node      cluster.NodeID `json:"node"`
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
