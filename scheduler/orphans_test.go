package scheduler

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestOrphans lets a worker lose one attempt without a word, and run another
// that nobody asked for: long before any deadline the one runs elsewhere and the
// other is stopped.
func TestOrphans(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		for _, w := range r.workers {
			w.delay = 50 * time.Second
		}
		stop := r.run(1)
		id := r.submit("k", 6)
		r.until(5*time.Second, "work everywhere", func() bool { return len(a.runs()) == 2 && len(b.runs()) == 2 && len(c.runs()) == 2 })
		time.Sleep(3 * time.Second) // older than an assignment on its way
		stray := job.Attempt{Job: id, Chunk: 5, Number: 7}
		b.mu.Lock()
		lost := b.queue[0].ref
		b.queue = append(b.queue[1:], work{stray, 10})
		b.mu.Unlock()
		r.until(2*queryEvery+time.Second, "both orphans found", func() bool {
			return r.log.count(event.KindChunkReclaimed) == 1 && !slices.Contains(b.runs(), stray)
		})
		if n := r.metric("skein_worker_notices_total"); n != 1 {
			t.Errorf("%g notices, want one of the stray", n)
		}
		wantDone(t, r.ended(id, 5*time.Minute))
		if n := r.log.count(event.KindChunkFailed); n != 0 {
			t.Errorf("%d attempts failed", n)
		}
		if again := r.log.acceptsOf(id)[lost.Chunk]; again != 1 {
			t.Errorf("the lost chunk was accepted %d times", again)
		}
		_ = stop()
	})
}

// TestUnaskedListsSayNothing: what a worker lists without a question, or again,
// takes nothing from it.
func TestUnaskedListsSayNothing(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		for _, w := range r.workers {
			w.delay = 30 * time.Second
		}
		stop := r.run(1)
		id := r.submit("k", 6)
		r.until(5*time.Second, "work everywhere", func() bool { return len(b.runs()) == 2 })
		time.Sleep(3 * time.Second)
		for i := range uint64(20) {
			b.mu.Lock()
			b.out <- stream.Frame{Assigned: &stream.Assigned{Nonce: i}}
			b.mu.Unlock()
			time.Sleep(time.Second)
		}
		if n := r.log.count(event.KindChunkReclaimed); n != 0 {
			t.Errorf("%d attempts taken back", n)
		}
		wantDone(t, r.ended(id, time.Minute))
		_ = stop()
	})
}

// TestUnknownAppend: an append that failed comes through after all. The next run,
// of the same term, begins with what it held.
func TestUnknownAppend(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 30)
		r.log.mu.Lock()
		r.log.slow = true
		r.log.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		if err := stop(); err == nil || !strings.Contains(err.Error(), "outcome unknown") {
			t.Fatalf("the run ended: %v", err)
		}
		stop = r.run(1)
		wantDone(t, r.ended(id, time.Minute))
		for c, n := range r.log.acceptsOf(id) {
			if n != 1 {
				t.Errorf("chunk %d was accepted %d times", c, n)
			}
		}
		_ = stop()
	})
}

// TestDisputeIsSettled: two holders had accepted different results of a chunk. The
// next one has it computed again, elsewhere first, and settles it.
func TestDisputeIsSettled(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		spec := testSpec("k", 3).WithDefaults()
		id := job.NewID("uid:1", "k")
		accept := func(chunk int, mean float64) event.Draft {
			res := job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, Min: mean, Max: mean}}}
			return event.Draft{Term: 1, Kind: event.KindChunksAccepted, Body: event.ChunksAccepted{
				Job: id, Accepts: []event.Accept{{Chunk: chunk, Attempt: 1, Worker: "a", Result: res}},
			}}
		}
		if _, err := r.log.Append(t.Context(), []event.Draft{
			{Term: 1, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{Job: id, Spec: spec, Owner: "uid:1", Chunks: 3}},
			accept(0, 0), accept(1, 77), accept(1, 1), accept(2, 2),
		}); err != nil {
			t.Fatal(err)
		}
		if j := r.job(id); j.Disputed != 1 || j.Counts.Accepted != 3 {
			t.Fatalf("before: %+v", j)
		}
		stop := r.run(2)
		j := r.ended(id, time.Minute)
		wantDone(t, j)
		if m := j.Aggregates[0].Mean; m != 1 {
			t.Errorf("mean %g, want that of 0, 1, 2", m)
		}
		_ = stop()
	})
}

// TestRelease: a job that waits for an operator ends when its chunks were
// released and done, also under the next holder.
func TestRelease(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		var broken atomic.Bool
		broken.Store(true)
		for _, w := range r.workers {
			w.answer = func(ref job.Attempt, n uint64) []stream.Frame {
				if ref.Chunk == 4 && broken.Load() {
					return []stream.Frame{failure(ref, "no licence")}
				}
				return []stream.Frame{goodResult(ref, n)}
			}
		}
		stop := r.run(1)
		spec := testSpec("k", 12)
		spec.OnPartial, spec.Attempts = job.PartialWait, 2
		sub, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false)
		if err != nil {
			t.Fatal(err)
		}
		r.until(time.Minute, "a chunk given up", func() bool { j := r.job(sub.Job); return j.Counts.Failed == 1 && j.Counts.Accepted == 11 })
		time.Sleep(time.Hour)
		_ = stop()
		stop = r.run(2)
		if j := r.job(sub.Job); j.State != job.Running || r.log.count(event.KindJobQueued) == 0 {
			t.Fatalf("it does not wait: %+v", j)
		}
		broken.Store(false)
		if n, err := r.s.Release(t.Context(), sub.Job, "uid:0"); err != nil || n != 1 {
			t.Fatalf("released %d: %v", n, err)
		}
		wantDone(t, r.ended(sub.Job, time.Minute))
		if _, err := r.s.Release(t.Context(), sub.Job, "uid:0"); !errors.Is(err, ErrJobOver) {
			t.Errorf("release of an ended job: %v", err)
		}
		if _, err := r.s.Release(t.Context(), "jnone", "uid:0"); !errors.Is(err, ErrUnknownJob) {
			t.Errorf("release of no job: %v", err)
		}
		_ = stop()
	})
}
