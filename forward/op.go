package forward

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// Target says which host carries out an operation.
type Target string

// Targets.
const (
	Holder  Target = "the holder"     // whoever holds the lease
	Sponsor Target = "a sponsor"      // a member that may certify others
	Host    Target = "the host named" // the member that the asker chose
)

// Op is an operation that another host may be asked for. It is immutable.
type Op[Req, Resp any] struct {
	// Name is the key under which requests carry the body.
	Name string
	// Doc says in one line what the operation does, Answers what comes back.
	Doc, Answers string
	// At is where it runs.
	At Target
	// Lane says how urgent it is where the host that is asked has more to do than it can.
	Lane overload.Lane
	// Key is where an answer carries Resp; empty: Resp is the answer itself,
	// a JSON object none of whose fields is "problem" or "lacks".
	Key string
	// Who says who may ask. Allow, if set, enforces it as far as the request
	// alone can tell; the rest is up to the handler.
	Who   string
	Allow func(Asker, Req) error
	// Check, if set, validates the request by itself, before anything else.
	Check func(Req) error
	// Quota bounds how often one member may ask.
	Quota Quota
	// Owner says that the actor is the owner of a job and is recorded without
	// a host: a key names the same job wherever it is submitted.
	Owner bool
}

// Stream is an operation whose answer is any number of frames, until it ends or
// the asker closes it. It is an Op without a Key.
type Stream[Req, Frame any] Op[Req, Frame]

// Quota is how often one member may ask: Burst times at once, plus once per
// Every. The zero value means no limit. A host is never limited in what it asks
// of itself.
type Quota struct {
	// Name is shared by operations that count together.
	Name  string
	Burst int
	Every time.Duration
	// Late says that the handler calls Asker.Spend once it knows that the
	// request will change something; otherwise every request counts.
	Late bool
}

// None is an empty body or answer.
type None struct{}

// Info describes an operation, whatever its types.
type Info struct {
	Name, Doc, Answers, Who string
	At                      Target
	Lane                    overload.Lane
	Quota                   Quota
	Streams                 bool // the answer is a stream of frames
}

func (o *Op[Req, Resp]) info() Info {
	return Info{Name: o.Name, Doc: o.Doc, Answers: o.Answers, Who: o.Who, At: o.At, Lane: o.Lane, Quota: o.Quota}
}

func (s *Stream[Req, Frame]) info() Info {
	i := (*Op[Req, Frame])(s).info()
	i.Streams = true
	return i
}

// Operations lists all operations, sorted by name.
func Operations() []Info {
	list := []Info{
		Access.info(), Carry.info(), CheckLog.info(), Conflict.info(), Debug.info(), Depart.info(), Drain.info(), Enrol.info(), Explain.info(), FollowJob.info(), Group.info(), HostOwner.info(), JobLogs.info(), Links.info(),
		OnionDrain.info(), OnionGrant.info(), OnionPublish.info(), Own.info(), Position.info(), Release.info(), Remove.info(), Renew.info(), Reserve.info(), RevokeAccess.info(), RevokeWorker.info(), ShowVoters.info(),
		Snapshot.info(), StepDown.info(), Stop.info(), Submit.info(), User.info(), Voters.info(), Waiting.info(), WorkerGroups.info(), Workers.info(),
		RetryWorkflow.info(), RunWorkflow.info(), StopWorkflow.info(), SetSchedule.info(), ChangeSchedule.info(),
		Zones.info(), WorkerGroupsNear.info(), ZonesNear.info(), FollowJobNear.info(), LinksNear.info(), WatchLoadNear.info(), SubmitLoad.info(), StopLoad.info(), WatchLoad.info(), LoadOffer.info(), LoadPrepare.info(), LoadClock.info(), LoadStart.info(), LoadEnd.info(), LoadRedeal.info(), LoadCounted.info(),
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Asker is who asked for an operation. The zero value with From and Self set
// is enough for tests: it has no quota.
type Asker struct {
	From  cluster.NodeID // the member whose stream it is, or this host
	Self  cluster.NodeID // this host
	Actor string         // who asked, "uid:0@n1"

	quota   Quota
	limits  *limits
	sponsor func(cluster.NodeID) bool
}

// Own reports whether this host asked itself.
func (a Asker) Own() bool { return a.From == a.Self }

// Sponsor reports whether the member that asked may certify others.
func (a Asker) Sponsor() bool { return a.sponsor != nil && a.sponsor(a.From) }

// Spend counts one use of an operation whose quota is Late. It returns a
// *api.Problem if the member has used up its quota.
func (a Asker) Spend() error {
	if a.Own() || a.limits == nil {
		return nil
	}
	return a.limits.take(a.From, a.quota)
}

// unmarshal reads a body or an answer.
func unmarshal[T any](text json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%T: %w", v, err)
	}
	return v, nil
}
