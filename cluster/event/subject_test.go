package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

// TestSubject holds what the documents say of each kind against what is asked.
func TestSubject(t *testing.T) {
	about := func(s Subject) (kinds []Kind) {
		for _, k := range KindTable() {
			body, err := json.Marshal(k.Body)
			if err != nil {
				t.Fatal(err)
			}
			if s.Match(&Event{Source: SourceID{Node: "n9"}, Kind: k.Kind, Body: body}) {
				kinds = append(kinds, k.Kind)
			}
		}
		return kinds
	}
	for _, c := range []struct {
		s    Subject
		want []Kind
	}{
		{Subject{Job: "j2kq6"}, []Kind{
			KindJobSubmitted, KindJobQueued, KindJobStopped, KindJobDone, KindJobsForgotten, KindChunksAssigned, KindChunkFailed,
			KindChunkReclaimed, KindChunksReleased, KindChunkAccepted, KindChunksAccepted,
		}},
		{Subject{Job: "j2kq"}, nil},
		{Subject{Job: "uid:1000@n1"}, nil},
		{Subject{Worker: "n2"}, []Kind{KindJobDone, KindChunksAssigned, KindChunkFailed, KindChunkReclaimed}},
		{Subject{Worker: "n3"}, []Kind{KindChunkAccepted, KindChunksAccepted}},
		{Subject{Job: "j2kq6", Worker: "n3"}, []Kind{KindChunkAccepted, KindChunksAccepted}},
		{Subject{Job: "j2kq6", User: "uid:0"}, nil},
		{Subject{User: "uid:1000"}, []Kind{KindJobSubmitted, KindJobStopped, KindChunksReleased}},
		{Subject{User: "uid:1000@n1"}, []Kind{KindJobSubmitted, KindJobStopped, KindChunksReleased}},
		{Subject{User: "uid:1000@n2"}, nil},
		{Subject{User: "uid:100"}, nil},
		{Subject{Member: "n4"}, []Kind{
			KindIncarnation, KindMemberJoined, KindMemberRenewed, KindMemberRekeyed, KindMemberHealth, KindMemberLeft, KindMemberRemoved,
			KindMemberConflict, KindDuplicate, KindEquivocation, KindChainAhead, KindHostOwnerSet,
		}},
		{Subject{Member: "fork"}, nil},
	} {
		if got := about(c.s); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
	// What a host wrote of itself names no host; what it wrote as the holder is of others.
	facts := about(Subject{Member: "n9"})
	for _, k := range KindTable() {
		if slices.Contains(facts, k.Kind) == k.Kind.Authority() {
			t.Errorf("%s of n9: %t", k.Kind, !k.Kind.Authority())
		}
	}
	if !(Subject{}).Match(&Event{Kind: "x", Body: []byte("{")}) {
		t.Error("nothing was asked for, and an event does not match")
	}
}

func FuzzSubject(f *testing.F) {
	f.Add([]byte(`{"job":"j","x":{"jobs":["a","b"],"n":1},"worker":"n1"}`), "b")
	f.Add([]byte(`{"a":[{"job":`), "j")
	f.Add([]byte(`"job"`), "job")
	f.Fuzz(func(t *testing.T, body []byte, id string) {
		if id == "" {
			return
		}
		found := Subject{Job: id}.Match(&Event{Body: body})
		if want := job.ID(id); json.Valid(body) && !found {
			var b struct{ Job any }
			if json.Unmarshal(body, &b) == nil && fmt.Sprint(b.Job) == string(want) && exact(body) {
				t.Fatalf("%s is not found in %s", id, body)
			}
		}
	})
}

// exact reports whether a body's first field is written "job", and as a plain string.
func exact(body []byte) bool {
	var b map[string]json.RawMessage
	if json.Unmarshal(body, &b) != nil || len(b) != 1 {
		return false
	}
	var s string
	plain := json.Unmarshal(b["job"], &s) == nil
	return plain && string(b["job"]) == `"`+s+`"`
}
