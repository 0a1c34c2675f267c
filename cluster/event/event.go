package event

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// SourceID names one chain of the event log: the events that one incarnation
// of one host wrote.
type SourceID struct {
	Node cluster.NodeID `json:"node"`
	Inc  uint64         `json:"inc"`
}

// String returns "node/inc".
func (s SourceID) String() string { return fmt.Sprintf("%s/%d", s.Node, s.Inc) }

// Compare orders sources by node, then incarnation.
func (s SourceID) Compare(o SourceID) int {
	if c := strings.Compare(string(s.Node), string(o.Node)); c != 0 {
		return c
	}
	switch {
	case s.Inc < o.Inc:
		return -1
	case s.Inc > o.Inc:
		return 1
	}
	return 0
}

// Event is one record of the log. Its hash is SHA-256("evt1" || prev || exact
// encoded bytes); the encoding is eventlog/record's.
type Event struct {
	Source SourceID        `json:"source"`
	Seq    uint64          `json:"seq"` // dense, from 1
	Prev   cluster.Hash    `json:"prev"`
	HLC    cluster.HLC     `json:"hlc"`
	Term   cluster.Term    `json:"term"` // 0: written without authority
	Kind   Kind            `json:"kind"`
	Body   json.RawMessage `json:"body"` // one of the body types in bodies.go
	// Hash is this event's own hash; it is not part of the encoded bytes.
	Hash cluster.Hash `json:"hash"`
}

// Head is the last position of a chain, signed by its source's identity key.
type Head struct {
	Source SourceID     `json:"source"`
	Seq    uint64       `json:"seq"`
	Hash   cluster.Hash `json:"hash"`
	Sig    []byte       `json:"sig,omitempty"` // Ed25519, see eventlog/record
}

// Mark is a position in a chain, without signature.
type Mark struct {
	Seq  uint64       `json:"seq"`
	Hash cluster.Hash `json:"hash"`
}

// SourceMark is one entry of a cut.
type SourceMark struct {
	Source SourceID `json:"source"`
	Mark
}

// Cut is a set of positions, one per source, sorted by source. An authority
// event of a lower term that lies beyond the cut of a term is void.
type Cut []SourceMark

// Seq returns the position of source in the cut, 0 if it has none.
func (c Cut) Seq(s SourceID) uint64 {
	for _, m := range c {
		if m.Source == s {
			return m.Seq
		}
	}
	return 0
}

// Kind names the type of an event; lower case, words joined by '_'.
type Kind string

