package history

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestReplay follows a job through its events: what the tables have no edge for
// changes nothing.
func TestReplay(t *testing.T) {
	id := job.NewID("uid:1", "k")
	const limit = 1000
	h := New(id, 0, true, limit)
	seq := uint64(0)
	say := func(kind event.Kind, body any) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		h.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: seq, HLC: cluster.NewHLC(time.Unix(int64(seq), 0), 0), Term: 3, Kind: kind, Body: b})
	}
	try := func(chunk, attempt int) event.ChunksAssigned {
		return event.ChunksAssigned{Job: id, Assignments: []job.Attempt{{Chunk: chunk, Number: attempt, Worker: "n2"}}}
	}
	say(event.KindJobSubmitted, event.JobSubmitted{Job: id, Owner: "uid:1"})
	say(event.KindJobQueued, event.JobWaiting{Job: id, Reason: "no worker"})
	say(event.KindChunksAssigned, try(0, 1))
	say(event.KindChunksAssigned, try(0, 2)) // a copy
	say(event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: 0, Attempt: 1, Worker: "n2", Reason: "worker is lost"})
	say(event.KindChunksAssigned, try(0, 2)) // by the next holder, which takes it over
	say(event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: 0, Attempt: 2, Worker: "n2", Reason: "exit 3"})
	say(event.KindChunksAccepted, event.ChunksAccepted{Job: id, Accepts: []event.Accept{{Chunk: 0, Attempt: 1, Worker: "n2"}}})
	say(event.KindChunksAccepted, event.ChunksAccepted{Job: id, Accepts: []event.Accept{{Chunk: 0, Attempt: 2, Worker: "n2"}}})
	say(event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: 0, Attempt: 3, Worker: "n3", Reason: "a copy was accepted"})
	say(event.KindChunkFailed, event.ChunkFailed{Job: id, Chunk: 1, Attempt: 1, Worker: "n2", Final: true, Parked: true})
	say(event.KindJobStopped, event.JobStopped{Job: id, Actor: "n1", Cause: job.StopDeadline})
	say(event.KindJobQueued, event.JobWaiting{Job: id})
	say(event.KindJobDone, event.JobDone{Job: id, State: job.TimedOut, Reason: "deadline"})
	say(event.KindJobDone, event.JobDone{Job: id, State: job.Completed})
	say(event.KindJobDone, event.JobDone{Job: "another", State: job.Completed})
	var got []string
	for _, tr := range h.changes {
		what := "job"
		if tr.Chunk != nil {
			what = "chunk"
		}
		got = append(got, what+" "+tr.From+">"+tr.To+" "+tr.Reason)
	}
	want := []string{
		"job >pending ", "job pending>queued no worker", "job queued>running ", "chunk pending>assigned ",
		"chunk assigned>assigned a copy: another attempt goes on", "chunk assigned>assigned worker is lost",
		"chunk assigned>pending exit 3", "chunk pending>accepted ", "chunk accepted>accepted a copy was accepted", "chunk pending>parked ",
		"job running>cancelling deadline", "job cancelling>timeout deadline",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for range 2*limit + 5 {
		h.add(Change{})
	}
	if latest, omitted := h.Changes(); len(latest) != limit || omitted != limit+5+len(want) {
		t.Errorf("%d changes, %d omitted", len(latest), omitted)
	}
}
