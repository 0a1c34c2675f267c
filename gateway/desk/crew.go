package desk

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// Crew is where workers attach. Its errors are those of package  Its methods are called
// from any goroutine.
type Crew interface {
	// Attach begins a session of a worker.
	Attach(a Attach) (Seat, State, error)
	// Seat returns the session of a worker; it may be looked for only when it is used.
	Seat(worker cluster.NodeID, session uint64) (Seat, error)
	// Names reports that a worker has a chunk whose job needs the artefact h.
	Names(worker cluster.NodeID, h cluster.Hash) bool
	Stats() Stats
	// Why says why nobody can attach now, to anybody who asks; nil: they can.
	Why() error
}

// Shared is a Crew of several gateways: what workers at this one are told comes from where it
// was decided.
type Shared interface {
	Crew
	// OnPush sets who tells them. It is to be called once, before anybody attaches.
	OnPush(tell func(Push))
}

// Roaming is a Seat of a Shared.
type Roaming interface {
	// Apart is the same Seat, when its worker asks by HTTP: of several gateways of one name it
	// may have come to any, and go on listening at another.
	Apart() Seat
}

// Seat is a session of a worker.
type Seat interface {
	Beat(b Beat) (seq uint64, err error)
	Complete(results []stream.Result) ([]Verdict, error)
	Assigned() (State, error)
	Bye() error
	Lose() error
}
