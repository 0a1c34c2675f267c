package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// The body types of events, one per Kind. They are JSON objects; decoders
// ignore unknown fields, so fields may be added and never change meaning.

// HostStarted is written once per daemon start, first of all.
type HostStarted struct {
	Version string `json:"version"` // of the program
	Boot    uint64 `json:"boot"`    // number of this start: 1 for the first, from the second on at least the time of day in seconds
}

// Incarnation is the first event of a chain that goes on for another one of the
// same host, whose disk lost a part of that, or which took a part of it back.
// Previous is the old chain's last
// event on the disk; other hosts may know later ones.
type Incarnation struct {
	Previous SourceMark `json:"previous"` // last event of the old chain on this disk, seq 0 if there is none
	Reason   string     `json:"reason"`   // at most MaxReason bytes
}

// HostDisk is written by a host whose event log has another amount of room than
// before: "ok", "low", "full" (no new work) or "out" (nothing can be written).
type HostDisk struct {
	State string `json:"state"` // "ok", "low", "full" or "out"
	Free  int64  `json:"free"`  // bytes on the file system, -1 if not known
	Log   int64  `json:"log"`   // bytes of the log
}

// ZoneHealth is written by the holder when a zone got better or worse, where one of the
// two is degraded or unhealthy.
type ZoneHealth struct {
	Zone   string `json:"zone"`          // the zone
	Health string `json:"health"`        // healthy, busy, degraded or unhealthy
	Was    string `json:"was"`           // the same before, or unknown: a term has begun
	Why    string `json:"why,omitempty"` // in words; none: it is healthy
	Hosts  int    `json:"hosts"`         // members there that are not drained; 0: it has none any more
	Alive  int    `json:"alive"`         // of these
}

// HostLoad is written by a host that got to another level of load, where one of the two
// is high or above.
type HostLoad struct {
	Level  string  `json:"level"`  // "normal", "elevated", "high", "severe" or "critical"
	Was    string  `json:"was"`    // before
	Signal string  `json:"signal"` // what says most: "work delay", "control delay", "cpu", "memory", "io", "memory left", "local health"
	Score  float64 `json:"score"`  // from 0 to 8
}

// MemberJoined is written by the sponsor that admitted a host, and by the host
// that founded the cluster about itself.
type MemberJoined struct {
	Node   cluster.NodeID `json:"node"`   // that joined
	IDPub  []byte         `json:"id_pub"` // its Ed25519 key
	IP4    string         `json:"ip4"`    // its address in the mesh
	Invite string         `json:"invite"` // id of the invite that was spent; empty: the founder
}

// MemberRenewed is written by the sponsor that certified a member anew.
type MemberRenewed struct {
	Node    cluster.NodeID `json:"node"`    // that was certified
	Expires int64          `json:"expires"` // seconds since the Unix epoch
}

// MemberRekeyed is written by a host that changed its WireGuard key.
type MemberRekeyed struct {
	Node  cluster.NodeID `json:"node"`      // the writer
	WGPub []byte         `json:"wg_pubkey"` // the new one, Curve25519
	Actor string         `json:"actor"`     // who asked, "uid:0@n1"; empty: nobody did
}

// MemberHealth is written by the holder when it believes something else of a
// member than the log says: a new holder begins with what changed since the
// former one wrote.
type MemberHealth struct {
	Node cluster.NodeID `json:"node"` // the member
	From cluster.Health `json:"from"` // as the log had it; joining if it said nothing
	To   cluster.Health `json:"to"`   // believed now: joining, alive, suspect, dead or left
	// Stopped says that it is dead because it said that it stops; else it fell silent.
	Stopped bool `json:"stopped,omitempty"`
}

// MemberLeft is written by a host that leaves the cluster for good.
type MemberLeft struct {
	Node  cluster.NodeID `json:"node"`  // the writer
	Actor string         `json:"actor"` // who asked, "uid:0@n1"
}