// Kinds of event, each with a row in KindTable. Those with Authority carry the
// writer's term and are void beyond the cut of a later term; the others are
// statements of fact by their source.
const (
	KindHostStarted    Kind = "host_started"        // HostStarted
	KindIncarnation    Kind = "incarnation"         // Incarnation
	KindHostDisk       Kind = "host_disk"           // HostDisk
	KindHostLoad       Kind = "host_load"           // HostLoad
	KindZoneHealth     Kind = "zone_health"         // ZoneHealth
	KindMemberJoined   Kind = "member_joined"       // MemberJoined
	KindMemberRenewed  Kind = "member_renewed"      // MemberRenewed
	KindMemberRekeyed  Kind = "member_rekeyed"      // MemberRekeyed
	KindMemberHealth   Kind = "member_health"       // MemberHealth
	KindMemberLeft     Kind = "member_left"         // MemberLeft
	KindMemberRemoved  Kind = "member_removed"      // MemberRemoved
	KindMemberConflict Kind = "member_conflict"     // MemberConflict
	KindTokenCreated   Kind = "token_created"       // TokenChanged
	KindTokenRevoked   Kind = "token_revoked"       // TokenChanged
	KindMTUBlackhole   Kind = "mtu_blackhole"       // MTUBlackhole
	KindDuplicate      Kind = "duplicate"           // Duplicate
	KindEquivocation   Kind = "equivocation"        // Equivocation
	KindChainAhead     Kind = "chain_ahead"         // ChainAhead
	KindLeaseReleased  Kind = "lease_released"      // LeaseReleased
	KindLeaseLost      Kind = "lease_lost"          // LeaseLost
	KindVotersSet      Kind = "voters_set"          // VotersSet
	KindStepDownAsked  Kind = "step_down_asked"     // StepDownAsked
	KindConfigReloaded Kind = "config_reloaded"     // ConfigReloaded
	KindPublishing     Kind = "publishing"          // Publishing
	KindSnapshot       Kind = "snapshot"            // SnapshotTaken
	KindOnionSet       Kind = "onion_set"           // OnionSet
	KindOnionGranted   Kind = "onion_granted"       // OnionGranted
	KindOnionDrained   Kind = "onion_drained"       // OnionDrained
	KindOnionRotated   Kind = "onion_rotated"       // OnionRotated
	KindOnionTarget    Kind = "onion_target"        // OnionTarget
	KindWrongMaster    Kind = "onion_wrong_master"  // OnionWrongMaster
	KindPublishAsked   Kind = "publish_asked"       // PublishAsked
	KindPublishDone    Kind = "publish_done"        // PublishDone
	KindPublishFailed  Kind = "publish_failed"      // PublishFailed
	KindPublishFenced  Kind = "publish_fenced"      // PublishFenced
	KindPublishForeign Kind = "publish_foreign"     // PublishForeign
	KindPublishRefused Kind = "publish_refused"     // PublishRefused
	KindTermStart      Kind = "term_start"          // TermStart, authority
	KindConfigChanged  Kind = "config_changed"      // ConfigChanged, authority
	KindJobSubmitted   Kind = "job_submitted"       // JobSubmitted, authority
	KindJobQueued      Kind = "job_queued"          // JobWaiting, authority
	KindJobWaits       Kind = "job_waits"           // JobWaits
	KindJobZones       Kind = "job_zones"           // JobZones, authority
	KindJobStopped     Kind = "job_stopped"         // JobStopped, authority
	KindJobDone        Kind = "job_done"            // JobDone, authority
	KindJobsForgotten  Kind = "jobs_forgotten"      // JobsForgotten, authority
	KindFlowSubmitted  Kind = "workflow_submitted"  // WorkflowSubmitted, authority
	KindStepsStarted   Kind = "steps_started"       // StepsStarted, authority
	KindStepsEnded     Kind = "steps_ended"         // StepsEnded, authority
	KindFlowStopped    Kind = "workflow_stopped"    // WorkflowStopped, authority
	KindFlowRetried    Kind = "workflow_retried"    // WorkflowRetried, authority
	KindFlowDone       Kind = "workflow_done"       // WorkflowDone, authority
	KindFlowsForgotten Kind = "workflows_forgotten" // WorkflowsForgotten, authority
	KindScheduleSet    Kind = "schedule_set"        // ScheduleSet, authority
	KindScheduleFired  Kind = "schedule_fired"      // ScheduleFired, authority
	KindLoadRun        Kind = "load_run"            // LoadRun, authority
	KindGroupSet       Kind = "group_set"           // GroupSet, authority
	KindReservationSet Kind = "reservation_set"     // ReservationSet, authority
	KindUserSet        Kind = "user_set"            // UserSet, authority
	KindHostOwnerSet   Kind = "host_owner_set"      // HostOwnerSet, authority
	KindWorkerEnrolled Kind = "worker_enrolled"     // WorkerEnrolled, authority
	KindWorkerRevoked  Kind = "worker_revoked"      // WorkerRevoked, authority
	KindAccessSet      Kind = "access_set"          // AccessSet, authority
	KindGatewayOpened  Kind = "gateway_opened"      // GatewayOpened
	KindWorkerUp       Kind = "worker_up"           // WorkerUp
	KindWorkerDown     Kind = "worker_down"         // WorkerDown
	KindWorkerDrained  Kind = "worker_drained"      // WorkerDrained
	KindChunksStarted  Kind = "chunks_started"      // ChunksStarted
	KindChunksAssigned Kind = "chunks_assigned"     // ChunksAssigned, authority
	KindChunkFailed    Kind = "chunk_failed"        // ChunkFailed, authority
	KindChunkReclaimed Kind = "chunk_reclaimed"     // ChunkReclaimed, authority
	KindChunkExtended  Kind = "chunk_extended"      // ChunkExtended
	KindChunkSaved     Kind = "chunk_checkpointed"  // ChunkCheckpointed, authority
	KindChunksReleased Kind = "chunks_released"     // ChunksReleased, authority
	KindChunkAccepted  Kind = "chunk_accepted"      // ChunkAccepted, authority
	KindChunksAccepted Kind = "chunks_accepted"     // ChunksAccepted, authority
)

// Authority reports whether events of kind k are an exercise of the lease. A
// kind that this version does not know counts as one.
func (k Kind) Authority() bool {
	class, known := classes[k]
	return !known || class&Authority != 0
}

// Essential reports whether events of kind k must get through when a queue or
// a disk is nearly full: those that pass the lease on, those that end work, and
// the few facts without which a host cannot continue. Events that begin new
// work are not essential.
func (k Kind) Essential() bool { return classes[k]&Essential != 0 }

// Known reports whether this version knows the meaning of k.
func (k Kind) Known() bool {
	_, known := classes[k]
	return known
}

// Since is the Level from which on programs know k; 0: all of them do.
func (k Kind) Since() uint32 { return since[k] }

// Draft is an event before the log gives it its place in the chain.
type Draft struct {
	Term cluster.Term
	Kind Kind
	Body any // the body type of Kind
}
