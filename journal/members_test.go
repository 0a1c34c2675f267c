package journal

import (
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// TestMembers: a holder writes what changed while nobody held the lease, then
// each change, and nothing before or after its term.
func TestMembers(t *testing.T) {
	var wrote []string
	m := NewMembers(func(drafts []event.Draft) {
		for _, d := range drafts {
			b, ok := d.Body.(event.MemberHealth)
			if !ok || d.Kind != event.KindMemberHealth {
				t.Fatalf("%+v", d)
			}
			text := fmt.Sprintf("%s %s->%s", b.Node, b.From, b.To)
			if b.Stopped {
				text += " stopped"
			}
			wrote = append(wrote, text)
		}
	})
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(wrote, want) {
			t.Errorf("%s: wrote %q, want %q", what, wrote, want)
		}
		wrote = nil
	}
	m.Changed("n1", Belief{Health: cluster.Suspect})
	expect("not holding")
	// n1, the former holder, died; n2 holds now and was dead to its predecessor;
	// n3 was heard by neither yet; n4 is new; n5 was alive and was not heard yet.
	m.Begin(
		map[cluster.NodeID]cluster.Health{"n1": cluster.Alive, "n2": cluster.Dead, "n5": cluster.Alive},
		map[cluster.NodeID]Belief{
			"n1": {Health: cluster.Suspect}, "n2": {Health: cluster.Alive}, "n3": {Health: cluster.Joining}, "n4": {Health: cluster.Alive}, "n5": {Health: cluster.Joining},
		},
	)
	expect("new holder", "n1 alive->suspect", "n2 dead->alive", "n4 joining->alive")
	m.Changed("n1", Belief{Health: cluster.Suspect}) // believed before, reported late
	m.Changed("n1", Belief{Health: cluster.Dead})
	m.Changed("n5", Belief{Health: cluster.Alive})
	m.Changed("n3", Belief{Health: cluster.Joining})
	m.Changed("n3", Belief{Health: cluster.Dead})
	m.Changed("n5", Belief{Health: cluster.Dead, Stopped: true})
	m.Changed("n4", Belief{Health: cluster.Suspect, Stopped: true}) // nobody stops and is suspect
	expect("holding", "n1 suspect->dead", "n3 joining->dead", "n5 alive->dead stopped", "n4 alive->suspect")
	m.End()
	m.Changed("n4", Belief{Health: cluster.Dead})
	expect("lost")
	m.Begin(nil, map[cluster.NodeID]Belief{"n4": {Health: cluster.Dead, Stopped: true}})
	expect("again, with an empty log", "n4 joining->dead stopped")
}
