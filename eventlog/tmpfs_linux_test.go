package eventlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/internal/require"
)

// TestOnASmallFileSystem fills a file system of 4 MiB that is mounted for this
// test alone, in a process of its own.
func TestOnASmallFileSystem(t *testing.T) {
	if !require.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	require.Tmpfs(t, dir, "size=4m")
	net := newNetwork(t)
	o := testOptions(filepath.Join(dir, "log"), "a")
	o.LowWater, o.Reserve = 2<<20, 1<<20
	o.SegmentSize, o.Prealloc = 128<<10, 64<<10
	o.Dial = net.dialer("a")
	a, stop := start(t, o)
	net.add("a", a)
	b := net.join(t, testOptions(t.TempDir(), "b"))
	acked := map[uint64]cluster.Hash{}
	try := func(d event.Draft) error {
		events, err := a.Append(context.Background(), []event.Draft{d})
		for _, e := range events {
			acked[e.Seq] = e.Hash
		}
		return err
	}
	big := func(k event.Kind) event.Draft {
		why := strings.Repeat("x", 8<<10)
		if k == event.KindPublishing {
			return event.Draft{Kind: k, Body: event.Publishing{Why: why}}
		}
		return event.Draft{Kind: k, Body: event.HostStarted{Version: why}}
	}
	fill := func(k event.Kind) (n int) {
		t.Helper()
		for {
			a.measure() // as each second
			err := try(big(k))
			if errors.Is(err, ErrDiskFull) {
				return n
			}
			if err != nil {
				t.Fatalf("append %d: %v, want ErrDiskFull", n, err)
			}
			n++
		}
	}
	if n := fill(event.KindPublishing); n < 50 || a.Disk().State != disk.Full {
		t.Fatalf("%d events, %+v", n, a.Disk())
	}
	if err := b.Sync(t.Context(), "a"); err != nil {
		t.Fatalf("the full host does not serve: %v", err)
	}
	// Another program takes the rest; the essential goes on for a while.
	junk := filepath.Join(dir, "junk")
	f, err := os.Create(junk)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{64 << 10, 4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	if n := fill(event.KindHostStarted); n < 20 || a.Disk().State != disk.Out || a.Err() != nil {
		t.Fatalf("%d essential events, %+v, %v", n, a.Disk(), a.Err())
	}
	if err := try(plain(1)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("append to nothing: %v", err)
	}
	mustAppend(t, b, plain(1)) // the other host is well
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	// As an operator would who makes room.
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	a.measure()
	if err := try(plain(2)); err != nil {
		t.Fatalf("with room again: %v, %+v", err, a.Disk())
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	n := 0
	for e, err := range again.Read(a.Source(), 1) {
		if err != nil || e.Hash != acked[e.Seq] {
			t.Fatalf("event %d: %v", e.Seq, err)
		}
		n++
	}
	if n != len(acked) {
		t.Fatalf("%d events, %d were acknowledged", n, len(acked))
	}
}
