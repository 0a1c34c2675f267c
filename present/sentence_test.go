package present

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

func say(t *testing.T, kind event.Kind, body any) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return Sentence("n1", kind, text)
}

// TestSentences: every kind has one, as testdata has it.
func TestSentences(t *testing.T) {
	var got strings.Builder
	for _, k := range event.KindTable() {
		if sentences[k.Kind] == nil {
			t.Errorf("no sentence for %s", k.Kind)
		}
		fmt.Fprintf(&got, "%-18s  %s\n", k.Kind, say(t, k.Kind, k.Body))
	}
	const file = "testdata/sentences.txt"
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s differs (SKEIN_UPDATE=1 writes it anew):\n%s", file, got.String())
	}
}

func TestSentenceVariants(t *testing.T) {
	many := make([]job.Attempt, 0, 40)
	for i := range 30 {
		many = append(many, job.Attempt{Chunk: 29 - i, Number: 1, Worker: "n2"})
	}
	many = append(many, job.Attempt{Chunk: 40, Number: 1, Worker: "n3"})
	for want, c := range map[string]struct {
		kind event.Kind
		body any
	}{
		"n1 founded the cluster, address 10.77.0.1":                                           {event.KindMemberJoined, event.MemberJoined{Node: "n1", IP4: "10.77.0.1"}},
		"job j: chunks 0-29 to n2, 40 to n3":                                                  {event.KindChunksAssigned, event.ChunksAssigned{Job: "j", Assignments: many}},
		"job j: chunk 3 failed on n2, attempt 4: exit 3; it waits for an operator":            {event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: 3, Attempt: 4, Worker: "n2", Reason: "exit 3", Final: true, Parked: true}},
		"voters wanted: chosen by the holder, by uid:0@n1":                                    {event.KindVotersSet, event.VotersSet{Auto: true, Actor: "uid:0@n1"}},
		"voters wanted: n1, mode quorum, forced: n2, n3 left behind, by uid:0@n1":             {event.KindVotersSet, event.VotersSet{Voters: []cluster.NodeID{"n1"}, Mode: cluster.ModeQuorum, Forced: true, Previous: []cluster.NodeID{"n2", "n3"}, Actor: "uid:0@n1"}},
		"7 jobs forgotten: a, b, c, d, e and 2 more":                                          {event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{"a", "b", "c", "d", "e", "f", "g"}}},
		"group render was removed, by uid:0@n1":                                               {event.KindGroupSet, event.GroupSet{Group: "render", Actor: "uid:0@n1"}},
		"user ann is disabled, by uid:0@n1":                                                   {event.KindUserSet, event.UserSet{Name: "ann", Role: "viewer", Disabled: true, Actor: "uid:0@n1"}},
		"n4 is nobody's in particular, by uid:0@n1":                                           {event.KindHostOwnerSet, event.HostOwnerSet{Node: "n4", Actor: "uid:0@n1"}},
		"outside worker w-x is node:n1's, trusted as a host is, in zone outside, by uid:0@n1": {event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: "w-x", Owner: "node:n1", Trusted: true, Actor: "uid:0@n1"}},
		"access token k of user:ann is revoked, by uid:0@n1":                                  {event.KindAccessSet, event.AccessSet{ID: "k", Owner: "user:ann", Actor: "uid:0@n1"}},
		"job j is to end: deadline":                                                           {event.KindJobStopped, event.JobStopped{Job: "j", Cause: "deadline"}},
		"worker n1 begins chunks again, by uid:0@n1":                                          {event.KindWorkerDrained, event.WorkerDrained{Actor: "uid:0@n1"}},
		"service 127.0.0.1:80 on n1 is healthy again":                                         {event.KindOnionTarget, event.OnionTarget{Target: "127.0.0.1:80", Healthy: true}},
		"disk of n1: room for the log is out":                                                 {event.KindHostDisk, event.HostDisk{State: "out", Free: -1}},
		"n4 was removed, by uid:0@n1: \uFFFD[31mred\uFFFD":                                    {event.KindMemberRemoved, event.MemberRemoved{Node: "n4", Actor: "uid:0@n1", Reason: "\x1b[31mred\n"}},
		`other_kind: {"x":1}`:                                                                 {"other_kind", map[string]int{"x": 1}},
		`job_done: {"job":1}`:                                                                 {event.KindJobDone, map[string]int{"job": 1}},
		"term 7: n1 holds the lease, granted by n1, n2 of 3 voters":                           {event.KindTermStart, event.TermStart{Term: 7, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Grants: []cluster.NodeID{"n1", "n2"}, Previous: "n1"}},
		"n1 gave up the lease of term 7: shutdown":                                            {event.KindLeaseReleased, event.LeaseReleased{Term: 7, Reason: "shutdown"}},
		"an onion address is no longer served, by uid:0@n1":                                   {event.KindOnionSet, event.OnionSet{Removed: true, Actor: "uid:0@n1"}},
	} {
		if got := say(t, c.kind, c.body); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.kind, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	const id = "j5o4uvcdhdu5fftvtw674lt2ti4"
	for text, want := range map[string]string{
		"job " + id + ": chunk 1 of n1 counts":               "job j5o4uvcdh: chunk 1 of n1 counts",
		"run w" + id[1:] + " waits for l" + id[1:]:           "run w5o4uvcdh waits for l5o4uvcdh",
		"x" + id + " " + id + "x " + id[:26] + " J" + id[1:]: "x" + id + " " + id + "x " + id[:26] + " J" + id[1:],
		"": "",
	} {
		if got := Brief(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzSentence(f *testing.F) {
	for _, k := range event.KindTable() {
		body, err := json.Marshal(k.Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(k.Kind), body)
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		s := Sentence("n1", event.Kind(kind), body)
		if strings.ContainsAny(s, "\n\r\t\x1b") || !utf8.ValidString(s) {
			t.Fatalf("%q", s)
		}
	})
}
