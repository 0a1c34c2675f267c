package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// TestReservations: slots that are kept for one owner go to nobody else, who is told why, until the
// reservation ends by itself; more than half of a zone is refused, and what a member would not
// understand.
func TestReservations(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		for _, w := range []*fakeWorker{a, b, c} {
			w.slots, w.delay = 2, time.Hour
		}
		r.s.SetZones(map[cluster.NodeID]string{a.node: "eu", b.node: "eu", c.node: "eu"})
		stop := r.run(1)
		defer func() { _ = stop() }()
		time.Sleep(5 * time.Second)
		set := event.ReservationSet{Name: "nightly", Owner: "uid:2", Zone: "eu", Slots: 4, Until: time.Now().Add(time.Hour).Unix(), Actor: "uid:0@a"}
		if err := r.s.Set(t.Context(), set); !errors.Is(err, job.ErrSpec) {
			t.Errorf("4 of 6 slots: %v", err)
		}
		set.Slots = 2
		if err := r.s.Set(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		runs := func() (n int) {
			for _, w := range []*fakeWorker{a, b, c} {
				n += len(w.runs())
			}
			return n
		}
		id := r.submitSpec(testSpec("mine", 20)) // of uid:1
		time.Sleep(5 * time.Second)
		if n := runs(); n != 4 {
			t.Errorf("%d slots of 6 run what is not uid:2's, want 4", n)
		}
		why, err := r.s.Explain(t.Context(), id)
		if err != nil || why.Why.Main() != eligible.Reserved {
			t.Errorf("%+v: %v", why, err)
		}
		if _, err := r.s.Submit(t.Context(), testSpec("theirs", 2), "uid:2", WaitLocal, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		n := 0
		for _, w := range []*fakeWorker{a, b, c} {
			w.mu.Lock()
			for _, owner := range w.owners {
				if owner == "uid:2" {
					n++
				}
			}
			w.mu.Unlock()
		}
		if n != 2 {
			t.Errorf("%d chunks of uid:2 run, want 2: what is kept is for them", n)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		if err := r.s.Set(t.Context(), set); err == nil {
			t.Error("reserved though a member does not know what that is")
		}
	})
}
