package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// sets are the registers that a scheduler was to log.
type sets []event.Register

func (s *sets) Set(_ context.Context, b event.Register) error {
	*s = append(*s, b)
	return nil
}

// TestDirectory: it is made of the log, and again only when a user has changed.
func TestDirectory(t *testing.T) {
	s := state.New()
	seq := uint64(0)
	add := func(kind event.Kind, body any) {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		s.Apply(event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: seq, HLC: cluster.HLC(seq), Term: 1, Kind: kind, Body: text})
	}
	key := func(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }
	u := &users{log: &fakeLog{state: s}}
	add(event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Keys: [][]byte{key(1)}, UIDs: []uint64{7}})
	d := u.Directory()
	if x, k := d.Key(access.KeyID(key(1))); x.Name != "ann" || x.Role != access.Submitter || !bytes.Equal(k, key(1)) || d.UID(7).Name != "ann" {
		t.Errorf("%+v", x)
	}
	add(event.KindGroupSet, event.GroupSet{Group: "g", Members: []string{"user:ann"}})
	if u.Directory() != d {
		t.Error("made again although nobody changed")
	}
	for want, set := range map[string]event.UserSet{
		"key " + access.KeyID(key(1)) + " is user ann's": {Name: "bob", Keys: [][]byte{key(1)}},
		"uid 7 is user ann's":                            {Name: "bob", UIDs: []uint64{7}},
		"":                                               {Name: "ann", Keys: [][]byte{key(1)}, UIDs: []uint64{7}},
	} {
		if got := takenKey(s.Users(), set); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// What is said again is not logged again, whoever says it.
	var logged sets
	u.sched = &logged
	for _, set := range []event.UserSet{
		{Name: "ann", Role: "submitter", Keys: [][]byte{key(1)}, UIDs: []uint64{7}},
		{Name: "ann", Role: "viewer", Keys: [][]byte{key(1)}, UIDs: []uint64{7}},
		{Name: "eve", Role: "viewer"},
		{Name: "ann", Role: "submitter", Keys: [][]byte{key(1)}, UIDs: []uint64{7}, Disabled: true},
	} {
		if _, err := u.setUser(t.Context(), forward.Asker{Actor: "user:olga"}, set); err != nil {
			t.Error(err)
		}
	}
	if len(logged) != 3 {
		t.Errorf("logged: %+v", logged)
	}
	add(event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Disabled: true, Keys: [][]byte{key(1)}})
	if x, _ := u.Directory().Key(access.KeyID(key(1))); !x.Disabled {
		t.Errorf("%+v is not disabled", x)
	}
}
