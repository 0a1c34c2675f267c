package lease

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Event is an input of Step. The set is closed.
type Event interface {
	isEvent()
	String() string
}

// Tick lets time pass. Jitter in [0,1) spreads retries.
type Tick struct{ Jitter float64 }

// Receive is an authenticated message of another host, or of this one.
type Receive struct {
	From cluster.NodeID
	Msg  Message
}

// PeerChanged tells what this host believes of another: from heartbeats,
// membership records and the profile's suspect and grace times. A peer that was never
// reported is unknown and does not count. About this host itself only Priority,
// Gone, Zone and Members matter; one that is gone does not publish.
type PeerChanged struct {
	Node     cluster.NodeID
	Priority uint32
	// Eligible hosts may hold: not a witness, not draining, self-check good.
	Eligible bool
	// Alive means heard of within the profile's suspect + grace.
	Alive bool
	// CaughtUp means its log heads equal the local ones (give or take the
	// last moments); a handover goes only to such a host.
	CaughtUp bool
	// Gone means the host left or was removed; its record may be dropped.
	Gone bool
	// Publishing means its last heartbeat says that it has the publishing
	// duty. Holds is the term that it says there to hold itself, 0 if none.
	Publishing bool
	Holds      cluster.Term
	// Abstains means its last heartbeat says that it lost its vote record. It
	// becomes no voter before it was readmitted: a holder that adds it to few
	// could not go on with it, nor without.
	Abstains bool
	// Zone is its datacenter label.
	Zone string
	// Members, about this host itself, is how many hosts the cluster has, heard
	// or not; 0 if that is not known.
	Members int
}

// SetVoters is an operator's request to the holder: who shall vote, and how
// the voters decide. The holder goes there one change at a time. See
// CheckVoters for what it refuses.
type SetVoters struct {
	// Voters are all that shall vote; empty: as it is.
	Voters []cluster.NodeID
	// Mode is auto, quorum or available; empty: as it is.
	Mode cluster.Mode
	// Auto lets the holder choose the voters again.
	Auto bool
}

// VoteLost says that promises of this voter are not known any more, for
// instance because the others know more of its own log than its disk does. See
// Options.Lost.
type VoteLost struct{ Reason string }

// TermReady says that a majority of the voters of configuration Epoch holds
// all that this holder knew when Term began, or when that configuration became
// stable: term_start or config_changed is stable. The holder may then make the
// next change. Without that wait, voters that know nothing could become a
// majority, and elect a holder whose cut voids what the old voters keep.
type TermReady struct {
	Term  cluster.Term
	Epoch uint64
}

// StepDown asks the holder to hand over, to To if named and able.
type StepDown struct {
	To     cluster.NodeID
	Reason string
	// Leaving hosts do not stand again.
	Leaving bool
}

// SelfCheck reports whether this host may hold: disk, clock, scheduler.
type SelfCheck struct {
	OK     bool
	Reason string
}

// Suspended says that the machine slept or that the clock cannot be trusted to
// have run: a held lease is taken as passed, and this host votes for nobody
// for one lease, since it cannot know which of its guards are still live.
type Suspended struct{}

// Quiesced answers Quiesce: nothing more is issued and all is flushed.
type Quiesced struct{ Term cluster.Term }

func (Tick) isEvent()        {}
func (Receive) isEvent()     {}
func (PeerChanged) isEvent() {}
func (TermReady) isEvent()   {}
func (StepDown) isEvent()    {}
func (SelfCheck) isEvent()   {}
func (Suspended) isEvent()   {}
func (Quiesced) isEvent()    {}
func (SetVoters) isEvent()   {}
func (VoteLost) isEvent()    {}

func (e Tick) String() string { return fmt.Sprintf("tick jitter=%.3f", e.Jitter) }

func (e Receive) String() string {
	return fmt.Sprintf("receive from=%s %s term=%d granted=%t", e.From, e.Msg.Phase, e.Msg.Term, e.Msg.Granted)
}

func (e PeerChanged) String() string {
	return fmt.Sprintf("peer %s priority=%d eligible=%t alive=%t caught_up=%t gone=%t publishing=%t holds=%d",
		e.Node, e.Priority, e.Eligible, e.Alive, e.CaughtUp, e.Gone, e.Publishing, e.Holds)
}

func (e TermReady) String() string {
	return fmt.Sprintf("term_ready term=%d epoch=%d", e.Term, e.Epoch)
}

func (e StepDown) String() string {
	return fmt.Sprintf("step_down to=%q reason=%q leaving=%t", e.To, e.Reason, e.Leaving)
}

func (e SelfCheck) String() string { return fmt.Sprintf("self_check ok=%t reason=%q", e.OK, e.Reason) }

func (Suspended) String() string { return "suspended" }

func (e SetVoters) String() string {
	return fmt.Sprintf("set_voters voters=%v mode=%q auto=%t", e.Voters, e.Mode, e.Auto)
}

func (e VoteLost) String() string { return fmt.Sprintf("vote_lost reason=%q", e.Reason) }

func (e Quiesced) String() string { return fmt.Sprintf("quiesced term=%d", e.Term) }
