package eventlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/replicate"
)

// lyingFS is a file system whose sync fails once as that of Linux does: what
// was to be synced stays readable, counts as clean, and never reaches the disk
// unless it is written again.
type lyingFS struct {
	disk.FS
	mu    sync.Mutex
	fail  bool
	files map[string]*lyingDisk
}

// lyingDisk is what of a file is on the disk.
type lyingDisk struct {
	bytes   []byte
	pending []func([]byte) []byte // since the last sync
}

type lyingFile struct {
	disk.File
	fs   *lyingFS
	disk *lyingDisk
}

func (f *lyingFS) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.files[name]
	if d == nil {
		d = &lyingDisk{}
		f.files[name] = d
	}
	return &lyingFile{File: file, fs: f, disk: d}, nil
}

func (f *lyingFile) note(change func([]byte) []byte) {
	f.fs.mu.Lock()
	f.disk.pending = append(f.disk.pending, change)
	f.fs.mu.Unlock()
}

func (f *lyingFile) WriteAt(b []byte, off int64) (int, error) {
	b = append([]byte(nil), b...)
	f.note(func(disk []byte) []byte {
		if n := off + int64(len(b)); n > int64(len(disk)) {
			disk = append(disk, make([]byte, n-int64(len(disk)))...)
		}
		copy(disk[off:], b)
		return disk
	})
	return f.File.WriteAt(b, off)
}

func (f *lyingFile) Truncate(n int64) error {
	f.note(func(disk []byte) []byte { return append(disk, make([]byte, max(0, n-int64(len(disk))))...)[:n] })
	return f.File.Truncate(n)
}

func (f *lyingFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	pending := f.disk.pending
	f.disk.pending = nil
	if f.fs.fail {
		f.fs.fail = false
		return syscall.EIO
	}
	for _, change := range pending {
		f.disk.bytes = change(f.disk.bytes)
	}
	return nil
}

// TestFailedSyncIsNotBelieved lets one sync fail, the log recover with the group
// that it can still read, and append more. Then the power goes: everything that
// readers saw is on the disk, because the group was written a second time.
func TestFailedSyncIsNotBelieved(t *testing.T) {
	disk := &lyingFS{FS: quickFS(), files: map[string]*lyingDisk{}}
	o := testOptions(t.TempDir(), "n1")
	o.FS, o.ReopenAfter = disk, time.Millisecond
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	disk.mu.Lock()
	disk.fail = true
	disk.mu.Unlock()
	if _, err := l.Append(context.Background(), []event.Draft{note(2)}); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("append whose sync failed: %v, want replicate.ErrUnknown", err)
	}
	eventually(t, "recovery", func() bool { return l.Err() == nil && l.Head(l.Source()).Seq == 2 })
	mustAppend(t, l, note(3))
	src := l.Source()
	dark := testOptions(t.TempDir(), "n1") // what is on the disk when the power goes
	disk.mu.Lock()
	for name, d := range disk.files {
		rel, err := filepath.Rel(o.Dir, name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dark.Dir, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, d.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk.mu.Unlock()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dark)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if h := again.Head(src); h.Seq != 3 {
		t.Fatalf("%d events are on the disk, want 3", h.Seq)
	}
}
