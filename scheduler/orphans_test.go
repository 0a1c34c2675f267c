package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
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
		stray := stream.Ref{Job: id, Chunk: 5, Attempt: 7}
		b.mu.Lock()
		lost := b.queue[0].ref
		b.queue = append(b.queue[1:], work{stray, 10})
		b.mu.Unlock()
		r.until(2*queryEvery+time.Second, "both orphans found", func() bool {
			return r.log.count(cluster.KindChunkReclaimed) == 1 && !slices.Contains(b.runs(), stray)
		})
		if n := r.metric("skein_worker_notices_total"); n != 1 {
			t.Errorf("%g notices, want one of the stray", n)
		}
		wantDone(t, r.ended(id, 5*time.Minute))
		if n := r.log.count(cluster.KindChunkFailed); n != 0 {
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
		if n := r.log.count(cluster.KindChunkReclaimed); n != 0 {
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
