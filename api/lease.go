package api

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// LeaseSummary is the lease as this host sees it, and the two duties: the
// holder schedules; the publisher publishes.
type LeaseSummary struct {
	Holder  cluster.NodeID  `json:"holder"` // empty: none known
	Term    cluster.Term    `json:"term"`
	Mode    cluster.Mode    `json:"mode"`
	Voters  int             `json:"voters"`
	Profile cluster.Profile `json:"profile"`
	// RenewedSeconds is the age of the last renewal that this host knows,
	// ExpiresSeconds the time until its guard ends; null: unknown.
	RenewedSeconds *float64 `json:"renewed_seconds"`
	ExpiresSeconds *float64 `json:"expires_seconds"`
	// TenureSeconds is for how long the holder has held the term, by the event
	// log; null: the term is not in it yet.
	TenureSeconds *float64 `json:"tenure_seconds"`
	// Publisher has the publishing duty, as this host sees it: the holder of a
	// lease that is visible here, else the best host alive. Empty: none known.
	// Where hosts do not see each other, each side has its own.
	Publisher cluster.NodeID `json:"publisher"`
	// Publishing says that it is this host, PublishWhy how it was decided:
	// PublishLease or PublishNoLease; empty: not decided.
	Publishing bool   `json:"publishing"`
	PublishWhy string `json:"publish_why"`
	// Abstaining are hosts known to grant nothing, because their record of
	// votes was lost; sorted. Each knows it of itself, the holder of its voters.
	Abstaining []cluster.NodeID `json:"abstaining"`
	// Blocked says why this host does not stand for the lease, or which voters are
	// missing for anybody to hold it; empty: neither.
	Blocked string `json:"blocked"`
}

// How it was decided who publishes.
const (
	PublishLease   = "lease"            // the holder of a visible lease
	PublishNoLease = "no lease visible" // the best host alive
)

// Lease answers GET /v1/lease and POST /v1/lease/step-down.
type Lease struct {
	Header
	LeaseSummary
	// Ready is set once the holder's term_start is stable; only the holder
	// knows, elsewhere it is null.
	Ready    *bool        `json:"ready"`
	Config   LeaseConfig  `json:"config"`
	Promised cluster.Term `json:"promised"` // highest term this host promised
}

// LeaseConfig is the newest voter configuration that this host knows.
type LeaseConfig struct {
	Epoch  uint64           `json:"epoch"`
	Term   cluster.Term     `json:"term"`
	Voters []cluster.NodeID `json:"voters"`
	Mode   cluster.Mode     `json:"mode"`
}

// LeaseHistory answers GET /v1/lease/history, newest term first.
type LeaseHistory struct {
	Header
	Terms []TermRecord `json:"terms"`
	// Next is what to give as after for those before the last one; 0: there are none.
	Next cluster.Term `json:"next,omitempty"`
}

// TermRecord is one past or present term.
type TermRecord struct {
	Term      cluster.Term   `json:"term"`
	Holder    cluster.NodeID `json:"holder"`
	StartedAt time.Time      `json:"started_at"`
	// EndedAt is when its authority ended, at the latest: as its holder says, or
	// when the next term began, which waits for that; null: not ended, or not known.
	// ToldAt is when its holder wrote of the end, if that was only later, as after
	// it was stopped or cut off: what it wrote in between is void; else null.
	EndedAt *time.Time `json:"ended_at"`
	ToldAt  *time.Time `json:"told_at"`
	// LastEvidenceAt is until when its holder is known by the log to have held it: when it
	// told of the end in time, else its last event before the next term; null: it has not
	// ended. A holder that has nothing to do writes little.
	LastEvidenceAt *time.Time `json:"last_evidence_at"`
	// GapSeconds is how long, at most, nobody held before it: since the last evidence of
	// the terms before; 0: there was somebody. Null: no term before it is known.
	GapSeconds *float64         `json:"gap_seconds"`
	Cause      string           `json:"cause"` // why it ended, as its holder says; CauseExpired; empty: not ended
	Successor  cluster.NodeID   `json:"successor"`
	Previous   cluster.NodeID   `json:"previous"`
	Grants     []cluster.NodeID `json:"grants"`
	Voters     []cluster.NodeID `json:"voters"`
}

