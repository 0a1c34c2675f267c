package jobs

import (
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestFirstLogsAreKept: of a job that fails everywhere the first logs are kept, whatever
// order the events come in, and as long as the job is known.
func TestFirstLogsAreKept(t *testing.T) {
	w := &writer{}
	spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 10}.WithDefaults()
	events := []*event.Event{w.event(1, event.KindJobSubmitted, event.JobSubmitted{Job: "j", Spec: spec, Owner: "uid:1", Chunks: 100})}
	for i := range job.MaxLogs + 5 {
		events = append(events, w.event(cluster.HLC(10+i), event.KindChunkFailed, event.ChunkFailed{
			Job: "j", Chunk: i, Attempt: 1, Worker: "w", Reason: "exit 1", Log: cluster.Hash{byte(1 + i)},
		}))
	}
	events = append(events, w.event(500, event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: 1, Attempt: 2, Worker: "w", Reason: "nothing was said"}))
	forth, back := New(), New()
	for i := range events {
		forth.Apply(events[i])
		back.Apply(events[len(events)-1-i])
	}
	for name, f := range map[string]*Fold{"in order": forth, "backwards": back} {
		logs, kept := f.Logs("j"), f.Kept()
		if len(logs) != job.MaxLogs || len(kept) != job.MaxLogs {
			t.Fatalf("%s: %d logs, %d artefacts", name, len(logs), len(kept))
		}
		for i, l := range logs {
			if l.Chunk != i || l.Number != 1 || l.Worker != "w" || l.Job != "j" || l.Log != (cluster.Hash{byte(1 + i)}) || !kept[l.Log] {
				t.Errorf("%s: log %d is %+v", name, i, l)
			}
		}
	}
	done := w.event(600, event.KindJobDone, event.JobDone{Job: "j", State: job.Failed})
	forth.Apply(done)
	if len(forth.Kept()) != job.MaxLogs {
		t.Error("the logs went with the end of the job")
	}
	gone := w.event(700, event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{"j"}})
	forth.Apply(gone)
	if len(forth.Kept()) != 0 || Keeps(forth) {
		t.Error("logs of a forgotten job are kept")
	}
}
