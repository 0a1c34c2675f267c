package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestRollingUpgrade replaces the program of three hosts, one after the other,
// that SKEIN_OLD founded the cluster with: their state directories open, every
// mixture of versions elects, schedules and carries requests between hosts of
// both, the holder is lost while versions are mixed, and in the end every job
// has counted once and all logs verify.
func TestRollingUpgrade(t *testing.T) {
	old := os.Getenv("SKEIN_OLD")
	if old == "" {
		t.Skip("SKEIN_OLD names no older program: make prove-upgrade builds one")
	}
	program := filepath.Join(bin, "skein")
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		d.o.Exe = old
	})
	u := upgrade{t: t, d: d, want: map[job.ID]api.Job{}}
	u.work(ctx, "old")
	takeSnapshot(ctx, t, d.hosts[0])
	// The holder comes last, as docs/operations.md says, and is lost in between.
	for i, h := range slices.Backward(d.hosts) {
		d.o.Exe = program
		restart(ctx, t, h)
		clusterIs(ctx, t, d.hosts, 3, 3)
		u.versions(ctx, i)
		u.work(ctx, h.name+" upgraded")
		u.operate(ctx)
		u.letIn(ctx, h, i == 0)
		for _, to := range d.hosts {
			u.holds(ctx, to)
			u.work(ctx, h.name+" upgraded, held by "+to.name)
		}
		if i > 0 { // in a mixture: the holder is an old host, and dies
			u.holds(ctx, d.hosts[0])
			kill(t, d.hosts[0])
			d.o.Exe = old
			u.survive(ctx, h)
			start1(t, d.hosts[0])
			clusterIs(ctx, t, d.hosts, 3, 3)
		}
	}
	for id, before := range u.want {
		for _, h := range d.hosts {
			after, err := h.api.Job(ctx, string(id))
			if err != nil {
				t.Fatalf("job %s at %s: %v", id, h.name, err)
			}
			if !reflect.DeepEqual(after.Aggregates, before.Aggregates) || after.Iterations != before.Iterations {
				t.Errorf("job %s at %s: %+v, was %+v", id, h.name, after, before)
			}
		}
	}
	verifyAllHosts(ctx, t, d)
	t.Logf("%d jobs, each with the same result on all hosts at the end", len(u.want))
}

// upgrade is one rolling upgrade, and the finished jobs that it must not lose.
type upgrade struct {
	t    *testing.T
	d    *demo
	want map[job.ID]api.Job
}

// versions checks that the hosts from the i-th on run the program under test.
func (u *upgrade) versions(ctx context.Context, i int) {
	u.t.Helper()
	seen := map[string][]string{}
	for _, h := range u.d.hosts {
		v, err := h.api.Version(ctx)
		if err != nil {
			u.t.Fatal(err)
		}
		seen[v.Version] = append(seen[v.Version], h.name)
	}
	if want := min(i+1, 2); i > 0 && len(seen) != want {
		u.t.Fatalf("versions %v, want %d", seen, want)
	}
}

// work submits a job through every host, with a check of every result on
// another one, and waits for their ends.
func (u *upgrade) work(ctx context.Context, key string) {
	u.t.Helper()
	spec, err := u.d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		u.t.Fatal(err)
	}
	spec.Iterations, spec.Chunk = 20_000, 1000
	for _, h := range u.d.hosts {
		spec.Key = key + ", by " + h.name
		sub, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
		if err != nil {
			u.t.Fatalf("%s: submit through %s: %v", key, h.name, err)
		}
		u.finished(ctx, h, sub.Job, spec.Iterations)
	}
}

