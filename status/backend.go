package status

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/debug"
	"github.com/skein-project/skein/status/joblogs"
	"github.com/skein-project/skein/status/joboutputs"
	"github.com/skein-project/skein/status/loads"
	"github.com/skein-project/skein/status/outside"
	"github.com/skein-project/skein/status/past"
	"github.com/skein-project/skein/status/proof"
	"github.com/skein-project/skein/status/workflows"
)

// Backend is what the server shows and changes; package backend implements it.
// Methods may be called from any goroutine and respect their context. They
// leave the embedded api.Header zero: the server fills it from Header. An
// error that is an *api.Problem is answered as it is, one that wraps
// job.ErrSpec as invalid_job, a context's end as timeout, any other as
// internal.
type Backend interface {
	ClusterReader
	LeaseControl
	MeshControl
	JobControl
	joblogs.Source
	joboutputs.Source
	workflows.Control
	loads.Control
	UserControl
	outside.Registry
	WorkerControl
	OnionControl
	EventReader
	past.Log
	proof.Log
	debug.Source
	Positions
	SnapshotKeeper
	TokenKeeper
	ArtefactStore
	Probe
}

// ClusterReader answers what this host knows of the cluster.
type ClusterReader interface {
	// Header returns the header of a body made now.
	Header() api.Header
	Status(ctx context.Context) (api.Status, error)
	// Overload tells how loaded this host is, and what follows.
	Overload(ctx context.Context) (api.Overload, error)
	// Members lists the members, and with all also who left or was removed.
	Members(ctx context.Context, all bool) (api.Members, error)
	Mesh(ctx context.Context) (api.Mesh, error)
	// Links tells how the hosts see each other, or with a name how that host and the
	// others do. It asks them from the first call on, until 15 s after the last.
	Links(ctx context.Context, of cluster.NodeID) (api.Links, error)
	Config(ctx context.Context) (api.Config, error)
	// Doctor examines the host and the cluster; it takes seconds at most.
	Doctor(ctx context.Context) (api.Doctor, error)
}

// MeshControl changes who is in the mesh, and under which key.
type MeshControl interface {
	// Leave takes this host out of the cluster for good and returns when the
	// notice went to all members within reach. The daemon then ends by itself.
	Leave(ctx context.Context, actor string) (api.Left, error)
	// Remove revokes a member's key; on a host that may not it is forwarded
	// to one that may. Removing a host again succeeds. Node is another than
	// this host; who is no member is refused with code not_found.
	Remove(ctx context.Context, actor string, node cluster.NodeID, reason string) (api.Removed, error)
	// RotateKey announces a new WireGuard key for this host and returns before
	// the change; while one is under way it returns that one.
	RotateKey(ctx context.Context, actor string) (api.Rotated, error)
}

// LeaseControl shows the lease and who votes, and asks the holder to change
// that.
type LeaseControl interface {
	Lease(ctx context.Context) (api.Lease, error)
	LeaseHistory(ctx context.Context) (api.LeaseHistory, error)
	Voters(ctx context.Context) (api.Voters, error)
	// SetVoters returns once the holder agreed to who shall vote, which it
	// then brings about one change at a time. Req was checked by itself. On a
	// host that is not the holder it is forwarded, or refused with code
	// conflict.
	SetVoters(ctx context.Context, actor string, req api.VotersRequest) (api.Voters, error)
	// StepDown returns once the release was decided. On a host that is not
	// the holder it is forwarded, or refused with code conflict.
	StepDown(ctx context.Context, actor string, req api.StepDownRequest) (api.Lease, error)
}

// JobControl submits, shows and stops jobs. Changes go to the holder,
// wherever it is.
type JobControl interface {
	// Submit gets a spec with its defaults that is valid by itself; it
	// checks the artefact and the key.
	Submit(ctx context.Context, actor string, req api.SubmitRequest) (api.SubmitResponse, error)
	Stop(ctx context.Context, actor string, id job.ID, reason string) (api.Job, error)
	// Release lets what was given up of an open job be tried again.
	Release(ctx context.Context, actor string, id job.ID) (api.Released, error)
	Jobs(ctx context.Context) (api.Jobs, error)
	// ChunkMap tells of a job's chunks in at most so many runs, and asks nobody.
	ChunkMap(id job.ID, most int) (api.ChunkRuns, error)
	// Job finds a job by its id; FindJob by a unique prefix of it, or a unique name.
	Job(ctx context.Context, id job.ID) (api.Job, error)
	// Of an owner, unless that is empty, no other job exists.
	FindJob(ctx context.Context, text, owner string) (job.ID, error)
	// Explain says what keeps each worker from a job.
	Explain(ctx context.Context, id job.ID) (api.JobExplanation, error)
	// JobOwner tells whose a job is, and asks nobody; empty: there is no such job.
	JobOwner(id job.ID) string
	// WatchJob begins to watch a job, which the holder may have to be asked for.
	WatchJob(id job.ID) JobWatch
	// Workers tells what the holder knows of them.
	Workers(ctx context.Context) (api.Workers, error)
	// WorkerGroups is the same, with the outside workers of each gateway as one.
	WorkerGroups(ctx context.Context) (api.Workers, error)
	// Zones tells how the zones are, by the holder if it answers.
	Zones(ctx context.Context) (api.Zones, error)
	// WatchedZones is the same for who watches, as this host's zone was told lately.
	WatchedZones(ctx context.Context) (api.Zones, error)
	// Groups tells who belongs to the groups that permissions name; SetGroup
	// replaces the members of one. Set was checked by itself.
	Groups(ctx context.Context) (api.Groups, error)
	SetGroup(ctx context.Context, actor string, set event.GroupSet) (api.GroupSet, error)
	// Reservations tells for whom slots are kept; SetReservation replaces one, of no slots:
	// it ends it. Set was checked by itself.
	Reservations(ctx context.Context) (api.Reservations, error)
	SetReservation(ctx context.Context, actor string, set event.ReservationSet) (api.Reservation, error)
}

