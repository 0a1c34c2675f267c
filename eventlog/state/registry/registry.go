package registry

import (
	"iter"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

const (
	maxActor = 128 // bytes
	// maxKeys is how many keys of the gateway of one host are kept.
	maxKeys = 2
)

// Registry is who is let in from outside. The zero value is not usable, see New. What is
// in its maps is never changed, only replaced.
type Registry struct {
	workers  map[cluster.NodeID]worker
	tokens   map[string]canon.Register[event.AccessSet]
	gateways map[cluster.NodeID][]opened // by kid
	// sorted are the ids of workers, none of which ever goes; with another number of
	// them than there are workers it is to be made again.
	sorted []cluster.NodeID
	moment *Moment // nil: to be made
}

// Moment is the same while nobody is enrolled or revoked, and no access token changes.
type Moment struct{ _ byte } // of a size, so that no two are the same

// worker is what is known of an outside worker.
type worker struct {
	enrolled *canon.Register[event.WorkerEnrolled] // nil: it is only revoked
	revoked  *canon.Register[string]               // the actor; nil: it is not
}

type opened = canon.Register[event.GatewayOpened]

// Worker is what is known of an outside worker.
type Worker struct {
	event.WorkerEnrolled             // not to be changed
	At                   cluster.HLC `json:"at"`
	// Revoked workers are never let in again. RevokedBy is who asked, RevokedAt when.
	Revoked   bool        `json:"revoked,omitempty"`
	RevokedBy string      `json:"revoked_by,omitempty"`
	RevokedAt cluster.HLC `json:"revoked_at,omitempty"`
}

// Token is what is known of an access token. Without roles it is revoked.
type Token struct {
	event.AccessSet             // not to be changed
	At              cluster.HLC `json:"at"`
}

// Gateway is what a host said of a gateway of its own.
type Gateway struct {
	event.GatewayOpened                // not to be changed
	Node                cluster.NodeID `json:"node"`
	At                  cluster.HLC    `json:"at"`
}

// New returns a Registry of nobody.
func New() Registry {
	return Registry{
		workers: make(map[cluster.NodeID]worker), tokens: make(map[string]canon.Register[event.AccessSet]),
		gateways: make(map[cluster.NodeID][]opened),
	}
}

// Clone returns an independent copy.
func (r *Registry) Clone() Registry {
	return Registry{workers: maps.Clone(r.workers), tokens: maps.Clone(r.tokens), gateways: maps.Clone(r.gateways), sorted: r.sorted, moment: r.moment}
}

// Moment tells whether anybody was enrolled or revoked, or an access token changed, since it
// was asked last.
func (r *Registry) Moment() *Moment {
	if r.moment == nil {
		r.moment = &Moment{}
	}
	return r.moment
}

// ids are those of all workers, sorted; not to be changed.
func (r *Registry) ids() []cluster.NodeID {
	if len(r.sorted) != len(r.workers) {
		r.sorted = slices.Sorted(maps.Keys(r.workers))
	}
	return r.sorted
}

// Empty reports whether nothing was ever said of anybody.
func (r *Registry) Empty() bool { return len(r.workers)+len(r.tokens)+len(r.gateways) == 0 }

// Enrol folds whose a worker is. Like all of its kind it reports false if the event
// cannot be what it says.
func (r *Registry) Enrol(e *event.Event, b event.WorkerEnrolled) bool {
	if b.Check() != nil {
		return false
	}
	b.Actor = canon.Clip(b.Actor, maxActor)
	w := r.workers[b.Worker]
	next := canon.Register[event.WorkerEnrolled]{}
	if w.enrolled != nil {
		next = *w.enrolled
	}
	next.Set(canon.KeyOf(e), b)
	w.enrolled = &next
	r.workers[b.Worker], r.moment = w, nil
	return true
}

// Revoke folds the end of a worker; the first word of it is kept.
func (r *Registry) Revoke(e *event.Event, b event.WorkerRevoked) bool {
	if b.Check() != nil {
		return false
	}
	w := r.workers[b.Worker]
	next := canon.Register[string]{}
	if w.revoked != nil {
		next = *w.revoked
	}
	next.First(canon.KeyOf(e), canon.Clip(b.Actor, maxActor))
	w.revoked = &next
	r.workers[b.Worker], r.moment = w, nil
	return true
}

// Access folds what a token is good for.
func (r *Registry) Access(e *event.Event, b event.AccessSet) bool {
	if b.Check() != nil {
		return false
	}
	b.Actor = canon.Clip(b.Actor, maxActor)
	t := r.tokens[b.ID]
	t.Set(canon.KeyOf(e), b)
	r.tokens[b.ID], r.moment = t, nil
	return true
}

// Open folds what a host says of its gateway.
func (r *Registry) Open(e *event.Event, b event.GatewayOpened) bool {
	if b.Check() != nil {
		return false
	}
	keys := slices.Clone(r.gateways[e.Source.Node])
	i, known := find(keys, b.KID)
	if !known {
		keys = slices.Insert(keys, i, opened{})
	}
	keys[i].Set(canon.KeyOf(e), b)
	if len(keys) > maxKeys {
		oldest := 0
		for i := range keys {
			if keys[i].At.Less(keys[oldest].At) {
				oldest = i
			}
		}
		keys = slices.Delete(keys, oldest, oldest+1)
	}
	r.gateways[e.Source.Node] = keys
	return true
}

func find(keys []opened, kid string) (int, bool) {
	for i, k := range keys {
		if k.V.KID >= kid {
			return i, k.V.KID == kid
		}
	}
	return len(keys), false
}

// Counts says how many workers and tokens are known, those that are revoked included.
func (r *Registry) Counts() (workers, tokens int) { return len(r.workers), len(r.tokens) }

// Worker returns one worker; false if it was never enrolled.
func (r *Registry) Worker(id cluster.NodeID) (Worker, bool) {
	w := r.workers[id]
	if w.enrolled == nil {
		return Worker{}, false
	}
	out := Worker{WorkerEnrolled: w.enrolled.V, At: w.enrolled.At.HLC}
	if w.revoked != nil {
		out.Revoked, out.RevokedBy, out.RevokedAt = true, w.revoked.V, w.revoked.At.HLC
	}
	return out, true
}

// Revoked reports whether a worker is never let in again, enrolled or not.
func (r *Registry) Revoked(id cluster.NodeID) bool { return r.workers[id].revoked != nil }

// Workers yields the workers that were enrolled, by id, from the first one behind after.
func (r *Registry) Workers(after cluster.NodeID) iter.Seq[Worker] {
	return func(yield func(Worker) bool) {
		ids := r.ids()
		first, found := slices.BinarySearch(ids, after)
		if found {
			first++
		}
		for _, id := range ids[first:] {
			if w, ok := r.Worker(id); ok && !yield(w) {
				return
			}
		}
	}
}

// Token returns one token.
func (r *Registry) Token(id string) (Token, bool) {
	t, ok := r.tokens[id]
	return Token{AccessSet: t.V, At: t.At.HLC}, ok
}

// Tokens yields the tokens, by id.
func (r *Registry) Tokens() iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for _, id := range slices.Sorted(maps.Keys(r.tokens)) {
			if t, _ := r.Token(id); !yield(t) {
				return
			}
		}
	}
}

// Gateways returns what hosts said of gateways of theirs, by host and name of the key.
func (r *Registry) Gateways() (out []Gateway) {
	for _, n := range slices.Sorted(maps.Keys(r.gateways)) {
		for _, k := range r.gateways[n] {
			out = append(out, Gateway{GatewayOpened: k.V, Node: n, At: k.At.HLC})
		}
	}
	return out
}
