package stream

import (
	"fmt"
	"io"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// CrewProto is the name in the mesh of the stream to a host that lets outside workers
// in. It carries the frames of all of them, each with its worker.
const CrewProto = "skein-crew/1"

// Bounds of what an outside worker is.
const (
	MaxCrewSlots    = 64
	MaxCrewAssigned = 256
)

// Join says that an outside worker is attached to this host. Its kept results follow.
// What the log says of the worker counts, not what Owner says, which is for those that
// the log does not know.
type Join struct {
	Session     uint64        `json:"session"` // when it attached; of several the highest is the one
	Owner       string        `json:"owner"`
	Slots       int           `json:"slots"`
	Room        int           `json:"room"` // attempts it takes in all, at most twice its slots
	MemoryBytes uint64        `json:"memory_bytes,omitempty"`
	Executors   []string      `json:"executors"`
	Assigned    []job.Attempt `json:"assigned"` // queued or running
	Draining    bool          `json:"draining,omitempty"`
	// Gateway is the host at which it is, of those that share a store; empty: this one.
	Gateway cluster.NodeID `json:"gateway,omitempty"`
}

// Part says that an outside worker is not attached to this host any more.
type Part struct {
	Session uint64 `json:"session"`
	Gone    bool   `json:"gone,omitempty"` // it does not come back, and has nothing any more
	Reason  string `json:"reason,omitempty"`
}

// DropReason is why the holder wants an outside worker detached.
type DropReason string

// Values of DropReason.
const (
	DropReplaced   DropReason = "replaced"      // it has a later session elsewhere
	DropStale      DropReason = "stale_session" // a session that is not later is known: the one of the Drop
	DropFlood      DropReason = "flood"         // it sends more than its share
	DropOffence    DropReason = "offence"       // it sent what no correct worker sends
	DropRevoked    DropReason = "revoked"       // the log says so, or knows nobody of its kind
	DropDistrusted DropReason = "distrusted"    // too many of its results were wrong
)

// DropReasons lists all of them.
func DropReasons() []DropReason {
	return []DropReason{DropReplaced, DropStale, DropFlood, DropOffence, DropRevoked, DropDistrusted}
}

// Known reports that r is one of the values.
func (r DropReason) Known() bool { return slices.Contains(DropReasons(), r) }

// Drop has the host detach an outside worker, if it has Session or an earlier one.
type Drop struct {
	Term    cluster.Term `json:"term"`
	Session uint64       `json:"session"`
	Reason  DropReason   `json:"reason"`
}

// NewCrewDecoder reads a stream of CrewProto, as NewDecoder one of Proto.
func NewCrewDecoder(r io.Reader) *Decoder {
	d := NewDecoder(r)
	d.crew = true
	return d
}

// placed checks that a frame names a worker where one of its stream does.
func (f *Frame) placed(crew bool) error {
	whole := f.Hello != nil || f.Welcome != nil || f.Refused != nil || f.Ping != nil || f.Pong != nil
	switch named := f.Worker != ""; {
	case !crew && (named || f.Join != nil || f.Part != nil || f.Drop != nil):
		return fmt.Errorf("%w: about an outside worker", ErrFrame)
	case named && !cluster.IsOutside(f.Worker):
		return fmt.Errorf("%w: %.64q is not the id of an outside worker", ErrFrame, f.Worker)
	case named && whole:
		return fmt.Errorf("%w: about the stream, and names a worker", ErrFrame)
	case crew && !named && !whole && f.Status == nil:
		return fmt.Errorf("%w: names no worker", ErrFrame)
	}
	return nil
}

func (j Join) validate() error {
	switch {
	case j.Session == 0:
		return fmt.Errorf("%w: join without session", ErrFrame)
	case j.Slots < 1 || j.Slots > MaxCrewSlots || j.Room < 1 || j.Room > 2*j.Slots:
		return fmt.Errorf("%w: join with %d slots and room for %d", ErrFrame, j.Slots, j.Room)
	}
	if err := cluster.CheckPrincipal(j.Owner); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if j.Gateway != "" {
		if _, err := cluster.ParseHostName(string(j.Gateway)); err != nil {
			return fmt.Errorf("%w: join at the gateway %.64q: %w", ErrFrame, string(j.Gateway), err)
		}
	}
	if err := validExecutors(j.Executors); err != nil {
		return err
	}
	return atMost(MaxCrewAssigned, j.Assigned)
}

func (p Part) validate() error {
	if p.Session == 0 || len(p.Reason) > maxReason {
		return fmt.Errorf("%w: part of session %d with a reason of %d bytes", ErrFrame, p.Session, len(p.Reason))
	}
	return nil
}

func (d Drop) validate() error {
	if d.Term == 0 || d.Session == 0 || !d.Reason.Known() {
		return fmt.Errorf("%w: drop of session %d for %.64q", ErrFrame, d.Session, d.Reason)
	}
	return nil
}
