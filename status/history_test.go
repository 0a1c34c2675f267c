package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestReplay follows a job through its events: what the tables have no edge for
// changes nothing.
func TestReplay(t *testing.T) {
	id := cluster.NewJobID("uid:1", "k")
	h := replay{
		jobEdges: cluster.JobEdges(), chunkEdges: cluster.ChunkEdges(), chunks: true,
		chunkStates: map[int]cluster.ChunkState{}, open: map[int]map[int]bool{},
	}
	seq := uint64(0)
	say := func(kind cluster.Kind, body any) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		h.event(id, cluster.Event{Source: cluster.SourceID{Node: "n1", Inc: 1}, Seq: seq, HLC: cluster.NewHLC(time.Unix(int64(seq), 0), 0), Term: 3, Kind: kind, Body: b})
	}
	try := func(chunk, attempt int) cluster.ChunksAssigned {
		return cluster.ChunksAssigned{Job: id, Assignments: []cluster.Assignment{{Chunk: chunk, Attempt: attempt, Worker: "n2"}}}
	}
	say(cluster.KindJobSubmitted, cluster.JobSubmitted{Job: id, Owner: "uid:1"})
	say(cluster.KindJobQueued, cluster.JobWaiting{Job: id, Reason: "no worker"})
	say(cluster.KindChunksAssigned, try(0, 1))
	say(cluster.KindChunksAssigned, try(0, 2)) // a copy
	say(cluster.KindChunkReclaimed, cluster.ChunkReclaimed{Job: id, Chunk: 0, Attempt: 1, Worker: "n2"})
	say(cluster.KindChunkFailed, cluster.ChunkFailed{Job: id, Chunk: 0, Attempt: 2, Worker: "n2", Reason: "exit 3"})
	say(cluster.KindChunksAccepted, cluster.ChunksAccepted{Job: id, Accepts: []cluster.Accept{{Chunk: 0, Attempt: 1, Worker: "n2"}}})
	say(cluster.KindChunksAccepted, cluster.ChunksAccepted{Job: id, Accepts: []cluster.Accept{{Chunk: 0, Attempt: 2, Worker: "n2"}}})
	say(cluster.KindChunkFailed, cluster.ChunkFailed{Job: id, Chunk: 1, Attempt: 1, Worker: "n2", Final: true, Parked: true})
	say(cluster.KindJobStopped, cluster.JobStopped{Job: id, Actor: "n1", Cause: cluster.StopDeadline})
	say(cluster.KindJobQueued, cluster.JobWaiting{Job: id})
	say(cluster.KindJobDone, cluster.JobDone{Job: id, State: cluster.JobTimeout, Reason: "deadline"})
	say(cluster.KindJobDone, cluster.JobDone{Job: id, State: cluster.JobCompleted})
	say(cluster.KindJobDone, cluster.JobDone{Job: "another", State: cluster.JobCompleted})
	var got []string
	for _, tr := range h.out.Transitions {
		what := "job"
		if tr.Chunk != nil {
			what = "chunk"
		}
		got = append(got, what+" "+tr.From+">"+tr.To+" "+tr.Reason)
	}
	want := []string{
		"job >pending ", "job pending>queued no worker", "job queued>running ", "chunk pending>assigned ",
		"chunk assigned>pending exit 3", "chunk pending>accepted ", "chunk pending>parked ",
		"job running>cancelling deadline", "job cancelling>timeout deadline",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range 2*api.MaxTransitions + 5 {
		h.add(api.Transition{})
	}
	h.trim()
	if n := len(h.out.Transitions); n != api.MaxTransitions || h.out.Omitted != api.MaxTransitions+5+len(want) {
		t.Errorf("%d changes, %d omitted", n, h.out.Omitted)
	}
}

// TestGroupBodies refuses what no group can be.
func TestGroupBodies(t *testing.T) {
	r := start(t, newFake(), nil)
	for name, c := range map[string]struct{ path, body string }{
		"name":     {"/v1/groups/UPPER", `{"members":["a"]}`},
		"long":     {"/v1/groups/" + strings.Repeat("x", cluster.MaxGroupName+1), `{"members":["a"]}`},
		"blank":    {"/v1/groups/g", `{"members":["a b"]}`},
		"empty":    {"/v1/groups/g", `{"members":[""]}`},
		"too many": {"/v1/groups/g", `{"members":[` + manyMembers(cluster.MaxGroupMembers+1) + `]}`},
		"type":     {"/v1/groups/g", `{"members":"a"}`},
		"unknown":  {"/v1/groups/g", `{"people":["a"]}`},
	} {
		if code, _, text := r.ask(t, http.MethodPut, c.path, c.body); code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400: %s", name, code, text)
		}
	}
	if code, _, text := r.ask(t, http.MethodPut, "/v1/groups/render", `{"members":[`+manyMembers(cluster.MaxGroupMembers)+`]}`); code != http.StatusOK {
		t.Errorf("the longest group: status %d, %s", code, text)
	}
}

func manyMembers(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprintf("uid:%0120d", i))
	}
	return strings.Join(names, ",")
}
