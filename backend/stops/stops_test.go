package stops

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// memory is a log of one chain.
type memory struct {
	events []event.Event
	state  *state.State
	reads  int
}

func (m *memory) View(f func(*state.State)) { f(m.state) }
func (m *memory) Oldest() event.Cursor      { return event.Cursor{} }
func (m *memory) After(_ context.Context, _ event.Cursor, f store.Filter) iter.Seq2[event.Event, error] {
	m.reads++
	return func(yield func(event.Event, error) bool) {
		for _, e := range m.events {
			if f.Match(e) && !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) add(t *testing.T, body event.MemberHealth) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(len(m.events) + 1)
	e := event.Event{
		Source: event.SourceID{Node: "n1", Inc: 1}, Seq: n, HLC: cluster.NewHLC(time.Unix(int64(1e9+n), 0), 0), Kind: event.KindMemberHealth, Body: text,
	}
	m.events = append(m.events, e)
	m.state.Apply(e)
}

// TestStops: what the log says counts for a host of which nothing was heard, as long as
// it is the last that the log says of it, and is read once.
func TestStops(t *testing.T) {
	log := &memory{state: state.New()}
	members := map[cluster.NodeID]coord.MemberView{
		"n1": {Health: cluster.Alive, Heard: true}, "n2": {Health: cluster.Alive}, // itself
		"n3": {Health: cluster.Joining}, "n4": {Health: cluster.Dead, Heard: true}, "n5": {Health: cluster.Suspect, Heard: true},
	}
	s := New(log, func() *coord.View {
		v := &coord.View{Self: "n2"}
		for _, n := range []cluster.NodeID{"n1", "n2", "n3", "n4", "n5"} {
			m := members[n]
			m.Node = n
			v.Members = append(v.Members, m)
		}
		return v
	})
	is := func(what, want string) {
		t.Helper()
		s.look(t.Context())
		got := ""
		for _, m := range s.View().Members {
			if m.Stopped {
				got += string(m.Node) + " "
				if m.Health != cluster.Dead {
					t.Errorf("%s: %s is %s", what, m.Node, m.Health)
				}
			}
		}
		if got != want {
			t.Errorf("%s: stopped %q, want %q", what, got, want)
		}
	}
	is("an empty log", "")
	for _, n := range []cluster.NodeID{"n1", "n2", "n3", "n5"} {
		log.add(t, event.MemberHealth{Node: n, From: cluster.Alive, To: cluster.Dead, Stopped: true})
	}
	log.add(t, event.MemberHealth{Node: "n4", From: cluster.Suspect, To: cluster.Dead})
	is("said so", "n3 ") // n1 and n5 are heard, n4 fell silent
	reads := log.reads
	is("still", "n3 ")
	if log.reads != reads {
		t.Error("the same event is read again")
	}
	log.add(t, event.MemberHealth{Node: "n3", From: cluster.Dead, To: cluster.Alive})
	is("it is back, as the log says", "")
	log.add(t, event.MemberHealth{Node: "n3", From: cluster.Alive, To: cluster.Dead})
	is("it fell silent", "")
	log.add(t, event.MemberHealth{Node: "n4", From: cluster.Alive, To: cluster.Dead, Stopped: true})
	is("nobody heard it here", "n4 ")
	members["n4"] = coord.MemberView{Health: cluster.Alive, Heard: true}
	is("it is heard", "")
}
