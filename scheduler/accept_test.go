package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestOwnersOfHostsComeFromTheLog: a host accepts its owner's jobs by default, and
// who that is an event says. A worker of an earlier version accepts everybody's.
func TestOwnersOfHostsComeFromTheLog(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		a.accept, b.accept = &job.Acceptance{}, &job.Acceptance{Accept: job.AcceptNone}
		stop := r.run(1)
		defer func() { _ = stop() }()
		accepts := func() (out []string) {
			for _, w := range r.s.Workers() {
				out = append(out, w.Owner+" "+w.Accept.String())
			}
			return out
		}
		time.Sleep(3 * time.Second)
		if got, want := accepts(), []string{"node:a public", "node:b none", "node:c public"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for _, n := range []event.HostOwnerSet{{Node: "a", Owner: "user:ann"}, {Node: "c", Owner: "user:ann"}} {
			if err := r.s.Set(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		if got, want := accepts(), []string{"user:ann owner", "node:b none", "user:ann public"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		r.ended(r.submit("k", 12), time.Minute) // of uid:1
		if len(a.owners)+len(b.owners) > 0 || len(c.owners) < 12 || c.owners[0] != "uid:1" {
			t.Errorf("chunks of %v at a, %v at b, %v at c", a.owners, b.owners, c.owners)
		}
	})
}
