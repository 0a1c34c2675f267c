package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
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
			KindJobSubmitted, KindJobQueued, KindJobWaits, KindJobZones, KindJobStopped, KindJobDone, KindJobsForgotten, KindStepsStarted, KindChunksStarted, KindChunksAssigned, KindChunkFailed,
			KindChunkReclaimed, KindChunkExtended, KindChunkSaved, KindChunksReleased, KindChunkAccepted, KindChunksAccepted,
		}},
		{Subject{Job: "j2kq"}, nil},
		{Subject{Job: "uid:1000@n1"}, nil},
		{Subject{Worker: "n2"}, []Kind{KindJobDone, KindWorkerUp, KindWorkerDown, KindChunksStarted, KindChunksAssigned, KindChunkFailed, KindChunkReclaimed, KindChunkExtended, KindChunkSaved}},
		{Subject{Worker: "n3"}, []Kind{KindChunkAccepted, KindChunksAccepted}},
		{Subject{Worker: string(cluster.OutsideID(bytes.Repeat([]byte{0x3f, 0x01, 0x9a, 0x77}, 8)))}, []Kind{KindWorkerEnrolled, KindWorkerRevoked}},
		{Subject{Job: "j2kq6", Worker: "n3"}, []Kind{KindChunkAccepted, KindChunksAccepted}},
		{Subject{Job: "j2kq6", User: "uid:0"}, nil},
		{Subject{User: "uid:1000"}, []Kind{KindJobSubmitted, KindJobStopped, KindFlowSubmitted, KindFlowStopped, KindFlowRetried, KindScheduleSet, KindLoadRun, KindGroupSet, KindChunksReleased}},
		{Subject{User: "ann"}, []Kind{KindUserSet, KindHostOwnerSet, KindWorkerEnrolled, KindAccessSet, KindWorkerUp}},
		{Subject{User: "user:ann"}, []Kind{KindUserSet, KindHostOwnerSet, KindWorkerEnrolled, KindAccessSet, KindWorkerUp}},
		{Subject{User: "an"}, nil},
		{Subject{User: "render"}, nil},
		{Subject{User: "pi"}, nil}, // a job's name
		{Subject{Member: "ann"}, nil},
		{Subject{User: "uid:1000@n1"}, []Kind{KindJobSubmitted, KindJobStopped, KindFlowStopped, KindFlowRetried, KindScheduleSet, KindLoadRun, KindChunksReleased}},
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

// BenchmarkNamed looks for names in an event as most are.
func BenchmarkNamed(b *testing.B) {
	body := []byte(`{"job":"j2kq6wq3f7d5a","chunk":17,"attempt":1,"worker":"host-017","seconds":0.125,"result":{"iterations":1000,"metrics":` +
		`{"hits":{"n":1000,"mean":0.785,"m2":168.775,"min":0,"max":1}}}}`)
	e := Event{Source: SourceID{Node: "n1", Inc: 1}, Kind: KindChunkAccepted, Body: body}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		e.Named(func(Part, []byte) bool { n++; return true })
	}
	if n != 2*b.N {
		b.Error(n, b.N)
	}
}

// FuzzNamed holds what is found in a body against what encoding/json reads.
func FuzzNamed(f *testing.F) {
	f.Add([]byte(`{"job":"j","x":{"jobs":["a",["b"],{"q":"no"},"c"],"n":1},"worker" : "n1","owner":"u@n1","voters":["a"]}`))
	f.Add([]byte(`{"job":"\u0061\"b","actor":"@n1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := map[Name]bool{}
		e := Event{Kind: KindJobDone, Body: body}
		e.Named(func(p Part, text []byte) bool { got[Name{p, string(text)}] = true; return true })
		if !json.Valid(body) || !utf8.Valid(body) || bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) >= maxNesting {
			return
		}
		want := map[Name]bool{}
		read(json.NewDecoder(bytes.NewReader(body)), 0, want)
		if !maps.Equal(got, want) {
			t.Fatalf("%v in %s, want %v", got, body, want)
		}
	})
}

// read reads one value whose strings name p.
func read(d *json.Decoder, p Part, into map[Name]bool) {
	t, err := d.Token()
	if err != nil {
		return
	}
	switch v := t.(type) {
	case string:
		if p != 0 && v != "" {
			if p == PartUser && !strings.Contains(v, ":") {
				v = "user:" + v
			}
			into[Name{p, v}] = true
			if name, _, _ := strings.Cut(v, "@"); p == PartUser && name != "" {
				into[Name{p, name}] = true
			}
		}
	case json.Delim:
		for d.More() {
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return
				}
				p = Kind("").partOf([]byte(key.(string)))
			}
			read(d, p, into)
		}
		_, _ = d.Token() // the end
	}
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
