package cluster

// The body types of events, one per Kind. They are JSON objects; decoders
// ignore unknown fields, so fields may be added and never change meaning.

// HostStarted is written once per daemon start, first of all.
type HostStarted struct {
	Version string `json:"version"`
	Boot    uint64 `json:"boot"`
}

// MemberJoined is written by the sponsor that admitted a host.
type MemberJoined struct {
	Node   NodeID `json:"node"`
	IDPub  []byte `json:"id_pub"`
	IP4    string `json:"ip4"`
	Invite string `json:"invite"`
}

// MemberRenewed is written by the sponsor that certified a member anew.
type MemberRenewed struct {
	Node    NodeID `json:"node"`
	Expires int64  `json:"expires"` // seconds since the Unix epoch
}

// MemberRekeyed is written by a host that changed its WireGuard key.
type MemberRekeyed struct {
	Node  NodeID `json:"node"`
	WGPub []byte `json:"wg_pubkey"` // the new one
	Actor string `json:"actor"`
}

// MemberHealth is written by the holder when it believes something else of a
// member than before.
type MemberHealth struct {
	Node NodeID `json:"node"`
	From Health `json:"from"`
	To   Health `json:"to"`
}

// MemberLeft is written by a host that leaves the cluster for good.
type MemberLeft struct {
	Node  NodeID `json:"node"`
	Actor string `json:"actor"`
}

// MemberRemoved is written by the sponsor that revoked a member's key.
type MemberRemoved struct {
	Node   NodeID `json:"node"`
	IDPub  []byte `json:"id_pub"`
	Actor  string `json:"actor"`  // who asked, "uid:0@n1"
	Reason string `json:"reason"` // at most MaxReason bytes
}

// MemberConflict keeps two valid records that contradict each other, in the
// text form in which records travel. Why is "forked" (one key signed two
// announcements of one epoch) or "conflict" (two keys have one name or
// address).
type MemberConflict struct {
	Node  NodeID `json:"node"` // of the record that stands
	Why   string `json:"why"`
	Kept  string `json:"kept"`
	Other string `json:"other"`
}

// TokenChanged is written by the sponsor whose operator made or revoked an
// invite. It never holds the secret.
type TokenChanged struct {
	Invite  string `json:"invite"`
	Uses    int    `json:"uses"`
	Expires int64  `json:"expires"` // seconds since the Unix epoch
	Actor   string `json:"actor"`
}

// MTUBlackhole says that full packets to a peer vanish while small ones
// arrive, and what the mesh's packet size became.
type MTUBlackhole struct {
	Peer NodeID `json:"peer"`
	From int    `json:"from"` // bytes
	To   int    `json:"to"`
}

// Duplicate says that two processes use the identity of one host, as after the
// start of a copied disk. Boot is that of the one whose messages count.
type Duplicate struct {
	Host NodeID `json:"host"`
	Boot uint64 `json:"boot"`
}

// TermStart is the first authority event of a term. Cut fences every lower
// term: their authority events beyond it are void.
type TermStart struct {
	Term     Term     `json:"term"`
	Voters   []NodeID `json:"voters"`   // the configuration it was elected under
	Grants   []NodeID `json:"grants"`   // the voters that granted it
	Previous NodeID   `json:"previous"` // last known holder, may be empty
	Cut      Cut      `json:"cut"`
	Profile  Profile  `json:"profile"`
	// Split says that by the configuration others may hold at the same time. Such
	// a term fences nothing: what they did counts when they meet.
	Split      bool   `json:"split,omitempty"`
	ConfigTerm Term   `json:"config_term"`
	Epoch      uint64 `json:"epoch"`
}

// LeaseReleased is written by a holder that steps down.
type LeaseReleased struct {
	Term      Term   `json:"term"`
	Successor NodeID `json:"successor"`
	Reason    string `json:"reason"`
}

// LeaseLost is written by a holder that lost the lease without releasing it.
type LeaseLost struct {
	Term   Term   `json:"term"`
	Reason string `json:"reason"`
}

