package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/eventlog/disk"
)

// faultyFS is the machine's file system, whose files cannot be synced while bad
// is set.
type faultyFS struct {
	disk.FS
	bad atomic.Bool
}

func (f *faultyFS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return faultyFile{file, f}, nil
}

type faultyFile struct {
	disk.File
	fs *faultyFS
}

func (f faultyFile) Sync() error {
	if f.fs.bad.Load() {
		return syscall.EIO
	}
	return f.File.Sync()
}

// TestFailingDiskPassesTheLeaseOn lets the holder's disk fail. The holder gives
// the lease up by itself, the others go on, and when the disk works again the
// same process has its log back, with the same events as all.
func TestFailingDiskPassesTheLeaseOn(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n1 := d.hosts[0]
	halt(t, n1)
	faulty := &faultyFS{FS: disk.OSFS()}
	inside(t, n1, daemon.RunOptions{LogFS: faulty})
	holds := func(want bool) func() error {
		return func() error {
			h, err := d.holder(ctx)
			if err == nil && (h == n1) != want {
				err = fmt.Errorf("%s holds", h.name)
			}
			return err
		}
	}
	stateOf := func(want api.State) func() error {
		return func() error {
			s, err := n1.api.Status(ctx)
			if err == nil && s.State != want {
				err = fmt.Errorf("%s: %v", s.State, s.Reasons)
			}
			return err
		}
	}
	eventually(ctx, t, 40*time.Second, "n1 is back", stateOf(api.StateOK))
	// A host that has just come back may not be able to yet; then another one
	// takes over.
	eventually(ctx, t, time.Minute, "n1 holds", func() error {
		h, err := d.holder(ctx)
		if err != nil || h == n1 {
			return err
		}
		out, errs, code := d.cli(ctx, h, "lease", "step-down", "--to", "n1")
		return fmt.Errorf("%s was asked to hand over: %d, %s%s", h.name, code, out, errs)
	})
	faulty.bad.Store(true)
	if _, err := n1.api.CreateToken(ctx, time.Minute, 1); err != nil { // something to log
		t.Fatal(err)
	}
	took := eventually(ctx, t, 20*time.Second, "another host holds", holds(false))
	t.Logf("another host held the lease %s after the error", took.Round(time.Millisecond))
	s, err := n1.api.Status(ctx)
	if err != nil || s.State != api.StateDegraded || !strings.Contains(strings.Join(s.Reasons, " "), "event log: log poisoned") {
		t.Fatalf("the host says %s: %v, %v", s.State, s.Reasons, err)
	}
	if _, err := d.hosts[1].api.CreateToken(ctx, time.Minute, 1); err != nil {
		t.Errorf("the others suffer: %v", err)
	}
	faulty.bad.Store(false)
	eventually(ctx, t, 40*time.Second, "n1 has recovered", stateOf(api.StateOK))
	if _, err := n1.api.CreateToken(ctx, time.Minute, 1); err != nil {
		t.Errorf("after the recovery: %v", err)
	}
	eventually(ctx, t, 20*time.Second, "all have the same", func() error {
		var first cluster.Hash
		for i, h := range d.hosts {
			s, err := h.api.Status(ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				first = s.Log.StateHash
			} else if s.Log.StateHash != first {
				return errors.New("another state on " + h.name)
			}
		}
		return nil
	})
}
