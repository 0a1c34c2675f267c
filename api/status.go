package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// State says in one word how the answering host is.
type State string

// States of a host.
const (
	StateOK       State = "ok"
	StateDegraded State = "degraded" // works, and something is wrong: see Reasons
	StateJoining  State = "joining"  // not yet in a current view
	StateStopping State = "stopping"
)

// Status answers GET /v1/status.
type Status struct {
	Header
	Cluster string   `json:"cluster"`
	Version string   `json:"version"`
	State   State    `json:"state"`
	Reasons []string `json:"reasons"` // why degraded, e.g. "n3 suspect"
	// Role is this host's under the lease: holder, standby or witness. Who
	// publishes is told in Lease.
	Role cluster.Role `json:"role"`
	Term cluster.Term `json:"term"`
	// UptimeSeconds counts from the start of the daemon.
	UptimeSeconds float64 `json:"uptime_seconds"`
	// LocalHealth is 0 for a host that hears and answers in time, up to 8 for
	// one that does not and therefore doubts itself before others.
	LocalHealth int `json:"local_health"`
	// Pressure is how loaded this host is.
	Pressure Pressure `json:"pressure"`

	Lease   LeaseSummary  `json:"lease"`
	Members MemberCounts  `json:"members"`
	Mesh    MeshSummary   `json:"mesh"`
	Log     LogSummary    `json:"log"`
	Worker  WorkerSummary `json:"worker"`
	Jobs    JobCounts     `json:"jobs"`
	// Publish is how the publishing of the onion addresses goes.
	Publish PublishSummary `json:"publish"`
}

// States of publishing.
const (
	PublishOff     = "off"     // no address is served
	PublishOK      = "ok"      // clients found the newest descriptor
	PublishFailing = "failing" // the last one could not be made, or is at too few directories
	PublishUnknown = "unknown" // nothing is written of it in the log, of the last hours
)

// PublishSummary is how the publishing of the onion addresses goes, as their
// publishers wrote it in the log; of several addresses, of the one that is worst off.
type PublishSummary struct {
	State string `json:"state"`
	// PublishedAt is when clients last found a new descriptor, which By had made; null
	// and empty: not known. NextAt is when its publisher makes the next, unless something
	// changes before.
	PublishedAt *time.Time     `json:"published_at"`
	By          cluster.NodeID `json:"by"`
	NextAt      *time.Time     `json:"next_at"`
	// FailingSince is when the first failure since then was written; Stored of Asked
	// directories had the last descriptor that failed, Asked 0: there was none.
	FailingSince *time.Time `json:"failing_since"`
	Stored       int        `json:"stored"`
	Asked        int        `json:"asked"`
	Reason       string     `json:"reason"`
}

// Pressure is how loaded a host is, as it measured within the last second.
type Pressure struct {
	// Level is normal, elevated, high, severe or critical. Score is what it comes from,
	// from 0 to 8, and Signal what says most, where the level is not normal.
	Level  string  `json:"level"`
	Score  float64 `json:"score"`
	Signal string  `json:"signal,omitempty"`
	// CPU, Memory and IO are the shares of the last 10 s in which something waited for
	// that, MemoryLeft and DiskLeft what nobody uses; null: not known.
	CPU        *float64 `json:"cpu"`
	Memory     *float64 `json:"memory"`
	IO         *float64 `json:"io"`
	MemoryLeft *float64 `json:"memory_left"`
	DiskLeft   *float64 `json:"disk_left"`
	// DelaySeconds is how long work waits on this host at least, in half a second,
	// ControlDelaySeconds what the lease needs.
	DelaySeconds        float64 `json:"delay_seconds"`
	ControlDelaySeconds float64 `json:"control_delay_seconds"`
	// GoroutineSeconds and SyncSeconds are the p99 of how long a goroutine waits to run,
	// and of a sync of the event log; 0: there was none.
	GoroutineSeconds float64 `json:"goroutine_seconds"`
	SyncSeconds      float64 `json:"sync_seconds"`
}

// MemberCounts counts members by health. Stopped are those of Dead that said that they
// stop. Left counts the hosts that are none any more
// and whose names are not free yet; they are not in Total.
type MemberCounts struct {
	Total   int `json:"total"`
	Joining int `json:"joining"`
	Alive   int `json:"alive"`
	Suspect int `json:"suspect"`
	Dead    int `json:"dead"`
	Stopped int `json:"stopped"`
	Left    int `json:"left"`
}

// MeshSummary is this host's side of the mesh.
type MeshSummary struct {
	Backend   string `json:"backend"`   // kernel, tun or netstack: the one in use
	Interface string `json:"interface"` // device of the kernel; empty with netstack
	Address   string `json:"address"`
	Address6  string `json:"address6"`
	Listen    string `json:"listen"` // underlay
	PeerCount int    `json:"peer_count"`
	// OldestHandshakeSeconds is null while any peer had none.
	OldestHandshakeSeconds *float64 `json:"oldest_handshake_seconds"`
}

