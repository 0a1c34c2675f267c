package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// MaxTransitions bounds JobHistory.Transitions.
const MaxTransitions = 10_000

// JobHistory answers GET /v1/jobs/{id}/history: every change of state of the job,
// and with the query chunks=true of its chunks, in the order of their events.
type JobHistory struct {
	Header
	Job         job.ID       `json:"job"`
	Transitions []Transition `json:"transitions"`
	// Omitted counts earlier changes that there was no room for. Compacted says
	// that earlier events are no longer kept.
	Omitted   int  `json:"omitted"`
	Compacted bool `json:"compacted"`
}

// Transition is one change of state, by one event.
type Transition struct {
	At   time.Time      `json:"at"`
	Node cluster.NodeID `json:"node"` // that logged it
	Seq  uint64         `json:"seq"`  // its event of that number
	Term cluster.Term   `json:"term"`
	Kind event.Kind     `json:"kind"`
	// Chunk is null for changes of the job itself; Attempt and Worker belong to it.
	Chunk   *int           `json:"chunk"`
	Attempt int            `json:"attempt,omitempty"`
	Worker  cluster.NodeID `json:"worker,omitempty"`
	From    string         `json:"from"` // empty: it did not exist; the same as To where one of several attempts begins or ends
	To      string         `json:"to"`
	Actor   string         `json:"actor,omitempty"` // who asked for it
	Reason  string         `json:"reason,omitempty"`
}

// Groups answers GET /v1/groups, by name.
type Groups struct {
	Header
	Groups []Group `json:"groups"`
	// Next is what to give as after for those behind the last one; empty: there are none.
	Next string `json:"next,omitempty"`
	// Waiting are those that a file or address of this host's configuration would take
	// more than half of the members from. They stay until somebody sets them.
	Waiting []GroupWaiting `json:"waiting,omitempty"`
}

// GroupWaiting is a group as the configuration has it.
type GroupWaiting struct {
	Name    string   `json:"name"`
	Members []string `json:"members"` // sorted
	From    string   `json:"from"`    // the key of the configuration
}

// Group is a set of users whose workers may run jobs that name it.
type Group struct {
	Name    string    `json:"name"`
	Members []string  `json:"members"` // sorted
	Actor   string    `json:"actor"`   // who set them
	At      time.Time `json:"at"`
}

// GroupRequest is the body of PUT /v1/groups/{name}: all members; none ends the
// group.
type GroupRequest struct {
	Members []string `json:"members"`
}

// GroupSet answers PUT /v1/groups/{name}: a majority of the voters has it.
type GroupSet struct {
	Header
	Name    string `json:"name"`
	Members int    `json:"members"`
}