// UserControl shows and changes users and the owners of hosts.
type UserControl interface {
	// Directory finds users; it is another one when a user has changed.
	Directory() *access.Directory
	Users(ctx context.Context) (api.Users, error)
	// SetUser and SetOwner return when a majority of the voters has it. Set was
	// checked by itself.
	SetUser(ctx context.Context, actor string, set event.UserSet) (api.UserSet, error)
	SetOwner(ctx context.Context, actor string, set event.HostOwnerSet) (api.OwnerSet, error)
	// Holder is who holds the lease; empty: nobody, as far as this host knows.
	Holder() cluster.NodeID
	// Carry has another host carry out the request of a user.
	Carry(ctx context.Context, to cluster.NodeID, req api.Carried) (api.Answered, error)
}

// JobWatch shows one job for as long as somebody looks at it.
type JobWatch interface {
	// Job returns the job as it is known best. It is final only once this host's
	// own log has its end.
	Job(ctx context.Context) (api.Job, error)
	// Changed returns a channel that is closed when Job knows more, after the
	// call, than EventReader.Changed tells of; nil: never.
	Changed() <-chan struct{}
	Close()
}

// WorkerControl changes what a host's worker takes.
type WorkerControl interface {
	// Drain returns when the worker has obeyed, and before what runs has ended.
	// Another host is asked through the mesh; Node was checked by itself.
	Drain(ctx context.Context, actor string, req api.DrainRequest) (api.Drain, error)
}

// EventReader reads the log.
type EventReader interface {
	// Events yields the known events after at that since and about select: those
	// whose clock is not before since, unless that is zero, and those about
	// something. It may yield more, and costs little where about names something
	// rare. They are ordered by HLC, then source, then sequence, so that
	// each source's events are in order. It moves at along, over what is not
	// selected as well, and ends with what is known when it begins: a reader
	// that goes on from at after the next change misses nothing. Events that
	// are no longer kept are refused with code compacted. An error ends it.
	Events(ctx context.Context, at api.Cursor, since time.Time, about event.Subject) iter.Seq2[event.Event, error]
	// Knows reports whether a host of that name is or was a member, or wrote
	// events.
	Knows(node cluster.NodeID) bool
	// Void reports whether an event has no say, because a higher term has fenced
	// it off.
	Void(e event.Event) bool
	// Oldest returns the position after which all events are kept, empty if
	// that is the beginning.
	Oldest() api.Cursor
	// CheckLog tells of a check of the whole log of node, which is empty for
	// this host: of the run of that number, or with run 0 of one that it starts
	// unless one is running. Other hosts are asked through the mesh.
	CheckLog(ctx context.Context, node cluster.NodeID, run uint64) (api.LogCheck, error)
	// Changed returns a channel that is closed when the fold moved on, or
	// the view of who holds changed, after the call.
	Changed() <-chan struct{}
}

// Positions says where in the log hosts are.
type Positions interface {
	// Cursor returns the position up to which all events that are known have come.
	Cursor() api.Cursor
	// Has reports whether what this host shows has everything up to a position;
	// EventReader.Changed tells when to ask again.
	Has(at api.Cursor) bool
	// Agreed returns a position behind everything that was acknowledged before the
	// call. It is refused with code conflict where no host can know that, and with
	// no_holder while nobody holds.
	Agreed(ctx context.Context) (api.Cursor, error)
}

// SnapshotKeeper shows the snapshots of the log, and has them taken.
type SnapshotKeeper interface {
	Snapshots(ctx context.Context) (api.LogSnapshots, error)
	// TakeSnapshot returns when a snapshot of this moment is signed and logged.
	// On a host that is not the holder it is forwarded.
	TakeSnapshot(ctx context.Context, actor string) (api.LogSnapshotTaken, error)
}

// TokenKeeper keeps this host's invites.
type TokenKeeper interface {
	CreateToken(ctx context.Context, actor string, req api.TokenRequest) (api.TokenCreated, error)
	Tokens(ctx context.Context) (api.Tokens, error)
	RevokeToken(ctx context.Context, actor, id string) error
}

// ArtefactStore keeps modules and configs by their SHA-256.
type ArtefactStore interface {
	// PutArtefact reads r to its end and returns once the bytes are durable
	// on this host. R fails when the body is longer than the server allows.
	PutArtefact(ctx context.Context, r io.Reader) (cluster.Hash, int64, error)
}

// Probe answers health checks; nil is healthy.
type Probe interface {
	// Healthy reports whether the process works at all.
	Healthy() error
	// Ready reports whether the host joined and has a current view.
	Ready() error
}
