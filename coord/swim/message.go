package swim

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Bounds of what a message carries.
const (
	// MaxDeltas is how many deltas one message carries at most.
	MaxDeltas = 4
	// MaxWitnesses is how many witnesses shorten a suspicion.
	MaxWitnesses = 3
	// maxJump is how far hearsay may raise an incarnation, maxBootJump a boot,
	// whose lower bits are a mark: a single liar must not make a host unable to
	// refute. Its own word counts always.
	maxJump     = 1 << 10
	maxBootJump = 1 << 32
)

// State is what is believed of a host.
type State uint8

// States of a host.
const (
	Alive State = iota
	Suspect
	Failed
	Left // it said that it stops
)

var stateNames = [...]string{"alive", "suspect", "failed", "left"}

// String returns the name of s as it stands in messages.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// ParseState reads what String returned.
func ParseState(name string) (s State, ok bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Delta is news of a host, this one or another.
type Delta struct {
	Node      cluster.NodeID
	Boot, Inc uint64
	State     State
	// Ineligible says that the host does not stand for the lease.
	Ineligible bool
	// By accused it first, of those that the sender knows; Witnesses is how
	// many more could not reach it. Only about a suspect.
	By        cluster.NodeID
	Witnesses int
	// Age is how long ago the last sign of life was missed; about a suspect or
	// a failed host.
	Age time.Duration
}

// Kind is what a message wants.
type Kind uint8

// Kinds of messages.
const (
	Probe   Kind = iota // to be answered by Ack with the same N
	Ack                 // of Probe N; with Target, of a PingReq: Target answered
	Nack                // of PingReq N: Target did not answer yet
	PingReq             // asks to probe Target
	Gossip              // nothing but deltas
)

var kindNames = [...]string{"probe", "ack", "nack", "ping_req", "gossip"}

// String returns the name of k.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Message is one datagram's worth of failure detection.
type Message struct {
	Kind Kind
	N    uint64
	// Target is the host that a PingReq asks about, or that its answer is about.
	Target cluster.NodeID
	// Inc and Ineligible are the sender's own state.
	Inc        uint64
	Ineligible bool
	Deltas     []Delta
}

// Event is an input of Step. The set is closed.
type Event interface{ isEvent() }

// Tick lets time pass.
type Tick struct{}

// Activate starts and stops the judging of others; a Core that is not active
// answers probes and learns who is there, no more.
type Activate struct{ On bool }

// Add makes a host known, unconfirmed; a known one stays as it is.
type Add struct{ Node cluster.NodeID }

// Remove forgets a host.
type Remove struct{ Node cluster.NodeID }

// Heard is an authenticated message of Node itself that is none of this
// package. Inc and Ineligible count if HasState is set. Round says that it
// answers one of this host: that confirms the host.
type Heard struct {
	Node       cluster.NodeID
	Boot       uint64
	HasState   bool
	Inc        uint64
	Ineligible bool
	Round      bool
}

// Leaving says that Node itself said that it stops.
type Leaving struct {
	Node cluster.NodeID
	Boot uint64
}

// Receive is an authenticated message of From in its boot.
type Receive struct {
	From cluster.NodeID
	Boot uint64
	Msg  Message
}

// Again asks for a probe of Node now, beside the usual ones.
type Again struct{ Node cluster.NodeID }

// SetEligible says whether this host stands for the lease.
type SetEligible struct{ Eligible bool }

func (Tick) isEvent()        {}
func (Activate) isEvent()    {}
func (Add) isEvent()         {}
func (Remove) isEvent()      {}
func (Heard) isEvent()       {}
func (Leaving) isEvent()     {}
func (Receive) isEvent()     {}
func (Again) isEvent()       {}
func (SetEligible) isEvent() {}

// Action is something to carry out. The set is closed.
type Action interface{ isAction() }

// Send asks to send a message.
type Send struct {
	To  cluster.NodeID
	Msg Message
}

// Changed is a verdict: Node is Alive, Failed or Left from now on. Since is
// the last sign of life of a failed host. A suspicion is no verdict.
type Changed struct {
	Node  cluster.NodeID
	State State
	Since time.Duration
}

// Informed says that a host's own state came by hearsay.
type Informed struct {
	Node       cluster.NodeID
	Ineligible bool
}

// Answered says that Node answered a probe after Trip.
type Answered struct {
	Node cluster.NodeID
	Sent time.Duration
	Trip time.Duration
}

func (Send) isAction()     {}
func (Answered) isAction() {}
func (Changed) isAction()  {}
func (Informed) isAction() {}
