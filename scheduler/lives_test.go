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
