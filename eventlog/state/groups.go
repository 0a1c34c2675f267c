package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// group is a register; members are sorted and never changed. Without members
// there is no such group.
type group struct {
	actor   string
	members []string
}

// groups are the groups of users, by name.
type groups map[string]canon.Register[group]

// Group is what is known of a group of users.
type Group struct {
	Name    string      `json:"name"`
	Members []string    `json:"members"` // sorted; not to be changed
	Actor   string      `json:"actor"`   // who set it last
	At      cluster.HLC `json:"at"`
}

// set folds the members of a group; the latest event decides. It reports false
// if the event cannot be what it says.
func (gs groups) set(e *event.Event, b event.GroupSet) bool {
	if b.Check() != nil {
		return false
	}
	g := gs[b.Group]
	g.Set(canon.KeyOf(e), group{actor: canon.Clip(b.Actor, maxActor), members: b.Members})
	gs[b.Group] = g
	return true
}

// Groups returns the groups that have members, by name.
func (gs groups) Groups() []Group {
	out := make([]Group, 0, len(gs))
	for _, name := range slices.Sorted(maps.Keys(gs)) {
		if g, ok := gs.Group(name); ok {
			out = append(out, g)
		}
	}
	return out
}

// Group returns one group; false if it has no members.
func (gs groups) Group(name string) (Group, bool) {
	g, ok := gs[name]
	if !ok || len(g.V.members) == 0 {
		return Group{}, false
	}
	return Group{Name: name, Members: g.V.members, Actor: g.V.actor, At: g.At.HLC}, true
}

func (gs groups) write(w *canon.Writer) {
	w.Count(len(gs))
	for _, name := range slices.Sorted(maps.Keys(gs)) {
		g := gs[name]
		w.Text(name)
		w.Key(g.At)
		w.Text(g.V.actor)
		w.Count(len(g.V.members))
		for _, m := range g.V.members {
			w.Text(m)
		}
		w.Flush()
	}
}

func (gs groups) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		b := event.GroupSet{Group: r.Text(cluster.MaxGroupName)}
		at := r.Key()
		b.Actor = r.Text(maxActor)
		for n := r.Count(); n > 0 && r.OK(); n-- {
			b.Members = append(b.Members, r.Text(cluster.MaxPrincipal))
		}
		r.Check(b.Check() == nil, "group")
		gs[b.Group] = canon.Register[group]{At: at, V: group{actor: b.Actor, members: b.Members}}
	}
}
