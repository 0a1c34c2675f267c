package lease

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Phase names what a Message is. Requests go from candidate or holder to
// voters, replies go back; the release goes from an old holder to everyone.
type Phase string

// Phases.
const (
	PreVote      Phase = "pre_vote"
	PreVoteReply Phase = "pre_vote_reply"
	Vote         Phase = "vote"
	VoteReply    Phase = "vote_reply"
	Renew        Phase = "renew"
	RenewReply   Phase = "renew_reply"
	ReleaseTerm  Phase = "release"
)

// Message is what lease cores say to each other. It travels as the payload of
// lease_claim, and of lease_release for ReleaseTerm.
type Message struct {
	Phase Phase `json:"phase"`
	// Priority is the sender's.
	Priority uint32 `json:"priority"`
	// Term is the term asked for, held or released; a reply repeats it.
	Term cluster.Term `json:"term"`
	// Round pairs a reply with its request; it rises with every request, so
	// that a lease is counted from the sending of the request answered.
	Round uint64 `json:"round,omitempty"`
	// Ack in a renewal asks for an answer of a host that is no voter of Config:
	// it was one, and its word is needed that it knows.
	Ack bool `json:"ack,omitempty"`
	// Granted is the answer of a reply, Reason why not.
	Granted bool   `json:"granted,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Promised is the replier's promised term; of one that lost its vote record
	// the highest that it knows of.
	Promised cluster.Term `json:"promised,omitempty"`
	// Config is the sender's newest voter configuration.
	Config cluster.VoterConfig `json:"config"`
	// Holder names the holder whose guard made a replier refuse.
	Holder cluster.NodeID `json:"holder,omitempty"`
	// Successor is named by a release, and Released is the release that a
	// named successor repeats inside its pre-vote and vote.
	Successor cluster.NodeID `json:"successor,omitempty"`
	Released  *Release       `json:"released,omitempty"`
}

// Release is a holder's signed statement that its term is over. The core
// treats Proof as opaque; the shell makes it when it sends and checks it
// before it hands a Message to the core.
type Release struct {
	Term      cluster.Term   `json:"term"`
	Holder    cluster.NodeID `json:"holder"`
	Successor cluster.NodeID `json:"successor,omitempty"`
	Proof     []byte         `json:"proof,omitempty"`
}

// ErrMessage is wrapped by every error of Message.Validate.
var ErrMessage = errors.New("invalid lease message")

// Validate checks shape and bounds, not truth.
func (m Message) Validate() error {
	switch m.Phase {
	case PreVote, PreVoteReply, Vote, VoteReply, Renew, RenewReply, ReleaseTerm:
	default:
		return fmt.Errorf("%w: phase %q", ErrMessage, m.Phase)
	}
	if m.Term == 0 || m.Term >= 1<<53 || m.Promised >= 1<<53 {
		return fmt.Errorf("%w: term %d, promised %d", ErrMessage, m.Term, m.Promised)
	}
	if !m.Config.IsZero() {
		if err := m.Config.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrMessage, err)
		}
	}
	return nil
}
