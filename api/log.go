package api

import (
	"encoding/json"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// LogVerify is the result of checking an event log from end to end.
type LogVerify struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // segment, offset and record
	Hint    string `json:"hint,omitempty"`    // what to do about it
	// BadSource and BadSeq are the first event that is wrong.
	BadSource *event.SourceID `json:"bad_source,omitempty"`
	BadSeq    uint64          `json:"bad_seq,omitempty"`
	Events    uint64          `json:"events"`
	// SizeBytes counts all segments.
	SizeBytes uint64 `json:"size_bytes"`
	Segments  int    `json:"segments"`
	// TornBytes is what an unclean stop left at the end; it was never
	// acknowledged.
	TornBytes uint64 `json:"torn_bytes"`
	// Signatures counts signed heads that are good, Unsigned those of hosts
	// whose key is not known.
	Signatures uint64 `json:"signatures"`
	Unsigned   uint64 `json:"signatures_unchecked"`
	// Snapshots is how many snapshots were replayed and are right, Signers how
	// many voters have signed the newest, and DroppedEvents how many events are only
	// in a snapshot any more.
	Snapshots     int    `json:"snapshots"`
	Signers       int    `json:"snapshot_signers"`
	DroppedEvents uint64 `json:"dropped_events"`
	// Forked are the hosts' chains that are proven to have two histories.
	Forked    []event.SourceID `json:"forked"`
	StateHash cluster.Hash     `json:"state_hash"`
	Sources   []LogSource      `json:"sources"` // sorted by source
}

// LogRepair says which chains of a damaged log are to be fetched again.
type LogRepair struct {
	Chains []ChainRepair `json:"chains"`
	// Files are those that this repair moved out of the log beside the chains:
	// damaged snapshots, what does not belong there.
	Files []FileRepair `json:"files"`
}

// FileRepair is a file or directory that was moved out of the log.
type FileRepair struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
	Aside   string `json:"aside"` // where it is now
}

// ChainRepair is a chain of which a part was set aside.
type ChainRepair struct {
	Source event.SourceID `json:"source"`
	// Own: it is a chain of this host, which goes on as a new incarnation.
	Own     bool   `json:"own"`
	Problem string `json:"problem"`
	// Kept is the last event that was left, Known the last one that the disk is
	// known to have had; 0 if its loss was accepted.
	Kept  uint64         `json:"kept"`
	Known uint64         `json:"known"`
	Aside string         `json:"aside"` // directory of the damaged files; empty: there are none
	Peer  cluster.NodeID `json:"peer,omitempty"`
	// State: not events are missing but the state up to where they were dropped. It
	// is fetched as a snapshot of another host.
	State bool `json:"state,omitempty"`
}

