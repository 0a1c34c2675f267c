package scheduler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
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
