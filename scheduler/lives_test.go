package scheduler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestLogHearsOfWorkers: who comes, what runs for long and who is lost is in the
// log; while nothing happens nothing is written, and not where a member would not
// understand it.
func TestLogHearsOfWorkers(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		defer func() { _ = stop() }()
		time.Sleep(5 * time.Second)
		if n := r.log.count(event.KindWorkerUp); n != 3 {
			t.Errorf("%d workers are up", n)
		}
		before := r.log.len()
		time.Sleep(10 * time.Minute)
		if n := r.log.len(); n != before {
			t.Errorf("%d events while nothing happened", n-before)
		}
		b.kill()
		time.Sleep(30 * time.Second)
		if n := r.log.count(event.KindWorkerDown); n != 1 {
			t.Fatalf("%d workers are down", n)
		}
		var down event.WorkerDown
		if e := r.log.last(event.KindWorkerDown); e.Term != 0 || json.Unmarshal(e.Body, &down) != nil || down.Worker != "b" {
			t.Errorf("%+v", e)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		c.kill()
		time.Sleep(time.Minute)
		if n := r.log.count(event.KindWorkerDown); n != 1 {
			t.Errorf("%d workers are down by a log that not all understand", n)
		}
	})
}

// TestLogHearsOfMoreTime: what a chunk was answered that asked for more time is in the log,
// once, unless a member would not understand it.
func TestLogHearsOfMoreTime(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		a.asks, b.asks, c.asks = true, true, true
		a.delay, b.delay, c.delay = time.Minute, time.Minute, time.Minute
		stop := r.run(1)
		defer func() { _ = stop() }()
		spec := testSpec("more", 1)
		spec.HardTimeoutSeconds = spec.TimeoutSeconds + 7
		id := r.submitSpec(spec)
		time.Sleep(20 * time.Second)
		var got event.ChunkExtended
		if e := r.log.last(event.KindChunkExtended); json.Unmarshal(e.Body, &got) != nil || r.log.count(event.KindChunkExtended) != 1 {
			t.Fatalf("%d events", r.log.count(event.KindChunkExtended))
		}
		want := event.ChunkExtended{Job: id, Attempt: 1, Worker: got.Worker, AskedSeconds: 9e9, Seconds: 7, Reason: "it is large"}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		time.Sleep(time.Minute)
		r.submitSpec(testSpec("denied", 1))
		time.Sleep(20 * time.Second)
		if n := r.log.count(event.KindChunkExtended); n != 1 {
			t.Errorf("%d events in a log that not all understand", n)
		}
	})
}

// TestAttemptsGoOn: what a chunk saved is in the log once, the next attempt is given it, and one
// of a job without checkpoints is given nothing.
func TestAttemptsGoOn(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		saved := job.Checkpoint{File: job.File{Hash: cluster.Hash{7}, Size: 5}, Done: 3}
		for _, w := range []*fakeWorker{a, b, c} {
			w.saves, w.delay = &saved, time.Minute
		}
		stop := r.run(1)
		defer func() { _ = stop() }()
		spec := testSpec("saves", 1)
		spec.Checkpoint = true
		id := r.submitSpec(spec)
		r.submitSpec(testSpec("other", 1))
		time.Sleep(20 * time.Second)
		var got event.ChunkCheckpointed
		if e := r.log.last(event.KindChunkSaved); json.Unmarshal(e.Body, &got) != nil || r.log.count(event.KindChunkSaved) != 1 {
			t.Fatalf("%d events", r.log.count(event.KindChunkSaved))
		}
		if got.Job != id || got.Attempt != 1 || got.Checkpoint != saved {
			t.Errorf("%+v", got)
		}
		for _, w := range []*fakeWorker{a, b, c} {
			if w.node == got.Worker {
				w.kill()
			}
		}
		time.Sleep(20 * time.Second)
		var resume []stream.Resume
		for _, w := range []*fakeWorker{a, b, c} {
			w.mu.Lock()
			resume = append(resume, w.resume...)
			w.mu.Unlock()
		}
		if len(resume) != 1 || resume[0] != (stream.Resume{Chunk: 0, Checkpoint: saved}) {
			t.Errorf("given %+v", resume)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		spec = testSpec("unaware", 1)
		spec.Checkpoint = true
		if _, err := r.s.Submit(t.Context(), spec, "uid:1", WaitLocal, true); err == nil {
			t.Error("a job with checkpoints was taken though a member does not know them")
		}
	})
}