// VotersSet says who an operator wants as voters. It is written by the holder
// that agreed to it, or, Forced, by a host that was made the only voter while
// its daemon was down, because a majority was lost for good.
type VotersSet struct {
	Voters []NodeID `json:"voters"` // empty with Auto
	Mode   Mode     `json:"mode"`   // empty: as it was
	Auto   bool     `json:"auto"`   // the holder chooses
	Actor  string   `json:"actor"`  // who asked, "uid:0@n1"
	Forced bool     `json:"forced,omitempty"`
	// Previous are the voters that a forced change left behind.
	Previous []NodeID `json:"previous,omitempty"`
}

// StepDownAsked is written by the holder that an operator asked to hand over
// the lease.
type StepDownAsked struct {
	Term      Term   `json:"term"`      // that was held
	Successor NodeID `json:"successor"` // empty: the holder chooses
	Reason    string `json:"reason"`    // at most MaxReason bytes
	Actor     string `json:"actor"`     // who asked, "uid:0@n1"
}

// Publishing is written by a host that took up or laid down the publishing
// duty.
type Publishing struct {
	Publishing bool   `json:"publishing"`
	Term       Term   `json:"term"` // of the lease that gave it; 0: none was visible
	Publisher  NodeID `json:"publisher"`
	Why        string `json:"why"`
}

// ConfigChanged records a voter configuration that became stable.
type ConfigChanged struct {
	Config VoterConfig `json:"config"`
}

// JobSubmitted creates a job; ID and plan are fixed for its life.
type JobSubmitted struct {
	Job   JobID   `json:"job"`
	Spec  JobSpec `json:"spec"`
	Owner string  `json:"owner"` // who asked, "uid:1000" or "node:n1"
	// Chunks is the number of chunks; chunk i covers Spec.Chunk iterations
	// from i*Spec.Chunk, the last one what remains.
	Chunks int `json:"chunks"`
}

// JobStopped records a submitter's or operator's wish to end a job.
type JobStopped struct {
	Job    JobID  `json:"job"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"` // at most MaxReason bytes
}

// JobDone ends a job.
type JobDone struct {
	Job    JobID    `json:"job"`
	State  JobState `json:"state"` // completed, failed, partial or cancelled
	Reason string   `json:"reason,omitempty"`
	// Result fixes what the job computed: nothing that is learned of its
	// chunks later changes it.
	Result *JobResult `json:"result,omitempty"`
}

// Assignment hands one attempt at a chunk to a worker.
type Assignment struct {
	Chunk   int    `json:"chunk"`
	Attempt int    `json:"attempt"` // from 1
	Worker  NodeID `json:"worker"`
}

// ChunksAssigned is one batch of assignments of a job.
type ChunksAssigned struct {
	Job         JobID        `json:"job"`
	Assignments []Assignment `json:"assignments"`
}

// ChunkFailed ends one attempt without a result. Final means that the chunk
// has no attempts left and is given up.
type ChunkFailed struct {
	Job     JobID  `json:"job"`
	Chunk   int    `json:"chunk"`
	Attempt int    `json:"attempt"`
	Worker  NodeID `json:"worker"`
	Reason  string `json:"reason"` // at most MaxReason bytes
	Final   bool   `json:"final,omitempty"`
}

// ChunkReclaimed takes one attempt back from a dead or overdue worker.
type ChunkReclaimed struct {
	Job     JobID  `json:"job"`
	Chunk   int    `json:"chunk"`
	Attempt int    `json:"attempt"`
	Worker  NodeID `json:"worker"`
	Reason  string `json:"reason"`
}

// ChunkAccepted makes one result the chunk's, for ever.
type ChunkAccepted struct {
	Job     JobID       `json:"job"`
	Chunk   int         `json:"chunk"`
	Attempt int         `json:"attempt"`
	Worker  NodeID      `json:"worker"`
	Result  ChunkResult `json:"result"`
	// Seconds is the worker's own measure of the run time.
	Seconds float64 `json:"seconds"`
}
