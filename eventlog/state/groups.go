package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// group is a register; members are sorted and never changed. Without members
// there is no such group.
type group struct {
	actor   string
	members []string
}

// Group is what is known of a group of users.
type Group struct {
	Name    string      `json:"name"`
	Members []string    `json:"members"` // sorted; not to be changed
	Actor   string      `json:"actor"`   // who set it last
	At      cluster.HLC `json:"at"`
}

// groupSet folds the members of a group; the latest event decides.
func (s *State) groupSet(e *event.Event, b event.GroupSet) {
	if b.Check() != nil {
		s.malformed++
		return
	}
	g := s.groups[b.Group]
	g.set(keyOf(e), group{actor: clip(b.Actor, maxActor), members: b.Members})
	s.groups[b.Group] = g
}

// Groups returns the groups that have members, by name.
func (s *State) Groups() []Group {
	out := make([]Group, 0, len(s.groups))
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		if g := s.groups[name]; len(g.v.members) > 0 {
			out = append(out, Group{Name: name, Members: g.v.members, Actor: g.v.actor, At: g.at.hlc})
		}
	}
	return out
}

// Group returns one group; false if it has no members.
func (s *State) Group(name string) (Group, bool) {
	g, ok := s.groups[name]
	if !ok || len(g.v.members) == 0 {
		return Group{}, false
	}
	return Group{Name: name, Members: g.v.members, Actor: g.v.actor, At: g.at.hlc}, true
}

func (s *State) encodeGroups(e *encoder) {
	e.count(len(s.groups))
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		e.text(name)
		e.key(g.at)
		e.text(g.v.actor)
		e.count(len(g.v.members))
		for _, m := range g.v.members {
			e.text(m)
		}
		e.flush(hashBuffer)
	}
}

func (d *decoder) groups(s *State) {
	for n := d.count(); n > 0 && d.err == nil; n-- {
		b := event.GroupSet{Group: d.text(cluster.MaxGroupName)}
		at := d.key()
		b.Actor = d.text(maxActor)
		for n := d.count(); n > 0 && d.err == nil; n-- {
			b.Members = append(b.Members, d.text(cluster.MaxPrincipal))
		}
		d.check(b.Check() == nil, "group")
		s.groups[b.Group] = stamped[group]{at: at, v: group{actor: b.Actor, members: b.Members}}
	}
}
