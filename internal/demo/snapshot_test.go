package demo

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestSnapshots lets three real hosts take snapshots and drop what they hold,
// then a fourth join that never saw it, the holder die, and the new holder take
// a snapshot on request. All hosts have the job and the same state in the end,
// and their logs verify.
func TestSnapshots(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, func(d *demo) {
		d.env = func(int, int) []string {
			return []string{"SKEIN_EVENTLOG_SEGMENT_BYTES=65536", "SKEIN_EVENTLOG_SNAPSHOT_EVENTS=150", "SKEIN_EVENTLOG_RETAIN_BYTES=1"}
		}
	})
	clusterIs(ctx, t, d.hosts, 3, 3)
	n1 := d.hosts[0]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	var jobs []job.ID
	dropped := func(h *host) error {
		s, err := h.api.Snapshots(ctx)
		if err == nil && s.DroppedEvents == 0 {
			err = fmt.Errorf("%s: %+v", h.name, s)
		}
		return err
	}
	for i := range 12 {
		spec.Key, spec.Iterations, spec.Chunk = fmt.Sprint("snap", i), 100_000, 500
		sub := submit(ctx, t, n1, spec)
		jobs = append(jobs, sub.Job)
		if j := finish(ctx, t, n1, sub.Job); j.State != job.Completed {
			t.Fatalf("job %d: %s", i, j.State)
		}
		if i > 2 && dropped(n1) == nil {
			break
		}
	}
	for _, h := range d.hosts {
		eventually(ctx, t, 30*time.Second, "dropped segments", func() error { return dropped(h) })
	}

	join1(ctx, t, d, 3)
	clusterIs(ctx, t, d.hosts, 4, 4)

	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-holder.done
	var rest []*host
	for _, o := range d.hosts {
		if o != holder {
			rest = append(rest, o)
		}
	}
	for _, o := range rest {
		if err := o.await(ctx, "knows a new holder", func(s api.Status) bool {
			return s.Lease.Holder != "" && s.Lease.Holder != cluster.NodeID(holder.name)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var said string
	eventually(ctx, t, 30*time.Second, "a snapshot on request", func() error {
		_, text, code := d.cli(ctx, rest[2], "log", "snapshot")
		if code != 0 {
			return fmt.Errorf("exit %d: %s", code, text)
		}
		said = text
		return nil
	})
	if !strings.Contains(said, "signed by") {
		t.Errorf("said %q", said)
	}
	eventually(ctx, t, 30*time.Second, "all have the jobs and the same state", func() error {
		var first api.Status
		for i, o := range rest {
			s, err := o.api.Status(ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				first = s
			}
			if s.Log.Snapshot == nil || s.Log.StateHash != first.Log.StateHash || s.Log.Snapshot.ID != first.Log.Snapshot.ID {
				return fmt.Errorf("%s: %+v, %s: %+v", o.name, s.Log, rest[0].name, first.Log)
			}
			for _, id := range jobs {
				if j, err := o.api.Job(ctx, string(id)); err != nil || j.State != job.Completed {
					return fmt.Errorf("%s: job %s: %v, %w", o.name, id, j.State, err)
				}
			}
		}
		return nil
	})
	for _, o := range rest {
		r, err := o.verifyLog(ctx)
		if err != nil || !r.OK || r.DroppedEvents == 0 {
			t.Errorf("%s: %+v, %v", o.name, r, err)
		}
	}
}