// MemberRemoved is written by the sponsor that revoked a member's key.
type MemberRemoved struct {
	Node   cluster.NodeID `json:"node"`   // that was removed
	IDPub  []byte         `json:"id_pub"` // the key that is revoked
	Actor  string         `json:"actor"`  // who asked, "uid:0@n1"
	Reason string         `json:"reason"` // at most MaxReason bytes
}

// MemberConflict keeps two valid records that contradict each other, in the
// text form in which records travel. Why is "forked" (one key signed two
// announcements of one epoch) or "conflict" (two keys have one name or
// address).
type MemberConflict struct {
	Node  cluster.NodeID `json:"node"`  // of the record that stands
	Why   string         `json:"why"`   // forked or conflict
	Kept  string         `json:"kept"`  // the record that stands
	Other string         `json:"other"` // the one that contradicts it
}

// TokenChanged is written by the sponsor whose operator made or revoked an
// invite. It never holds the secret.
type TokenChanged struct {
	Invite  string `json:"invite"`  // its id
	Uses    int    `json:"uses"`    // how many hosts may join by it
	Expires int64  `json:"expires"` // seconds since the Unix epoch
	Actor   string `json:"actor"`   // who asked, "uid:0@n1"
	// Ephemeral says that these hosts come and go.
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// MTUBlackhole says that full packets to a peer vanish while small ones
// arrive, and what the mesh's packet size became.
type MTUBlackhole struct {
	Peer cluster.NodeID `json:"peer"` // on the other end
	From int            `json:"from"` // packet size before, in bytes
	To   int            `json:"to"`   // packet size now, in bytes
}

// Duplicate says that two processes use the identity of one host, as after the
// start of a copied disk. Boot is that of the one whose messages count.
type Duplicate struct {
	Host cluster.NodeID `json:"host"` // whose identity two processes use
	Boot uint64         `json:"boot"` // of the process that counts
}

// Equivocation says that a source signed two histories of its chain, which
// differ from event Seq on: nothing of it from there on counts. The proof, on
// which that rests, travels beside the log.
type Equivocation struct {
	Source SourceID `json:"source"` // the chain that forked
	Seq    uint64   `json:"seq"`    // the first event in which its histories differ
}

// ChainAhead says that events of a chain are refused since they are from the
// future: its host wrote them with a clock that was ahead.
type ChainAhead struct {
	Source  SourceID `json:"source"`        // the chain that runs ahead
	Seq     uint64   `json:"seq"`           // the last event that was refused
	Seconds float64  `json:"ahead_seconds"` // how far that was ahead of the writer's clock
}

// TermStart is the first authority event of a term. Cut fences every lower
// term: their authority events beyond it are void.
type TermStart struct {
	Term     cluster.Term     `json:"term"`     // that begins
	Voters   []cluster.NodeID `json:"voters"`   // the configuration it was elected under
	Grants   []cluster.NodeID `json:"grants"`   // the voters that granted it
	Previous cluster.NodeID   `json:"previous"` // last known holder, may be empty
	Cut      Cut              `json:"cut"`      // position and hash per source, by source
	Profile  cluster.Profile  `json:"profile"`  // the timings of the lease
	// Split says that by the configuration others may hold at the same time. Such
	// a term fences nothing: what they did counts when they meet.
	Split      bool         `json:"split,omitempty"`
	ConfigTerm cluster.Term `json:"config_term"` // of the voter configuration
	Epoch      uint64       `json:"epoch"`       // of the voter configuration
}

// LeaseReleased is written by a holder that steps down.
type LeaseReleased struct {
	Term      cluster.Term   `json:"term"`      // that ends
	Successor cluster.NodeID `json:"successor"` // empty: whoever is elected
	Reason    string         `json:"reason"`    // at most MaxReason bytes
}

// LeaseLost is written by a holder that lost the lease without releasing it.
type LeaseLost struct {
	Term   cluster.Term `json:"term"`   // that was lost
	Reason string       `json:"reason"` // at most MaxReason bytes
}

// VotersSet says who an operator wants as voters. It is written by the holder
// that agreed to it, or, Forced, by a host that was made the only voter while
// its daemon was down, because a majority was lost for good.
type VotersSet struct {
	Voters []cluster.NodeID `json:"voters"`           // empty with Auto
	Mode   cluster.Mode     `json:"mode"`             // empty: as it was
	Auto   bool             `json:"auto"`             // the holder chooses
	Actor  string           `json:"actor"`            // who asked, "uid:0@n1"
	Forced bool             `json:"forced,omitempty"` // against the voters that were
	// Previous are the voters that a forced change left behind.
	Previous []cluster.NodeID `json:"previous,omitempty"`
}

// StepDownAsked is written by the holder that an operator asked to hand over
// the lease.
type StepDownAsked struct {
	Term      cluster.Term   `json:"term"`      // that was held
	Successor cluster.NodeID `json:"successor"` // empty: the holder chooses
	Reason    string         `json:"reason"`    // at most MaxReason bytes
	Actor     string         `json:"actor"`     // who asked, "uid:0@n1"
}

// ConfigReloaded is written by a host that read its configuration again and
// took on other settings. It never holds a value.
type ConfigReloaded struct {
	Keys []string `json:"keys"` // that changed, such as "lease.eligible"
}

// Publishing is written by a host that took up or laid down the publishing
// duty.
type Publishing struct {
	Publishing bool           `json:"publishing"` // whether it has the duty now
	Term       cluster.Term   `json:"term"`       // of the lease that gave it; 0: none was visible
	Publisher  cluster.NodeID `json:"publisher"`  // who has it now, as the writer believes
	Why        string         `json:"why"`        // for people
}

// SnapshotTaken says that the fold of all events up to Heads was the same on
// the voters that signed. It proves itself by its signatures, so no fence voids
// it. Every host makes the same snapshot for itself when it has the events, and
// folds on from it.
type SnapshotTaken struct {
	// ID is the digest of all that follows but the signatures, see
	// eventlog/snapshot.
	ID       cluster.Hash `json:"id"`
	Term     cluster.Term `json:"term"`     // of the holder that took it
	Clock    cluster.HLC  `json:"clock"`    // the highest of the events within
	Previous cluster.Hash `json:"previous"` // what it was built on; zero: the first event
	Size     int64        `json:"size"`     // of the encoded state, in bytes
	Sum      cluster.Hash `json:"sum"`      // SHA-256 of the encoded state
	State    cluster.Hash `json:"state"`    // the state's own hash
	// Heads are the cut, sorted by source. Those of forked sources end where
	// their histories part, and have no signature.
	Heads []Head `json:"heads"`
	// Forks are the sources that have signed two histories, sorted: Seq is the
	// first event that does not count.
	Forks []SourceFork `json:"forks,omitempty"`
	// Signatures are of voters, sorted by name.
	Signatures []Signature `json:"signatures"`
	// Actor is who asked, "uid:0@n1"; empty: the log had grown. The ID is not over it.
	Actor string `json:"actor,omitempty"`
}

// SourceFork says where a source's histories part.
type SourceFork struct {
	Source SourceID `json:"source"`
	Seq    uint64   `json:"seq"`
}

// Signature is one host's Ed25519 signature, by its identity key.
type Signature struct {
	Node cluster.NodeID `json:"node"`
	Sig  []byte         `json:"sig"`
}

// ConfigChanged records a voter configuration that became stable.
type ConfigChanged struct {
	Config cluster.VoterConfig `json:"config"` // the record of the voters, signed by its issuer
}

// JobSubmitted creates a job; ID and plan are fixed for its life.
type JobSubmitted struct {
	Job   job.ID   `json:"job"`   // its id, derived from owner and key
	Spec  job.Spec `json:"spec"`  // what to compute
	Owner string   `json:"owner"` // who asked, "uid:1000" or "node:n1"
	// Chunks is the number of chunks; chunk i covers Spec.Chunk iterations
	// from i*Spec.Chunk, the last one what remains.
	Chunks int `json:"chunks"`
}

// JobWaiting says that a job was taken in and waits, and for what.
type JobWaiting struct {
	Job    job.ID `json:"job"`    // its id
	Reason string `json:"reason"` // at most MaxReason bytes
}

// JobWaits says why nothing of a job runs though something is to be done: once that has
// held for 30 s, and again when the reasons have been others for as long, at most eight
// times in a term. The latest is what it waits for.
type JobWaits struct {
	Job      job.ID       `json:"job"`      // its id
	Workers  int          `json:"workers"`  // members
	Eligible int          `json:"eligible"` // of them, those that may run it, busy ones included
	Reasons  []WaitReason `json:"reasons"`  // the most frequent first
}

// WaitReason is what keeps some workers from a job.
type WaitReason struct {
	Reason  string `json:"reason"`  // "zone", as `skein job explain` has them
	Workers int    `json:"workers"` // 0: it keeps the job from all of them
}

// JobStopped records the intent to end a job: nothing more of it is given out.
// Its end follows when every attempt has stopped or is fenced off.
type JobStopped struct {
	Job    job.ID        `json:"job"`              // its id
	Actor  string        `json:"actor"`            // who asked, "uid:0@n1"; the holder itself for a cause
	Reason string        `json:"reason,omitempty"` // at most MaxReason bytes
	Cause  job.StopCause `json:"cause,omitempty"`  // deadline or stuck; none: it was asked for
}

// JobDone ends a job.
type JobDone struct {
	Job    job.ID    `json:"job"`              // its id
	State  job.State `json:"state"`            // completed, failed, partial, cancelled or timeout
	Reason string    `json:"reason,omitempty"` // at most MaxReason bytes
	// Result fixes what the job computed: nothing that is learned of its
	// chunks later changes it.
	Result *job.Result `json:"result,omitempty"`
}

// JobsForgotten ends the memory of jobs that ended long ago. What the log holds
// of them from before means nothing any more, and their keys are free again.
type JobsForgotten struct {
	Jobs []job.ID `json:"jobs"` // their ids
}

// Register is the body of an event that says how something is, whatever was said of
// it before.
type Register interface {
	Kind() Kind
	// Subject names what it is about, for people.
	Subject() string
	Check() error
}

// JobZones says in which zones what has not begun of a job runs from now on: one of those
// that were chosen for it is lost. The latest event decides.
type JobZones struct {
	Job    job.ID   `json:"job"`    // its id
	Zones  []string `json:"zones"`  // all of them, sorted
	Reason string   `json:"reason"` // why it does not stay where it was
}

// Kind implements Register.
func (JobZones) Kind() Kind { return KindJobZones }

// Subject implements Register.
func (b JobZones) Subject() string { return fmt.Sprintf("zones of job %.64q", string(b.Job)) }

// Check reports the first reason why a job cannot be in such zones.
func (b JobZones) Check() error {
	if b.Job == "" || len(b.Zones) == 0 {
		return errors.New("a job and a zone are wanted")
	}
	return cluster.CheckSet("zones", b.Zones, job.MaxZones, func(z string) bool { return cluster.Printable(z, cluster.MaxZoneName) })
}

// Weight is an upper bound of its size, in bytes.
func (b JobZones) Weight() int { return len(b.Zones)*(6*cluster.MaxZoneName+4) + 6*cluster.MaxReason }

// GroupSet says who belongs to a group; the latest event decides.
type GroupSet struct {
	Group   string   `json:"group"`             // its name
	Members []string `json:"members,omitempty"` // all of them, sorted; none: there is no such group
	Actor   string   `json:"actor"`             // who asked, "uid:0@n1"
}

// Kind implements Register.
func (GroupSet) Kind() Kind { return KindGroupSet }

// Subject implements Register.
func (b GroupSet) Subject() string { return fmt.Sprintf("group %.64q", b.Group) }

// Check reports the first reason why a group cannot be as b says.
func (b GroupSet) Check() error {
	if err := cluster.CheckGroupName(b.Group); err != nil {
		return err
	}
	return cluster.CheckSet("members", b.Members, cluster.MaxGroupMembers, func(m string) bool { return cluster.CheckGrantee(m) == nil })
}

// ReservationSet says for whose jobs slots of a zone are kept; the latest event decides.
type ReservationSet struct {
	Name  string `json:"name"`  // of the reservation
	Owner string `json:"owner"` // whose jobs, "user:ann"
	Zone  string `json:"zone"`  // in which
	Slots int    `json:"slots"` // 0: it has ended
	Until int64  `json:"until"` // when it ends by itself, in seconds since the Unix epoch
	Actor string `json:"actor"` // who asked, "uid:0@n1"
}

// Kind implements Register.
func (ReservationSet) Kind() Kind { return KindReservationSet }

// Subject implements Register.
func (b ReservationSet) Subject() string { return fmt.Sprintf("reservation %.64q", b.Name) }

// MaxReservedSlots bounds the slots of one reservation.
const MaxReservedSlots = 1 << 20

// Check reports the first reason why a reservation cannot be as b says.
func (b ReservationSet) Check() error {
	if err := cluster.CheckGroupName(b.Name); err != nil {
		return err
	}
	if err := cluster.CheckPrincipal(b.Owner); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	switch {
	case b.Zone == "" || !cluster.Printable(b.Zone, cluster.MaxZoneName):
		return fmt.Errorf("zone %.64q is no name of a zone", b.Zone)
	case b.Slots < 0 || b.Slots > MaxReservedSlots:
		return fmt.Errorf("%d slots, want 1-%d", b.Slots, MaxReservedSlots)
	case b.Until < 0:
		return fmt.Errorf("until is %d: want seconds since the Unix epoch", b.Until)
	}
	return nil
}

// UserSet says who a user is; the latest event decides.
type UserSet struct {
	Name string   `json:"name"`           // of the user, who owns jobs as "user:NAME"
	Keys [][]byte `json:"keys,omitempty"` // Ed25519 keys, all of them, sorted, at most 8; none: no request is this user's
	UIDs []uint64 `json:"uids,omitempty"` // on the socket of any host these are this user, sorted, at most 16
	Role string   `json:"role"`           // viewer, submitter or operator
	// Disabled users may do nothing.
	Disabled bool   `json:"disabled,omitempty"`
	Actor    string `json:"actor"` // who asked, "uid:0@n1"
}

// Kind implements Register.
func (UserSet) Kind() Kind { return KindUserSet }

// Subject implements Register.
func (b UserSet) Subject() string { return fmt.Sprintf("user %.64q", b.Name) }

// Check reports the first reason why a user cannot be as b says.
func (b UserSet) Check() error {
	if err := cluster.CheckUserName(b.Name); err != nil {
		return err
	}
	if !slices.Contains([]string{"viewer", "submitter", "operator"}, b.Role) {
		return fmt.Errorf("%.32q is not a role: want viewer, submitter, operator", b.Role)
	}
	if len(b.Keys) > cluster.MaxUserKeys || len(b.UIDs) > cluster.MaxUserUIDs {
		return fmt.Errorf("%d keys and %d uids, at most %d and %d are allowed", len(b.Keys), len(b.UIDs), cluster.MaxUserKeys, cluster.MaxUserUIDs)
	}
	for i, k := range b.Keys {
		switch {
		case len(k) != 32:
			return fmt.Errorf("key of %d bytes, want 32", len(k))
		case i > 0 && bytes.Compare(b.Keys[i-1], k) >= 0:
			return errors.New("keys: out of order or there twice")
		}
	}
	for i, uid := range b.UIDs {
		if uid > math.MaxUint32 || i > 0 && b.UIDs[i-1] >= uid {
			return fmt.Errorf("uids: %d is none, out of order or there twice", uid)
		}
	}
	return nil
}

// HostOwnerSet says whose a host is; the latest event decides. It is never the host's
// own word: who owns a host is given the owner's private jobs.
type HostOwnerSet struct {
	Node  cluster.NodeID `json:"node"`            // the host
	Owner string         `json:"owner,omitempty"` // "user:ann"; none: nobody's in particular
	Actor string         `json:"actor"`           // who asked, "uid:0@n1"
}

// Kind implements Register.
func (HostOwnerSet) Kind() Kind { return KindHostOwnerSet }

// Subject implements Register.
func (b HostOwnerSet) Subject() string { return fmt.Sprintf("owner of %.64q", string(b.Node)) }

// Check reports the first reason why a host's owner cannot be as b says.
func (b HostOwnerSet) Check() error {
	if _, err := cluster.ParseNodeID(string(b.Node)); err != nil {
		return err
	}
	if b.Owner == "" {
		return nil
	}
	return cluster.CheckPrincipal(b.Owner)
}

// WorkerUp says that the holder has a stream to a worker, or that a worker is
// something else than before.
type WorkerUp struct {
	Worker    cluster.NodeID `json:"worker"`    // its host
	Slots     int            `json:"slots"`     // chunks that it runs at once
	Executors []string       `json:"executors"` // what it runs: "wasm", "exec:render"
	Owner     string         `json:"owner"`     // whose worker it is
	Accept    job.Acceptance `json:"accept"`    // whose jobs its host runs
}

// WorkerDown says that the holder has had no stream to a worker for 10 s. Of one that
// comes and goes it is said once in 30 s.
type WorkerDown struct {
	Worker cluster.NodeID `json:"worker"` // its host
	Reason string         `json:"reason"` // how its stream ended: closed, lost, refused, slow, protocol
}

// WorkerDrained is written by a host whose worker an operator has begin nothing new, or
// lets begin again.
type WorkerDrained struct {
	Drained bool   `json:"drained"` // whether it begins nothing new
	Actor   string `json:"actor"`   // who asked, "uid:0@n1"
}

// ChunksStarted says what workers began to run, as far as the holder heard of it.
type ChunksStarted struct {
	Job    job.ID       `json:"job"`    // its id
	Starts []ChunkStart `json:"starts"` // in the order in which they were heard of
}

// ChunkStart is one attempt that runs.
type ChunkStart struct {
	Chunk   int            `json:"chunk"`   // from 0
	Attempt int            `json:"attempt"` // from 1
	Worker  cluster.NodeID `json:"worker"`  // the host that runs it
	Seconds float64        `json:"seconds"` // for so long when the holder heard of it
}

// ChunksAssigned is one batch of assignments of a job.
type ChunksAssigned struct {
	Job         job.ID        `json:"job"`         // its id
	Assignments []job.Attempt `json:"assignments"` // of one worker or several
}

// ChunkFailed ends one attempt without a result. Final means that the chunk
// is given up, Parked that this says nothing of the work itself: its attempts
// were lost with their hosts, or it failed on too many of them.
type ChunkFailed struct {
	Job     job.ID           `json:"job"`              // its id
	Chunk   int              `json:"chunk"`            // from 0
	Attempt int              `json:"attempt"`          // from 1
	Worker  cluster.NodeID   `json:"worker"`           // the host that ran it
	Reason  string           `json:"reason"`           // at most MaxReason bytes
	Class   job.FailureClass `json:"class,omitempty"`  // infra or returned; none: the work itself failed
	Final   bool             `json:"final,omitempty"`  // the chunk is given up
	Parked  bool             `json:"parked,omitempty"` // with final: for want of hosts that can run it
	Log     cluster.Hash     `json:"log,omitzero"`     // an artefact of at most 16 KiB, with what the attempt wrote to standard error
}

// ChunkReclaimed takes one attempt back from a dead or overdue worker.
type ChunkReclaimed struct {
	Job     job.ID         `json:"job"`     // its id
	Chunk   int            `json:"chunk"`   // from 0
	Attempt int            `json:"attempt"` // from 1
	Worker  cluster.NodeID `json:"worker"`  // the host that ran it
	Reason  string         `json:"reason"`  // at most MaxReason bytes
}

// ChunkExtended says how an attempt was answered that asked for more time.
type ChunkExtended struct {
	Job          job.ID         `json:"job"`              // its id
	Chunk        int            `json:"chunk"`            // from 0
	Attempt      int            `json:"attempt"`          // from 1
	Worker       cluster.NodeID `json:"worker"`           // the host that runs it
	AskedSeconds float64        `json:"asked_seconds"`    // how much more it wanted
	Seconds      float64        `json:"seconds"`          // how much more it got; 0: none
	Reason       string         `json:"reason,omitempty"` // its own, at most MaxReason bytes
	Denied       string         `json:"denied,omitempty"` // why it got none
}

// ChunkCheckpointed says how far an attempt is. Of jobs with checkpoint there is the event
// only: those are not submitted before all know it.
type ChunkCheckpointed struct {
	Job     job.ID         `json:"job"`     // its id
	Chunk   int            `json:"chunk"`   // from 0
	Attempt int            `json:"attempt"` // from 1
	Worker  cluster.NodeID `json:"worker"`  // the host that runs it
	job.Checkpoint
}

// ChunksReleased lets chunks that were given up be tried again: what their
// attempts up to Attempt came to does not count against them any more.
type ChunksReleased struct {
	Job     job.ID     `json:"job"`     // its id
	Attempt int        `json:"attempt"` // from 1; the next one of each chunk is higher
	Chunks  []job.Span `json:"chunks"`  // in order, at most MaxReleases spans
	Actor   string     `json:"actor"`   // who asked, "uid:0@n1"
}

// MaxReleases bounds ChunksReleased.Chunks.
const MaxReleases = 4096

// ChunkAccepted makes one result the chunk's, for ever.
type ChunkAccepted struct {
	Job     job.ID          `json:"job"`     // its id
	Chunk   int             `json:"chunk"`   // from 0
	Attempt int             `json:"attempt"` // from 1
	Worker  cluster.NodeID  `json:"worker"`  // the host that ran it
	Result  job.ChunkResult `json:"result"`  // iterations, and per metric n, mean, m2, min and max
	// Seconds is the worker's own measure of the run time.
	Seconds float64 `json:"seconds"`
	// Settles says that accepted results differed and this one decides.
	Settles bool `json:"settles,omitempty"`
}

// ChunksAccepted makes several results those of their chunks, for ever.
type ChunksAccepted struct {
	Job     job.ID   `json:"job"`     // its id
	Accepts []Accept `json:"accepts"` // of one worker or several
}

// Accept is one result in ChunksAccepted.
type Accept struct {
	Chunk   int             `json:"chunk"`             // from 0
	Attempt int             `json:"attempt"`           // from 1
	Worker  cluster.NodeID  `json:"worker"`            // the host that ran it
	Seconds float64         `json:"seconds"`           // the worker's own measure of the run time
	Settles bool            `json:"settles,omitempty"` // accepted results differed and this one decides
	Result  job.ChunkResult `json:"result"`            // iterations, and per metric n, mean, m2, min and max
}

// Accepts returns the results of a job's chunks that an event makes theirs; of all other
// events none.
func (e Event) Accepts(of job.ID) []Accept {
	switch e.Kind {
	case KindChunksAccepted:
		var b ChunksAccepted
		if json.Unmarshal(e.Body, &b) == nil && b.Job == of {
			return b.Accepts
		}
	case KindChunkAccepted:
		var b ChunkAccepted
		if json.Unmarshal(e.Body, &b) == nil && b.Job == of {
			return []Accept{{Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker, Seconds: b.Seconds, Settles: b.Settles, Result: b.Result}}
		}
	}
	return nil
}
