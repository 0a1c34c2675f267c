package lease

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Action is an output of Step, to be carried out in order. The set is closed.
type Action interface {
	isAction()
	String() string
}

// VoteRecord is what a voter must remember across a crash.
type VoteRecord struct {
	PromisedTerm cluster.Term        `json:"promised_term"`
	PromisedTo   cluster.NodeID      `json:"promised_to"`
	Config       cluster.VoterConfig `json:"config"`
	// Lost says why promises made before are not known any more; empty: they
	// are. A voter of which that is true abstains.
	Lost string `json:"lost,omitempty"`
}

// Persist asks to write Vote durably (fsync of file and directory) before any
// later action is carried out. If that fails, the later actions must not be
// carried out and the shell must report SelfCheck{OK: false}.
type Persist struct{ Vote VoteRecord }

// Send asks to send Msg to another host. Losing it is allowed.
type Send struct {
	To  cluster.NodeID
	Msg Message
}

// Acquired says that this host holds Term until Until (local time). The shell
// catches up, appends term_start and then reports TermReady.
type Acquired struct {
	Term     cluster.Term
	Until    time.Duration
	Previous cluster.NodeID
	Grants   []cluster.NodeID
	Config   cluster.VoterConfig
}

// Extended says that Term is now held until Until (local time).
type Extended struct {
	Term  cluster.Term
	Until time.Duration
}

// Quiesce tells the holder to stop issuing and flush: it is about to release
// Term to Successor. The release follows without waiting for an answer.
type Quiesce struct {
	Term      cluster.Term
	Successor cluster.NodeID
	Reason    string
}

// Lost says that this host no longer holds Term.
type Lost struct {
	Term      cluster.Term
	Reason    string
	Successor cluster.NodeID
}

// Observed says that the holder that this host knows of changed; Holder is
// empty when none is known.
type Observed struct {
	Holder cluster.NodeID
	Term   cluster.Term
}

// ConfigStable says that Config, issued in Term by this holder, is stable.
type ConfigStable struct {
	Term   cluster.Term
	Config cluster.VoterConfig
}

// Refused says that a message of Node cannot be meant honestly, or comes from
// a host that missed something: it was refused, answered at most, and changed
// nothing. Why is one of the Refused reasons, fit for a counter.
type Refused struct {
	Node  cluster.NodeID
	Phase Phase
	Why   string
}

// Why a message was Refused.
const (
	RefusedTerm      = "term"      // a term below one promised, or released
	RefusedEpoch     = "epoch"     // a claim under an older voter configuration
	RefusedNonVoter  = "non_voter" // a grant, or a claim that only a voter may make, of another
	RefusedCandidate = "candidate" // a claim of a host that left or is not eligible
)

// RefusedReasons returns every reason of Refused.
func RefusedReasons() []string {
	return []string{RefusedTerm, RefusedEpoch, RefusedNonVoter, RefusedCandidate}
}

func (Refused) isAction()      {}
func (Persist) isAction()      {}
func (Send) isAction()         {}
func (Acquired) isAction()     {}
func (Extended) isAction()     {}
func (Quiesce) isAction()      {}
func (Lost) isAction()         {}
func (Observed) isAction()     {}
func (ConfigStable) isAction() {}

func (a Refused) String() string {
	return fmt.Sprintf("refused %s of %s: %s", a.Phase, a.Node, a.Why)
}

func (a Persist) String() string {
	return fmt.Sprintf("persist promised=%d to=%s config=%d/%d", a.Vote.PromisedTerm, a.Vote.PromisedTo, a.Vote.Config.Term, a.Vote.Config.Epoch)
}

func (a Send) String() string {
	return fmt.Sprintf("send to=%s %s term=%d granted=%t", a.To, a.Msg.Phase, a.Msg.Term, a.Msg.Granted)
}

func (a Acquired) String() string { return fmt.Sprintf("acquired term=%d until=%s", a.Term, a.Until) }

func (a Extended) String() string { return fmt.Sprintf("extended term=%d until=%s", a.Term, a.Until) }

func (a Quiesce) String() string {
	return fmt.Sprintf("quiesce term=%d successor=%q", a.Term, a.Successor)
}

func (a Lost) String() string {
	return fmt.Sprintf("lost term=%d reason=%q successor=%q", a.Term, a.Reason, a.Successor)
}

func (a Observed) String() string { return fmt.Sprintf("observed holder=%q term=%d", a.Holder, a.Term) }

func (a ConfigStable) String() string {
	return fmt.Sprintf("config_stable term=%d epoch=%d", a.Term, a.Config.Epoch)
}
