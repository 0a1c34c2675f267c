package scheduler

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
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

// TestRegistryHasBounds: who is let in from outside is logged as long as there is room,
// and not while a member would not understand it.
func TestRegistryHasBounds(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		defer func() { _ = stop() }()
		key := bytes.Repeat([]byte{1}, 32)
		w := event.WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: "user:ann"}
		tok := event.AccessSet{ID: "aaaaaaaaaaaaaaaa", Hash: cluster.Hash{1}, Owner: "user:ann", Roles: []string{"work"}, Expires: 1}
		for _, b := range []event.Register{w, tok, event.WorkerRevoked{Worker: w.Worker}} {
			if err := r.s.Set(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		r.log.View(func(st *state.State) {
			if x, ok := st.Outside().Worker(w.Worker); !ok || !x.Revoked {
				t.Errorf("worker %+v", x)
			}
			for i := range cluster.MaxAccessTokens - 1 { // as if they had been logged
				b := tok
				b.ID = "b" + strings.Repeat("a", 11) + string([]byte{'a' + byte(i>>12&15), 'a' + byte(i>>8&15), 'a' + byte(i>>4&15), 'a' + byte(i&15)})
				st.Outside().Access(&event.Event{Source: event.SourceID{Node: "b", Inc: 1}, Seq: uint64(i + 1), HLC: 1}, b)
			}
		})
		other := tok
		other.ID = "cccccccccccccccc"
		if err := r.s.Set(t.Context(), other); !errors.Is(err, ErrMany) {
			t.Errorf("one token more than there may be: %v", err)
		}
		tok.Roles = nil
		if err := r.s.Set(t.Context(), tok); err != nil {
			t.Errorf("one that is there: %v", err)
		}
		r.unaware.Store(new(cluster.NodeID("n3")))
		for _, b := range []event.Register{w, tok, event.WorkerRevoked{Worker: w.Worker}} {
			if err := r.s.Set(t.Context(), b); err == nil || !strings.Contains(err.Error(), "the skein of n3 is too old for "+string(b.Kind())) {
				t.Errorf("%s while n3 is too old: %v", b.Kind(), err)
			}
		}
		w.Worker = "n1"
		if err := r.s.Set(t.Context(), w); !errors.Is(err, job.ErrSpec) {
			t.Errorf("a host as an outside worker: %v", err)
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
