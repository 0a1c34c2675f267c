package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	fold "github.com/skein-project/skein/eventlog/state/registry"
)

// Log is what the registry is read from.
type Log interface {
	View(fn func(*state.State))
}

// Registry answers who is let in from outside.
type Registry struct{ log Log }

// New returns the Registry of a log.
func New(log Log) *Registry { return &Registry{log: log} }

// Worker is an outside worker that is enrolled.
type Worker struct {
	ID    cluster.NodeID
	Key   []byte // Ed25519; not to be changed
	Owner string // "user:ann", "node:n1"
	Name  string // what its owner calls it; may be empty
	// Trusted workers are given what a host is given, and believed as one. All others
	// are strangers.
	Trusted bool
	Zone    string    // never empty
	At      time.Time // when it was enrolled
	// Revoked workers are never let in again.
	Revoked bool
	// Disabled says that the owner is a user who may do nothing at present, or whom
	// there is not.
	Disabled bool
}

// Admitted reports whether the worker is to be given anything.
func (w Worker) Admitted() bool { return !w.Revoked && !w.Disabled }

// Worker returns the worker of this id; false if nobody enrolled it.
func (r *Registry) Worker(id cluster.NodeID) (w Worker, enrolled bool) {
	r.log.View(func(s *state.State) {
		var known fold.Worker
		if known, enrolled = s.Outside().Worker(id); enrolled {
			w = workerOf(s, known)
		}
	})
	return w, enrolled
}

// Moment is the same while nobody is enrolled or revoked, no access token is made or revoked,
// and no user changes.
type Moment struct {
	workers *fold.Moment
	users   *state.Users
}

// Moment tells whether somebody may be let in, or shut out, since it was asked last.
func (r *Registry) Moment() (m Moment) {
	r.log.View(func(s *state.State) { m = Moment{s.Outside().Moment(), s.Users()} })
	return m
}

// shutAtOnce is how many workers are looked at while the log waits.
const shutAtOnce = 1000

// Shut returns those of ids that are not to be given anything: they are revoked, their
// owner may do nothing, or nobody enrolled them.
func (r *Registry) Shut(ids []cluster.NodeID) (out []cluster.NodeID) {
	for some := range slices.Chunk(ids, shutAtOnce) {
		r.log.View(func(s *state.State) {
			for _, id := range some {
				if w, known := s.Outside().Worker(id); !known || !workerOf(s, w).Admitted() {
					out = append(out, id)
				}
			}
		})
	}
	return out
}

func workerOf(s *state.State, w fold.Worker) Worker {
	out := Worker{ID: w.Worker, Key: w.Key, Owner: w.Owner, Name: w.Name, Trusted: w.Trusted, Zone: w.Zone, At: w.At.Time(), Revoked: w.Revoked, Disabled: s.Barred(w.Owner)}
	if out.Zone == "" {
		out.Zone = cluster.OutsideZone
	}
	return out
}

// Access is what a token is good for.
type Access struct {
	ID    string
	Owner string // "user:ann"
	// Of Roles, at least one of submit, watch and work.
	Roles   []string // not to be changed
	Expires time.Time
}

// Access returns what a token, the whole text, is good for at the time now; false if it is
// none, is revoked or over, or its owner is disabled: who asks learns no more.
func (r *Registry) Access(text string, now time.Time) (Access, bool) {
	t, err := ParseToken(text)
	if err != nil {
		return Access{}, false
	}
	// The hash is compared also where nothing is known: it takes as long.
	return r.access(t.ID, t.Has, now)
}

func (r *Registry) access(id string, has func(cluster.Hash) bool, now time.Time) (a Access, ok bool) {
	r.log.View(func(s *state.State) {
		known, there := s.Outside().Token(id)
		if !has(known.Hash) || !there || Ended(known, now) || s.Barred(known.Owner) {
			return
		}
		a, ok = Access{ID: known.ID, Owner: known.Owner, Roles: known.Roles, Expires: time.Unix(known.Expires, 0)}, true
	})
	return a, ok
}

// Holder returns what the access token of this id is good for at the time now. One that
// was revoked, has expired, or whose owner is disabled is not good; one that nobody made
// is unknown.
func (r *Registry) Holder(id string, now time.Time) (a Access, good, known bool) {
	a, good = r.access(id, func(cluster.Hash) bool { return true }, now)
	r.log.View(func(s *state.State) { _, known = s.Outside().Token(id) })
	return a, good, known
}

// JobOwner is whose a job is, as "user:ann"; empty: there is none.
func (r *Registry) JobOwner(id job.ID) (owner string) {
	r.log.View(func(s *state.State) { j, _ := s.Job(id); owner = j.Owner })
	return owner
}

// Lent implements door.Tokens: what a token, the whole text, lends of a user's rights on
// jobs.
func (r *Registry) Lent(text string, now time.Time) (access.Lent, bool) {
	a, ok := r.Access(text, now)
	return lentOf(a), ok
}

// Lends implements door.Tokens: what the token with this access.Lent.Key lends at the time
// now.
func (r *Registry) Lends(key string, now time.Time) (access.Lent, bool) {
	id, _ := strings.CutPrefix(key, tokenPrefix)
	a, ok := r.access(id, func(cluster.Hash) bool { return true }, now)
	return lentOf(a), ok
}

func lentOf(a Access) access.Lent {
	name, _ := strings.CutPrefix(a.Owner, cluster.UserPrincipal("")) // all tokens are users'
	return access.Lent{ID: a.ID, User: name, Submit: slices.Contains(a.Roles, "submit"), Watch: slices.Contains(a.Roles, "watch"), Expires: a.Expires}
}

// Ended reports whether a token is good for nothing any more.
func Ended(t fold.Token, now time.Time) bool { return len(t.Roles) == 0 || now.Unix() >= t.Expires }

// GatewayKey returns the key by which a gateway of a host signs, by its name; false if
// no host of the log has it at the time now.
func (r *Registry) GatewayKey(node cluster.NodeID, kid string, now time.Time) (key []byte, ok bool) {
	for _, g := range r.Gateways() {
		if g.Node == node && g.KID == kid && now.Unix() < g.Until {
			return g.Key, true
		}
	}
	return nil, false
}

// Gateway is what a host said of its gateway.
type Gateway struct {
	event.GatewayOpened // not to be changed
	Node                cluster.NodeID
	At                  time.Time
}

// Gateways lists what hosts said of their gateways, two keys of each host at most.
func (r *Registry) Gateways() (out []Gateway) {
	r.log.View(func(s *state.State) {
		for _, g := range s.Outside().Gateways() {
			out = append(out, Gateway{GatewayOpened: g.GatewayOpened, Node: g.Node, At: g.At.Time()})
		}
	})
	return out
}
