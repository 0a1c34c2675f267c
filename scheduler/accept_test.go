package scheduler

import (
	"bytes"
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/trust"
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

// Each term has a salt of its own, which nobody chose.
func TestSaltOfTerms(t *testing.T) {
	o, err := Options{
		Self: "a", Log: newMemLog("a"), MayAct: func(cluster.Term) bool { return true },
		Dial: func(context.Context, cluster.NodeID) (net.Conn, error) { return nil, net.ErrClosed }, Now: func() time.Duration { return 0 },
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := o.Salt(), o.Salt(); a == b || a == (trust.Salt{}) {
		t.Errorf("two terms have the salts %x and %x", a, b)
	}
	var made []byte
	o.Salt = func() trust.Salt {
		made = append(made, byte(len(made)+1))
		return trust.Salt(bytes.Repeat(made[len(made)-1:], 32))
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for term := range cluster.Term(3) {
		s.newTerm(term + 1)
	}
	if len(made) != 3 {
		t.Errorf("three terms asked for %d salts", len(made))
	}
}
