package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// LogVerify is the result of checking an event log from end to end.
type LogVerify struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // segment, offset and record
	Hint    string `json:"hint,omitempty"`    // what to do about it
	// BadSource and BadSeq are the first event that is wrong.
	BadSource *cluster.SourceID `json:"bad_source,omitempty"`
	BadSeq    uint64            `json:"bad_seq,omitempty"`
	Events    uint64            `json:"events"`
	// SizeBytes counts all segments.
	SizeBytes uint64 `json:"size_bytes"`
	Segments  int    `json:"segments"`
	// TornBytes is what an unclean stop left at the end; it was never
	// acknowledged.
	TornBytes uint64 `json:"torn_bytes"`
	// Signatures counts signed heads that are good, Unsigned those of hosts
	// whose key is not known.
	Signatures uint64       `json:"signatures"`
	Unsigned   uint64       `json:"signatures_unchecked"`
	StateHash  cluster.Hash `json:"state_hash"`
	Sources    []LogSource  `json:"sources"` // sorted by source
}

// LogSource is the end of one chain.
type LogSource struct {
	Source cluster.SourceID `json:"source"`
	Seq    uint64           `json:"seq"`
	Hash   cluster.Hash     `json:"hash"`
}

// LogCheck is the body of GET /v1/events/verify: a check of a host's whole
// log, running or ended.
type LogCheck struct {
	Header
	Host      cluster.NodeID `json:"host"` // whose log it is
	Run       uint64         `json:"run"`  // its number on that host, to ask for it again
	Running   bool           `json:"running"`
	StartedAt time.Time      `json:"started_at"`
	EndedAt   *time.Time     `json:"ended_at"`
	// DoneEvents of about TotalEvents were read.
	DoneEvents  uint64 `json:"done_events"`
	TotalEvents uint64 `json:"total_events"`
	// Error says why the check could not be carried through.
	Error string `json:"error,omitempty"`
	// Result is null while it runs and after an Error.
	Result *LogVerify `json:"result"`
	// LiveStateHash is that of the running daemon, where it could be compared:
	// when it holds exactly the events that were checked. Another one than the
	// Result's means that the daemon does not work with what the log says.
	LiveStateHash *cluster.Hash `json:"live_state_hash"`
}

// Bad says what is wrong, in a few words; empty: nothing that is known.
func (c LogCheck) Bad() string {
	switch {
	case c.Error != "":
		return "not checked: " + c.Error
	case c.Result == nil:
		return ""
	case !c.Result.OK:
		return c.Result.Problem
	case c.LiveStateHash != nil && *c.LiveStateHash != c.Result.StateHash:
		return "the daemon's state is not what its log says: state hash " + c.LiveStateHash.String()[:12]
	}
	return ""
}