// operate sends requests through every host that others carry out.
func (u *upgrade) operate(ctx context.Context) {
	u.t.Helper()
	for i, h := range u.d.hosts {
		other := u.d.hosts[(i+1)%len(u.d.hosts)]
		if _, err := h.api.SetGroup(ctx, "via-"+h.name, []string{"uid:1000"}); err != nil {
			u.t.Fatalf("set a group through %s: %v", h.name, err)
		}
		for _, undo := range []bool{false, true} {
			if _, err := h.api.Drain(ctx, api.DrainRequest{Node: cluster.NodeID(other.name), Undo: undo}); err != nil {
				u.t.Fatalf("drain %s through %s, undo %t: %v", other.name, h.name, undo, err)
			}
		}
	}
	verifyAllHosts(ctx, u.t, u.d)
}

// letIn enrols an outside worker through an upgraded host, and submits a job for such:
// while there is a host that does not know them both are refused, which names it.
func (u *upgrade) letIn(ctx context.Context, h *host, all bool) {
	u.t.Helper()
	old := u.d.hosts[0]
	if _, err := old.api.OutsideWorkersPage(ctx, api.Page{}); all != (err == nil) {
		u.t.Fatalf("the old program knows outside workers (%v), with all upgraded %t: nothing is proved", err, all)
	}
	spec, err := u.d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		u.t.Fatal(err)
	}
	spec.Iterations, spec.Chunk, spec.Key, spec.Permission.Outside = 2000, 1000, "outside", true
	_, enrolErr := h.api.EnrolWorker(ctx, api.OutsideWorkerRequest{Key: access.FormatPublicKey(make([]byte, 32)), Owner: "node:n1", Trusted: true})
	sub, submitErr := h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	for what, err := range map[string]error{"enrol": enrolErr, "submit": submitErr} {
		switch {
		case all && err != nil:
			u.t.Fatalf("%s, all upgraded: %v", what, err)
		case !all && (!api.IsCode(err, api.CodeConflict) || !strings.Contains(err.Error(), old.name) || !strings.Contains(err.Error(), "too old")):
			u.t.Fatalf("%s, while %s is old: %v", what, old.name, err)
		}
	}
	if all {
		u.finished(ctx, h, sub.Job, spec.Iterations)
	}
}

func (u *upgrade) finished(ctx context.Context, h *host, id job.ID, iterations uint64) {
	u.t.Helper()
	j := finish(ctx, u.t, h, id)
	if j.State != job.Completed || j.Iterations.Accepted != iterations {
		u.t.Fatalf("job %s ended %s with %d of %d iterations: %s", id, j.State, j.Iterations.Accepted, iterations, j.Reason)
	}
	u.want[id] = j
}

// holds has the lease go to a host, asked of another one.
func (u *upgrade) holds(ctx context.Context, to *host) {
	u.t.Helper()
	handOver(ctx, u.t, u.d.other(to), cluster.NodeID(to.name), "upgrade")
	agree(ctx, u.t, u.d.hosts, "sees "+to.name+" hold", func(s api.Status) bool { return s.Lease.Holder == cluster.NodeID(to.name) })
}

// survive submits through a host right after the holder died, and has the
// others elect, schedule and count.
func (u *upgrade) survive(ctx context.Context, h *host) {
	u.t.Helper()
	spec, err := u.d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		u.t.Fatal(err)
	}
	spec.Iterations, spec.Chunk, spec.Key = 20_000, 1000, "lost holder, by "+h.name
	var sub api.SubmitResponse
	eventually(ctx, u.t, time.Minute, "somebody takes the job", func() (err error) {
		sub, err = h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
		return err
	})
	u.finished(ctx, h, sub.Job, spec.Iterations)
}

// takeSnapshot has one taken, so that upgraded hosts begin from what the older
// version folded.
func takeSnapshot(ctx context.Context, t *testing.T, h *host) {
	t.Helper()
	eventually(ctx, t, 30*time.Second, "a snapshot is taken", func() error {
		_, err := h.api.TakeSnapshot(ctx)
		return err
	})
	eventually(ctx, t, 30*time.Second, "the snapshot is in the log", func() error {
		if len(eventsOf(ctx, t, h, event.KindSnapshot)) == 0 {
			return errors.New("no event yet")
		}
		return nil
	})
}
