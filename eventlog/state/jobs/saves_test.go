package jobs

import (
	"math/rand/v2"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestCheckpoints: of the checkpoints of a chunk the furthest of its latest attempt counts, in
// whatever order events come; a later attempt that failed takes it away, an accepted result
// and the end of the job too.
func TestCheckpoints(t *testing.T) {
	w := &writer{}
	spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 60, Chunk: 10}
	spec.Checkpoint = true
	spec = spec.WithDefaults()
	save := func(at cluster.HLC, chunk, attempt int, done uint64, hash byte) *event.Event {
		return w.event(at, event.KindChunkSaved, event.ChunkCheckpointed{
			Job: "j", Chunk: chunk, Attempt: attempt, Worker: "w", Checkpoint: job.Checkpoint{File: job.File{Hash: cluster.Hash{hash}, Size: 3}, Done: done},
		})
	}
	fail := func(at cluster.HLC, chunk, attempt int) *event.Event {
		return w.event(at, event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: chunk, Attempt: attempt, Worker: "w", Reason: "exit 1"})
	}
	events := []*event.Event{
		w.event(1, event.KindJobSubmitted, event.JobSubmitted{Job: "j", Spec: spec, Owner: "uid:1", Chunks: 6}),
		save(2, 0, 1, 5, 1), save(3, 0, 1, 3, 2), // less
		save(4, 1, 1, 9, 3), save(5, 1, 2, 4, 4), // of a later attempt
		save(6, 2, 1, 5, 5), fail(7, 2, 1), // its own failure
		save(8, 3, 1, 5, 6), fail(9, 3, 2), // that of the next
		save(10, 4, 1, 5, 7),
		w.event(11, event.KindChunkAccepted, event.ChunkAccepted{Job: "j", Chunk: 4, Attempt: 1, Worker: "w", Result: job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{}}}),
		save(12, 4, 1, 9, 8),
		save(13, 5, 0, 5, 9), save(14, 6, 1, 5, 9), // no such attempt, no such chunk
		w.event(15, event.KindChunkSaved, event.ChunkCheckpointed{Job: "j", Chunk: 5, Attempt: 1, Worker: "w", Checkpoint: job.Checkpoint{File: job.File{Hash: cluster.Hash{9}, Size: job.MaxCheckpointBytes + 1}}}),
	}
	want := map[int]byte{0: 1, 1: 4, 2: 5}
	for seed := range uint64(50) {
		f := New()
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(events)) {
			f.Apply(events[i])
		}
		for chunk := range 6 {
			s, ok := Checkpoint(f, "j", chunk)
			if ok != (want[chunk] != 0) || ok && s.Hash != (cluster.Hash{want[chunk]}) {
				t.Fatalf("seed %d, chunk %d: %+v, %t", seed, chunk, s, ok)
			}
		}
		if kept := f.Kept(); len(kept) != 4 || len(Checkpoints(f)) != 4 || f.Malformed() != 3 || !HaveCheckpoints(f) {
			t.Fatalf("seed %d: kept %v, %d malformed", seed, kept, f.Malformed())
		}
		c := f.Clone()
		c.Apply(w.event(20, event.KindJobDone, event.JobDone{Job: "j", State: job.Cancelled}))
		if _, ok := Checkpoint(c, "j", 0); ok || len(c.Kept()) != 0 || len(Checkpoints(c)) != 0 {
			t.Fatal("checkpoints of a job that has ended are kept")
		}
	}
}