// CauseExpired ends a term whose holder no longer had the voters renew it, whether it
// says so or was not heard of any more.
const CauseExpired = "expired"

// StepDownRequest is the body of POST /v1/lease/step-down.
type StepDownRequest struct {
	To     cluster.NodeID `json:"to,omitempty"` // empty: the best host
	Reason string         `json:"reason,omitempty"`
}

// Voters answers GET and POST /v1/lease/voters.
type Voters struct {
	Header
	Config LeaseConfig `json:"config"`
	// Pending says that the newest configuration is not agreed upon yet; only
	// the holder knows, elsewhere it is null.
	Pending *bool `json:"pending"`
	// Target are the voters that are wanted, which the holder reaches one
	// change at a time; sorted. TargetAuto: it chose them itself; else an
	// operator did.
	Target     []cluster.NodeID `json:"target"`
	TargetAuto bool             `json:"target_auto"`
	// Holder is empty if none is known: nothing changes without one.
	Holder cluster.NodeID `json:"holder"`
	// Voters lists who votes, shall vote, or could; sorted by node.
	Voters []Voter `json:"voters"`
}

// Voter is a host that votes or could.
type Voter struct {
	Node     cluster.NodeID `json:"node"`
	Zone     string         `json:"zone"`
	State    cluster.Health `json:"state"`
	Stopped  bool           `json:"stopped,omitempty"` // it said that it stops
	Priority uint32         `json:"priority"`
	Witness  bool           `json:"witness"`
	// Voter: it votes now. Target: it is wanted as a voter.
	Voter  bool `json:"voter"`
	Target bool `json:"target"`
	// Epoch is the newest configuration that it is known to have on its disk;
	// only the holder knows, elsewhere it is null.
	Epoch *uint64 `json:"epoch"`
	// Abstaining says why it grants nothing; empty: it does.
	Abstaining string `json:"abstaining"`
}

// VotersRequest is the body of POST /v1/lease/voters: who shall vote from now
// on. Exactly one of Voters, Auto, Add and Remove is set; with Mode alone the
// voters stay.
type VotersRequest struct {
	// Voters are all that shall vote; the holder replaces none of them by
	// itself any more.
	Voters []cluster.NodeID `json:"voters,omitempty"`
	// Auto lets the holder choose, as it does from the beginning.
	Auto bool `json:"auto,omitempty"`
	// Add and Remove change the voters that are wanted now.
	Add    cluster.NodeID `json:"add,omitempty"`
	Remove cluster.NodeID `json:"remove,omitempty"`
	// Mode is auto, quorum or available; empty: as it is.
	Mode cluster.Mode `json:"mode,omitempty"`
}

// Check returns a *Problem if the request cannot be meant.
func (r VotersRequest) Check() error {
	said := 0
	for _, set := range []bool{len(r.Voters) > 0, r.Auto, r.Add != "", r.Remove != ""} {
		if set {
			said++
		}
	}
	switch {
	case said > 1:
		return Errorf(CodeInvalidRequest, "say one of voters, auto, add and remove")
	case said == 0 && r.Mode == "":
		return Errorf(CodeInvalidRequest, "nothing to change: say voters, auto, add, remove or mode")
	case len(r.Voters) > cluster.MaxVoters:
		return Errorf(CodeInvalidRequest, "%d voters, at most %d are possible", len(r.Voters), cluster.MaxVoters)
	}
	switch r.Mode {
	case "", cluster.ModeAuto, cluster.ModeQuorum, cluster.ModeAvailable:
	default:
		return Errorf(CodeInvalidRequest, "mode is %.16q, want auto, quorum or available", r.Mode)
	}
	named := slices.Clone(r.Voters)
	if r.Add != "" || r.Remove != "" {
		named = append(named, r.Add+r.Remove) // one of them is empty
	}
	for i, id := range named {
		if _, err := cluster.ParseNodeID(string(id)); err != nil {
			return Errorf(CodeInvalidRequest, "voters: %s", err)
		}
		if slices.Contains(named[:i], id) {
			return Errorf(CodeInvalidRequest, "%s is named twice", id)
		}
	}
	return nil
}
