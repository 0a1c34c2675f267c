package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/require"
)

// TestFullDiskOfTheHolder runs a host whose state is on a small file system, mounted
// for this test in its own process, and fills that up.
func TestFullDiskOfTheHolder(t *testing.T) {
	parallel(t)
	if !require.OwnMounts(t, "SKEIN_BIN="+bin) {
		return
	}
	var state string
	d, ctx := startWith(t, 1, func(d *demo) {
		state = filepath.Join(d.dir, "n1", "state")
		if err := os.MkdirAll(state, 0o700); err != nil {
			t.Fatal(err)
		}
		require.Tmpfs(t, state, "size=96m,mode=0700")
		d.o.made = nil // compiled modules of other tests would take its room
		d.env = func(int, int) []string {
			return []string{"SKEIN_EVENTLOG_RESERVE_BYTES=8388608", "SKEIN_EVENTLOG_LOW_WATER_BYTES=16777216"}
		}
	})
	h := d.hosts[0]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	submit := func(key string, iterations uint64) (api.SubmitResponse, error) {
		spec.Key, spec.Iterations, spec.Chunk = key, iterations, iterations/200
		return h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	}
	long, err := submit("long", 40_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 20*time.Second, "the job runs", func() error {
		j, err := h.api.Job(ctx, string(long.Job))
		if err == nil && j.State != job.Running {
			err = fmt.Errorf("it is %s", j.State)
		}
		return err
	})
	junk := filepath.Join(state, "junk")
	fill(t, junk)
	says := func(text string) func() error {
		return func() error {
			s, err := h.api.Status(ctx)
			if err == nil && !strings.Contains(string(s.State)+": "+strings.Join(s.Reasons, "; "), text) {
				err = fmt.Errorf("%s: %v", s.State, s.Reasons)
			}
			return err
		}
	}
	eventually(ctx, t, 10*time.Second, "the host says so", says("no room for new jobs"))
	t.Log("full")
	var p *api.Problem
	if _, err := submit("another", 2000); !errors.As(err, &p) || p.Code != api.CodeOverloaded {
		t.Fatalf("submit to a full disk: %v", err)
	}
	if out, errs, code := d.cli(ctx, h, "job", "stop", string(long.Job)); code != 0 {
		t.Fatalf("cancel on a full disk: %s%s", out, errs)
	}
	if j := finish(ctx, t, h, long.Job); j.State != job.Cancelled {
		t.Fatalf("the job is %s", j.State)
	}
	t.Log("stopped")
	if s, err := h.api.Status(ctx); err != nil || s.Role != cluster.RoleHolder {
		t.Fatalf("the lease is gone: %v, %v", s.Reasons, err)
	}
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 10*time.Second, "the host is well again", says(string(api.StateOK)))
	t.Log("room again")
	sub, err := submit("after", 2000)
	if err != nil {
		t.Fatal(err)
	}
	if j := finish(ctx, t, h, sub.Job); j.State != job.Completed {
		t.Fatalf("job after it: %s", j.State)
	}
	t.Log("done")
	out, _, code := d.cli(ctx, h, "events", "--kind", "host_disk", "-o", "jsonl")
	if code != 0 || !strings.Contains(out, `"full"`) || !strings.Contains(out, `"ok"`) {
		t.Errorf("events: exit %d\n%s", code, out)
	}
}

// fill creates a file that takes all that its file system has free, in one call:
// a file that grew piece by piece would also take the ballast that the log gives
// back when it finds no room.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(path, &fs); err != nil {
			t.Fatal(err)
		}
		err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ENOSPC) { // somebody else was faster: less is free now
			t.Fatal(err)
		}
	}
}