// LogSummary is the event log as this host has it.
type LogSummary struct {
	Events    uint64 `json:"events"`
	Sources   int    `json:"sources"`
	SizeBytes uint64 `json:"size_bytes"`
	// StateHash is equal on hosts that folded the same events.
	StateHash cluster.Hash `json:"state_hash"`
	// Snapshot is the last one; null: there is none yet.
	Snapshot *LogSnapshot `json:"snapshot"`
	// ReclaimableBytes is how much retention may drop.
	ReclaimableBytes uint64 `json:"reclaimable_bytes"`
	// CheckedAt is when the last check of the whole log ended on this host since its
	// daemon started; null: none has. CheckProblem says what it found wrong; empty:
	// nothing.
	CheckedAt    *time.Time `json:"checked_at"`
	CheckProblem string     `json:"check_problem,omitempty"`
	// Forked names the chains of which two signed histories were found.
	Forked []event.SourceID `json:"forked,omitempty"`
}

// WorkerSummary is what this host computes.
type WorkerSummary struct {
	Slots   int `json:"slots"`
	Running int `json:"running"`
	Queued  int `json:"queued"`
	Kept    int `json:"kept"` // results not yet accepted
	// Draining: an operator lets this host begin no chunk.
	Draining bool `json:"draining,omitempty"`
}

// DrainRequest is the body of POST /v1/worker/drain.
type DrainRequest struct {
	Node cluster.NodeID `json:"node,omitempty"` // empty: this host
	Undo bool           `json:"undo,omitempty"`
}

// Drain tells what a worker does after its drain began or ended.
type Drain struct {
	Header
	Node   cluster.NodeID `json:"node"`
	Worker WorkerSummary  `json:"worker"`
}

// JobCounts counts jobs by state.
type JobCounts struct {
	Pending   int `json:"pending"` // queued ones included
	Running   int `json:"running"` // those that are to end included
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Partial   int `json:"partial"`
	Cancelled int `json:"cancelled"`
	Timeout   int `json:"timeout"`
	Skipped   int `json:"skipped"`
}

// Members answers GET /v1/members, sorted by node. With the query all=true it
// also lists hosts that left or were removed, for as long as their names and
// addresses are not given to others.
type Members struct {
	Header
	Members []Member `json:"members"`
}

// Member is one host as the answering host sees it.
type Member struct {
	Node  cluster.NodeID `json:"node"`
	Self  bool           `json:"self"`
	Addr  string         `json:"addr"`
	Addr6 string         `json:"addr6"`
	State cluster.Health `json:"state"`
	// Stopped says that it is dead because it said that it stops: nothing was heard of
	// it since.
	Stopped bool         `json:"stopped,omitempty"`
	Role    cluster.Role `json:"role"` // empty: unknown
	Voter   bool         `json:"voter"`
	// Publisher hosts say that they have the publishing duty.
	Publisher bool         `json:"publisher"`
	Term      cluster.Term `json:"term"` // 0: unknown
	// SeenSeconds is the age of its last message; null for self and for a
	// host never heard of.
	SeenSeconds *float64 `json:"seen_seconds"`
	RTTSeconds  *float64 `json:"rtt_seconds"`
	Path        string   `json:"path"` // self, direct, onion, or empty: unknown
	Version     string   `json:"version"`
	Zone        string   `json:"zone"`
	Priority    uint32   `json:"priority"`
	Witness     bool     `json:"witness"`
	// LagEvents is how many events of this host's log the member lacks.
	LagEvents *uint64  `json:"lag_events"`
	Endpoints []string `json:"endpoints"` // underlay
	// Stale is set when nothing renewed what is known of the host for minutes.
	Stale bool `json:"stale"`
	NAT   bool `json:"nat"`
	// SkewSeconds is how far its clock is ahead of this host's; null: unknown.
	SkewSeconds *float64 `json:"skew_seconds"`
	// Load is the level of load that it tells, normal to critical; empty: it tells none.
	Load string `json:"load,omitempty"`
	// Sponsor hosts may admit others.
	Sponsor bool `json:"sponsor"`
	// CertExpiresAt is null for certificates that do not expire.
	CertExpiresAt *time.Time `json:"cert_expires_at"`
	// Removed tells a host that was removed from one that left by itself; the
	// state of both is left. GoneAt is when, Reason why.
	Removed bool       `json:"removed"`
	GoneAt  *time.Time `json:"gone_at"`
	Reason  string     `json:"reason"`
}
