package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/replicate"
)

// faultFS is the real file system until fail says otherwise. It never syncs,
// unless real is set: these tests do not cut the power.
type faultFS struct {
	disk.FS
	real bool

	took time.Duration // of a sync; not under mu: time stands still for who waits for that
	mu   sync.Mutex
	ops  int
	fail func(op string, n int) error // n counts operations, from 1
	// short makes the failing write leave half of its bytes.
	short bool
}

func quickFS() *faultFS { return &faultFS{FS: disk.OSFS()} }

func (f *faultFS) check(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops++
	if f.fail == nil {
		return nil
	}
	return f.fail(op, f.ops)
}

func (f *faultFS) set(fail func(op string, n int) error) {
	f.mu.Lock()
	f.fail, f.ops = fail, 0
	f.mu.Unlock()
}

func (f *faultFS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if err := f.check("open"); err != nil {
		return nil, err
	}
	if flag&os.O_EXCL != 0 {
		if err := f.check("create"); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f}, nil
}

func (f *faultFS) SyncDir(name string) error {
	if err := f.check("syncdir"); err != nil || !f.real {
		return err
	}
	return f.FS.SyncDir(name)
}

type faultFile struct {
	disk.File
	fs *faultFS
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.check("write"); err != nil {
		if f.fs.short {
			n, wErr := f.File.WriteAt(b[:len(b)/2], off)
			return n, errors.Join(err, wErr)
		}
		return 0, err
	}
	if err := f.fs.check("short"); err != nil {
		return f.File.WriteAt(b[:len(b)/2], off) // claims no error
	}
	return f.File.WriteAt(b, off)
}

func (f *faultFile) Truncate(n int64) error {
	if err := f.fs.check("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(n)
}

func (f *faultFile) Preallocate(off, n int64) error {
	if err := f.fs.check("preallocate"); err != nil {
		return err
	}
	return f.File.Preallocate(off, n)
}

func (f *faultFile) Sync() error {
	time.Sleep(f.fs.took)
	if err := f.fs.check("sync"); err != nil || !f.fs.real {
		return err
	}
	return f.File.Sync()
}

// TestIOErrorsPoison lets each single file operation of a busy log fail once,
// in each way. The log must stop, answer everyone, and open again with every
// acknowledged event.
func TestIOErrorsPoison(t *testing.T) {
	cases := map[string]error{
		"write": syscall.EIO, "short": syscall.EIO, "sync": syscall.EIO, "preallocate": syscall.EIO,
		"truncate": syscall.EIO, "syncdir": syscall.EIO, "open": syscall.EMFILE,
	}
	for op, cause := range cases {
		for nth := 1; nth <= 4; nth++ {
			t.Run(fmt.Sprintf("%s/%d", op, nth), func(t *testing.T) { poisonOnce(t, op, nth, cause) })
		}
	}
}

func poisonOnce(t *testing.T, op string, nth int, cause error) {
	ffs := quickFS()
	ffs.short = nth%2 == 0
	o := testOptions(t.TempDir(), "n1")
	o.FS, o.SegmentSize, o.ReopenAfter = ffs, 4096, -1
	poisoned := make(chan error, 1)
	o.OnPoison = func(err error) { poisoned <- err }
	l, stop := start(t, o)
	seen := 0
	ffs.set(func(got string, _ int) error {
		if got != op {
			return nil
		}
		if seen++; seen == nth {
			return cause
		}
		return nil
	})
	var acked []event.Event
	var failure error
	for i := 0; i < 300 && failure == nil; i++ {
		var events []event.Event
		if events, failure = l.Append(context.Background(), []event.Draft{note(i)}); failure == nil {
			acked = append(acked, events...)
		}
	}
	if failure == nil {
		t.Skipf("a log of %d events does no %s number %d", len(acked), op, nth)
	}
	if !errors.Is(failure, replicate.ErrUnknown) || !errors.Is(failure, ErrPoisoned) {
		t.Fatalf("append that failed: %v, want replicate.ErrUnknown and ErrPoisoned", failure)
	}
	if _, err := l.Append(context.Background(), []event.Draft{note(1)}); !errors.Is(err, ErrRejected) {
		t.Fatalf("append after poisoning: %v, want ErrRejected", err)
	}
	if err := <-poisoned; err == nil {
		t.Fatal("poisoned without a cause")
	}
	if err := stop(); !errors.Is(err, ErrPoisoned) || l.Err() == nil {
		t.Fatalf("run ended with %v, want ErrPoisoned", err)
	}
	if h := l.Head(l.Source()); h.Seq != uint64(len(acked)) {
		t.Fatalf("readers see %d events, acknowledged %d", h.Seq, len(acked))
	}
	ffs.set(nil)
	o.OnPoison = nil
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	n := 0
	for e, err := range again.Read(l.Source(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if n < len(acked) && e.Hash != acked[n].Hash {
			t.Fatalf("event %d is not the acknowledged one", e.Seq)
		}
		n++
	}
	if n < len(acked) || n > len(acked)+1 {
		t.Fatalf("%d events after reopening, acknowledged %d", n, len(acked))
	}
}

// TestIOErrorsWhileOpening lets each file operation of recovery fail: Open
// must fail, and work afterwards.
func TestIOErrorsWhileOpening(t *testing.T) {
	dir, events, groups := sample(t)
	for nth := 1; ; nth++ {
		ffs := quickFS()
		ffs.set(func(_ string, n int) error {
			if n == nth {
				return syscall.EIO
			}
			return nil
		})
		o := testOptions(dir, "n1")
		o.FS = ffs
		l, err := Open(o)
		if err == nil {
			l.Close()
			if nth < 4 {
				t.Fatalf("operation %d failed and open did not", nth)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) && !strings.Contains(err.Error(), "bytes written") {
			t.Fatalf("operation %d: %v, want EIO, or a short write", nth, err)
		}
	}
	if n, err := prefix(t, dir, events, groups); err != nil || n != uint64(len(events)) {
		t.Fatalf("afterwards %d events, %v", n, err)
	}
}
