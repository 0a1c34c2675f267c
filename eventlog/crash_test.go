package eventlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
)

// sample writes a log of several segments, with groups of one and of several
// events, and returns its directory and events. Nothing is preallocated, so
// each byte of the files means something.
func sample(t *testing.T) (dir string, events []event.Event, groups []uint64) {
	t.Helper()
	o := testOptions(t.TempDir(), "n1")
	o.FS, o.SegmentSize = quickFS(), 4096
	l, stop := start(t, o)
	for i := range 27 {
		drafts := []event.Draft{note(i)}
		if i%3 == 0 {
			drafts = append(drafts, note(i+100), note(i+200))
		}
		events = append(events, mustAppend(t, l, drafts...)...)
		groups = append(groups, uint64(len(events)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	forgetMarks(t, o.Dir)
	paths := segmentPaths(t, o.Dir, events[0].Source)
	// Only the log knows where its last record ends in the preallocated
	// space: a signature may end with a zero byte.
	if err := os.Truncate(paths[len(paths)-1], lastSegment(l).Size); err != nil {
		t.Fatal(err)
	}
	if len(paths) < 3 {
		t.Fatalf("%d segments, want at least 3", len(paths))
	}
	return o.Dir, events, groups
}

// prefix opens dir and checks that it holds a prefix of events that ends with
// a group. It returns its length.
func prefix(t *testing.T, dir string, events []event.Event, groups []uint64) (uint64, error) {
	t.Helper()
	o := testOptions(dir, "n1")
	o.FS = quickFS()
	l, err := Open(o)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	n := uint64(0)
	for e, err := range l.Read(events[0].Source, 1) {
		if err != nil {
			t.Fatalf("read after recovery: %v", err)
		}
		if e.Hash != events[n].Hash {
			t.Fatalf("event %d changed", e.Seq)
		}
		n++
	}
	whole := n == 0
	for _, g := range groups {
		whole = whole || g == n
	}
	if !whole {
		t.Fatalf("recovered %d events, which is no whole group", n)
	}
	return n, nil
}

// TestCrashAtEveryByte cuts the log after each of its bytes, as a crash would:
// whole groups before the cut survive, the rest is gone, appending goes on.
func TestCrashAtEveryByte(t *testing.T) {
	dir, events, groups := sample(t)
	src := events[0].Source
	paths := segmentPaths(t, dir, src)
	step := 1
	if os.Getenv("SKEIN_PROVE") == "" {
		step = 17
	}
	last := uint64(0)
	cuts := 0
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for size := int64(0); size <= info.Size(); size++ {
			if int(size)%step != 0 && size > 150 && size < info.Size()-50 {
				continue
			}
			crashed := copyDir(t, dir)
			for _, later := range segmentPaths(t, crashed, src)[i+1:] {
				if err := os.Remove(later); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Truncate(segmentPaths(t, crashed, src)[i], size); err != nil {
				t.Fatal(err)
			}
			n, err := prefix(t, crashed, events, groups)
			if err != nil {
				t.Fatalf("segment %d cut at %d: %v", i, size, err)
			}
			if n < last {
				t.Fatalf("segment %d cut at %d: %d events, a shorter file had %d", i, size, n, last)
			}
			last = n
			if cuts++; cuts%40 == 0 {
				goOn(t, crashed, n)
			}
			if err := os.RemoveAll(crashed); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last != uint64(len(events)) {
		t.Fatalf("whole log has %d events, want %d", last, len(events))
	}
	t.Logf("%d cuts", cuts)
}

// goOn appends to a recovered log and opens it once more.
func goOn(t *testing.T, dir string, n uint64) {
	t.Helper()
	l, stop := start(t, testOptions(dir, "n1"))
	if e := mustAppend(t, l, note(1)); e[0].Seq != n+1 {
		t.Fatalf("appended seq %d after %d events", e[0].Seq, n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(testOptions(dir, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	if h := again.Head(again.Source()); h.Seq != n+1 {
		t.Fatalf("after reopening: %d events, want %d", h.Seq, n+1)
	}
	again.Close()
}

// TestBitFlips flips one bit in each byte: the log refuses to open naming the
// place, or, in the last group only, drops that group. It never opens with
// changed content.
func TestBitFlips(t *testing.T) {
	dir, events, groups := sample(t)
	src := events[0].Source
	step := 1
	if os.Getenv("SKEIN_PROVE") == "" {
		step = 11
	}
	before := groups[len(groups)-2]
	refused, dropped := 0, 0
	for i, path := range segmentPaths(t, dir, src) {
		orig, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := i % step; at < len(orig); at += step {
			broken := copyDir(t, dir)
			b := bytes.Clone(orig)
			b[at] ^= 1 << (at % 8)
			target := segmentPaths(t, broken, src)[i]
			if err := os.WriteFile(target, b, 0o600); err != nil {
				t.Fatal(err)
			}
			n, err := prefix(t, broken, events, groups)
			switch c, ok := errors.AsType[*segment.CorruptError](err); {
			case ok:
				refused++
				if c.Segment != target || c.Offset > int64(at) || c.Hint() == "" {
					t.Fatalf("flip at %d of segment %d: reported %v", at, i, c)
				}
				if now, err := os.ReadFile(target); err != nil || !bytes.Equal(now, b) {
					t.Fatalf("refused, and changed the file: %v", err)
				}
			case err != nil:
				t.Fatalf("flip at %d of segment %d: %v", at, i, err)
			case n != before:
				t.Fatalf("flip at %d of segment %d: opened with %d events", at, i, n)
			default:
				dropped++
			}
			if err := os.RemoveAll(broken); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d flips refused, %d cut off the last group", refused, dropped)
	if refused < 10*dropped {
		t.Fatalf("%d flips refused, %d dropped the last group of %d", refused, dropped, len(groups))
	}
}

// TestTornGroup leaves holes in the last group, as a disk does that wrote its
// pages in another order: the group goes, whatever of it can still be read.
func TestTornGroup(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	mustAppend(t, l, note(2), note(3), note(4), note(5))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	forgetMarks(t, o.Dir)
	path := segmentPaths(t, o.Dir, l.Source())[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	third := bytes.Index(b, []byte(`"v3"`)) - 30
	for name, hole := range map[string][]byte{"zeros": make([]byte, 60), "junk": bytes.Repeat([]byte{0xa5}, 60)} {
		torn := copyDir(t, o.Dir)
		broken := bytes.Clone(b)
		copy(broken[third:], hole)
		if err := os.WriteFile(filepath.Join(torn, segment.SourceDir(l.Source()), filepath.Base(path)), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(testOptions(torn, "n1"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h := l.Head(l.Source()); h.Seq != 1 {
			t.Fatalf("%s: %d events, want 1", name, h.Seq)
		}
		l.Close()
	}
	// The same hole with a later group behind it is damage.
	l, stop = start(t, o)
	mustAppend(t, l, note(6))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	copy(b[third:], make([]byte, 60))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(o)
	if c, ok := errors.AsType[*segment.CorruptError](err); !ok || c.Segment != path || c.Seq != 2 || !c.Own {
		t.Fatalf("damage before a later group: %v", err)
	}
	if _, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: o.Dir, Cluster: testCluster, KeyOf: pubFor}); err == nil {
		t.Fatal("verify finds nothing")
	}
}

func TestMissingAndForeignSegmentsAreRefused(t *testing.T) {
	dir, events, _ := sample(t)
	src := events[0].Source
	for name, change := range map[string]func(paths []string) error{
		"first missing":  func(p []string) error { return os.Remove(p[0]) },
		"middle missing": func(p []string) error { return os.Remove(p[1]) },
		"stray file":     func(p []string) error { return os.WriteFile(p[0]+".bak", nil, 0o600) },
		"swapped": func(p []string) error {
			b, err := os.ReadFile(p[1])
			if err != nil {
				return err
			}
			return os.WriteFile(p[0], b, 0o600)
		},
		"bytes after the seal": func(p []string) error {
			f, err := os.OpenFile(p[0], os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write([]byte{0})
			return err
		},
	} {
		broken := copyDir(t, dir)
		if err := change(segmentPaths(t, broken, src)); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(testOptions(broken, "n1")); err == nil {
			l.Close()
			t.Errorf("%s: opened", name)
		}
	}
	o := testOptions(copyDir(t, dir), "n1")
	o.Cluster = "another"
	if _, err := Open(o); err == nil {
		t.Error("log of another cluster opened")
	}
	o = testOptions(copyDir(t, dir), "n1")
	o.Key = keyFor("n2")
	if _, err := Open(o); err == nil {
		t.Error("own chain opened with another key")
	}
}

// lastSegment describes the last segment of the own chain.
func lastSegment(l *Log) store.Segment {
	segs := l.Segments(l.Source())
	return segs[len(segs)-1]
}