// LogSource is the end of one chain.
type LogSource struct {
	Source event.SourceID `json:"source"`
	Seq    uint64         `json:"seq"`
	Hash   cluster.Hash   `json:"hash"`
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

// ReplayAt says up to where a log is replayed: at most one of Time and Position is
// set; none means the whole log. Hindsight leaves out what later terms made void.
type ReplayAt struct {
	Time      time.Time
	Position  Cursor
	Hindsight bool
}

// Replay is the answer of GET /v1/replay.
type Replay struct {
	Header
	Replay LogReplay `json:"replay"`
}

// LogDensity tells how many events the log has of each of some equal spans of time,
// from From to before To.
type LogDensity struct {
	Header
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Events []uint64  `json:"events"`
}

// LogReplay is what a log says of the cluster as of a position: the fold of
// the events up to it.
type LogReplay struct {
	Host     cluster.NodeID `json:"host"`     // whose log it is
	Position string         `json:"position"` // a Cursor
	LastAt   *time.Time     `json:"last_at"`  // of the last event; null: there is none
	LastHLC  cluster.HLC    `json:"last_hlc"`
	// Hindsight says that what later terms made void is left out.
	Hindsight bool           `json:"hindsight"`
	Events    uint64         `json:"events"`
	Void      uint64         `json:"void"`
	Malformed uint64         `json:"malformed"`
	StateHash cluster.Hash   `json:"state_hash"`
	Lease     ReplayLease    `json:"lease"`
	Config    LeaseConfig    `json:"config"`
	Members   []ReplayMember `json:"members"` // by name
	Jobs      []ReplayJob    `json:"jobs"`    // the oldest first
	Actions   []ReplayAction `json:"actions"` // the latest, the oldest first
}

// ReplayLease is the last term that began. Term 0: there is none.
type ReplayLease struct {
	Term      cluster.Term   `json:"term"`
	Holder    cluster.NodeID `json:"holder"`
	StartedAt *time.Time     `json:"started_at"`
	EndedAt   *time.Time     `json:"ended_at"` // null: its end is not told
	Reason    string         `json:"reason,omitempty"`
	Successor cluster.NodeID `json:"successor,omitempty"`
}

// ReplayMember is a host as the log tells of it.
type ReplayMember struct {
	Node       cluster.NodeID `json:"node"`
	Status     string         `json:"status"` // seen, joined, left or removed
	Addr       string         `json:"addr"`
	Sponsor    cluster.NodeID `json:"sponsor"`
	JoinedAt   *time.Time     `json:"joined_at"`
	Version    string         `json:"version"`
	StartedAt  *time.Time     `json:"started_at"`
	Health     cluster.Health `json:"health"` // as the holders believed
	Publishing bool           `json:"publishing"`
	EndedAt    *time.Time     `json:"ended_at"`
	EndedBy    string         `json:"ended_by,omitempty"`
	Reason     string         `json:"reason,omitempty"`
}

// ReplayJob is a job as the log tells of it.
type ReplayJob struct {
	ID          job.ID          `json:"id"`
	Name        string          `json:"name"`
	Owner       string          `json:"owner"`
	State       job.State       `json:"state"`
	Reason      string          `json:"reason,omitempty"`
	StoppedBy   string          `json:"stopped_by,omitempty"`
	SubmittedAt *time.Time      `json:"submitted_at"`
	FinishedAt  *time.Time      `json:"finished_at"`
	Chunks      ChunkCounts     `json:"chunks"`
	Iterations  IterationCounts `json:"iterations"`
}

// ReplayAction is something that an operator asked for.
type ReplayAction struct {
	At      time.Time      `json:"at"`
	Node    cluster.NodeID `json:"node"` // that logged it
	Kind    event.Kind     `json:"kind"`
	Actor   string         `json:"actor"`
	Subject string         `json:"subject"`
	Reason  string         `json:"reason,omitempty"`
}

// LogSnapshots is the body of GET /v1/log/snapshots: the snapshots that a host
// keeps, the newest last.
type LogSnapshots struct {
	Header
	Snapshots   []LogSnapshot `json:"snapshots"`
	EventsSince uint64        `json:"events_since"` // the last one
	// ReclaimableBytes is how much retention may drop.
	ReclaimableBytes uint64 `json:"reclaimable_bytes"`
	DroppedEvents    uint64 `json:"dropped_events"` // that are in snapshots only
	ArchivedSegments int    `json:"archived_segments"`
	// Trouble is what failed last, empty if nothing did since the last success.
	Trouble string `json:"trouble,omitempty"`
	// Mismatch says that this host and others fold the same events to different
	// states.
	Mismatch string `json:"mismatch,omitempty"`
}

// LogSnapshot is the fold of the log up to a cut, as voters have signed it.
type LogSnapshot struct {
	ID        cluster.Hash     `json:"id"`
	Term      cluster.Term     `json:"term"`
	Events    uint64           `json:"events"`  // that it stands for
	LastAt    time.Time        `json:"last_at"` // clock of the last of them
	SizeBytes uint64           `json:"size_bytes"`
	StateHash cluster.Hash     `json:"state_hash"`
	Signers   []cluster.NodeID `json:"signers"`
}

// LogSnapshotTaken is the body of the answer to POST /v1/log/snapshots.
type LogSnapshotTaken struct {
	Header
	LogSnapshot
}

// ExportVersion is the version of the form of an export.
const ExportVersion = 1

// ExportHead is the first line of an exported log: what is needed to verify
// the events after it.
type ExportHead struct {
	Version     int            `json:"version"`
	Cluster     string         `json:"cluster"` // its id, which is part of what hosts sign
	ClusterName string         `json:"cluster_name,omitempty"`
	Host        cluster.NodeID `json:"host"` // whose copy it is
	ExportedAt  time.Time      `json:"exported_at"`
	// The events of each source after From, up to the head in Heads. With Since,
	// Kinds or Node only those that they select.
	From  string         `json:"from"`
	Since *time.Time     `json:"since,omitempty"`
	Kinds []string       `json:"kinds,omitempty"`
	Node  cluster.NodeID `json:"node,omitempty"`
	// Heads are the ends of the chains, signed by their hosts.
	Heads []event.Head `json:"heads"`
	Keys  []ExportKey  `json:"keys"` // of the hosts that are or were members
	// RootKey is the cluster's, which signs the certificates of sponsors; Certs
	// are all certificates, in the form in which they travel.
	RootKey []byte   `json:"root_key"`
	Certs   []string `json:"certs"`
}

// ExportKey is the identity key of a host, with which it signs its heads.
type ExportKey struct {
	Node cluster.NodeID `json:"node"`
	Key  []byte         `json:"key"` // Ed25519, 32 bytes
}

// ExportEvent is one event of an exported log. Raw is its exact bytes:
// Hash is SHA-256("evt1" || Prev || Raw).
type ExportEvent struct {
	Source event.SourceID  `json:"source"`
	Seq    uint64          `json:"seq"`
	Prev   cluster.Hash    `json:"prev"`
	Time   time.Time       `json:"time"`
	HLC    cluster.HLC     `json:"hlc"`
	Term   cluster.Term    `json:"term"`
	Kind   event.Kind      `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Hash   cluster.Hash    `json:"hash"`
	Raw    []byte          `json:"raw"`
}

// ExportEnd is the last line of an export that is whole. The next one goes on
// from Cursor.
type ExportEnd struct {
	Events uint64 `json:"events"`
	Cursor string `json:"cursor"`
}

// ExportLine is the first or the last line of an export.
type ExportLine struct {
	Export *ExportHead `json:"export,omitempty"`
	End    *ExportEnd  `json:"end,omitempty"`
}

// ExportCheck is what an exported log proves.
type ExportCheck struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"` // what is wrong first
	// Who wrote it, of which cluster.
	Cluster     string         `json:"cluster"`
	ClusterName string         `json:"cluster_name,omitempty"`
	Host        cluster.NodeID `json:"host"`
	ExportedAt  time.Time      `json:"exported_at"`
	From        string         `json:"from"` // behind which it begins; empty: at the beginning
	// Partial says that events were selected: each was checked by itself, and others may
	// be missing between them.
	Partial bool        `json:"partial,omitempty"`
	Events  uint64      `json:"events"`
	Sources []LogSource `json:"sources"` // the signed ends of the chains of which events are there
	// RootKey is the fingerprint of the cluster's key, which certifies the keys of all
	// hosts but those of Uncertified. That it is the right one must be known from elsewhere.
	RootKey     string           `json:"root_key"`
	Uncertified []cluster.NodeID `json:"uncertified"`
}
