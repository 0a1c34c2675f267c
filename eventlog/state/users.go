package state

import (
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// users are those who may ask for something, by name, each a register. What is
// in it is never changed.
type users struct {
	set  map[string]canon.Register[event.UserSet]
	list *Users // nil: to be made
}

// Users are all users at one moment, by name. It is immutable, and the same while
// nobody changes.
type Users struct{ All []User }

// User is what is known of a user.
type User struct {
	event.UserSet             // not to be changed
	At            cluster.HLC `json:"at"`
}

func newUsers() users { return users{set: make(map[string]canon.Register[event.UserSet])} }

func (us users) clone() users { return users{set: maps.Clone(us.set), list: us.list} }

// setUser folds what an operator said of a user; the latest event decides. It reports false
// if the event cannot be what it says.
func (us *users) setUser(e *event.Event, b event.UserSet) bool {
	if b.Check() != nil {
		return false
	}
	u := us.set[b.Name]
	b.Actor = canon.Clip(b.Actor, maxActor)
	u.Set(canon.KeyOf(e), b)
	us.set[b.Name], us.list = u, nil
	return true
}

// Users returns all users, by name.
func (us *users) Users() *Users {
	if us.list == nil {
		all := make([]User, 0, len(us.set))
		for _, name := range slices.Sorted(maps.Keys(us.set)) {
			u, _ := us.User(name)
			all = append(all, u)
		}
		us.list = &Users{All: all}
	}
	return us.list
}

// User returns one user.
func (us *users) User(name string) (User, bool) {
	u, ok := us.set[name]
	return User{UserSet: u.V, At: u.At.HLC}, ok
}

// Barred reports whether who is a user that may do nothing, or whom there is not: nobody is
// let in for that one.
func (us *users) Barred(who string) bool {
	name, isUser := strings.CutPrefix(who, cluster.UserPrincipal(""))
	u, known := us.set[name]
	return isUser && (!known || u.V.Disabled)
}

func (us *users) write(w *canon.Writer) {
	w.Count(len(us.set))
	for _, name := range slices.Sorted(maps.Keys(us.set)) {
		u := us.set[name]
		w.Text(name)
		w.Key(u.At)
		w.Text(u.V.Role)
		w.Flag(u.V.Disabled)
		w.Text(u.V.Actor)
		w.Count(len(u.V.Keys))
		for _, k := range u.V.Keys {
			w.Text(string(k))
		}
		w.Count(len(u.V.UIDs))
		for _, uid := range u.V.UIDs {
			w.Num(uid)
		}
		w.Flush()
	}
}

func (us *users) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		b := event.UserSet{Name: r.Text(cluster.MaxUserName)}
		at := r.Key()
		b.Role, b.Disabled, b.Actor = r.Text(maxActor), r.Flag(), r.Text(maxActor)
		for n := r.Count(); n > 0 && r.OK(); n-- {
			b.Keys = append(b.Keys, []byte(r.Text(maxKeyLen)))
		}
		for n := r.Count(); n > 0 && r.OK(); n-- {
			b.UIDs = append(b.UIDs, r.Num())
		}
		r.Check(b.Check() == nil, "user")
		us.set[b.Name] = canon.Register[event.UserSet]{At: at, V: b}
	}
}

// owners says whose hosts are, each a register. The empty owner is nobody.
type owners map[cluster.NodeID]canon.Register[owner]

type owner struct{ name, actor string }

// Owner is what is known of whose a host is.
type Owner struct {
	Node  cluster.NodeID `json:"node"`
	Owner string         `json:"owner"` // "user:ann"
	Actor string         `json:"actor"` // who said so
	At    cluster.HLC    `json:"at"`
}

// setOwner folds whose a host is; the latest event decides. It reports false if the event
// cannot be what it says.
func (os owners) setOwner(e *event.Event, b event.HostOwnerSet) bool {
	if b.Check() != nil {
		return false
	}
	o := os[b.Node]
	o.Set(canon.KeyOf(e), owner{name: b.Owner, actor: canon.Clip(b.Actor, maxActor)})
	os[b.Node] = o
	return true
}

// Owners lists the hosts that are somebody's, by name.
func (os owners) Owners() []Owner {
	out := make([]Owner, 0, len(os))
	for _, n := range slices.Sorted(maps.Keys(os)) {
		if o := os[n]; o.V.name != "" {
			out = append(out, Owner{Node: n, Owner: o.V.name, Actor: o.V.actor, At: o.At.HLC})
		}
	}
	return out
}

// Owner says whose a host is; empty: nobody's in particular.
func (os owners) Owner(n cluster.NodeID) string { return os[n].V.name }

func (os owners) write(w *canon.Writer) {
	w.Count(len(os))
	for _, n := range slices.Sorted(maps.Keys(os)) {
		o := os[n]
		w.Node(n)
		w.Key(o.At)
		w.Text(o.V.name)
		w.Text(o.V.actor)
		w.Flush()
	}
}

func (os owners) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		b := event.HostOwnerSet{Node: r.Node(false)}
		at := r.Key()
		b.Owner, b.Actor = r.Text(cluster.MaxPrincipal), r.Text(maxActor)
		r.Check(r.OK() && b.Check() == nil, "owner of a host")
		os[b.Node] = canon.Register[owner]{At: at, V: owner{name: b.Owner, actor: b.Actor}}
	}
}
