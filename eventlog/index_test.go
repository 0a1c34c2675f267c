package eventlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
)

// indexed makes a log small enough that an index of it has several files, with
// large bodies.
func indexed(dir string) Options {
	o := alone(filepath.Join(dir, "log"))
	o.SegmentSize, o.Prealloc = 512<<10, 64<<10
	o.IndexDir, o.IndexEvery = filepath.Join(dir, "index"), time.Millisecond
	return o
}

// about is what the tests look for.
var about = []event.Subject{
	{Job: "rare"}, {Job: "some"}, {Job: "never"}, {Job: "some", Worker: "w1"}, {Job: "rare", Worker: "w1"}, {User: "uid:7"}, {Member: "n1"}, {Member: "w1"},
}

// various appends n events about this and that.
func various(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		d := event.Draft{Term: 1, Kind: event.KindChunkFailed, Body: event.ChunkFailed{
			Job: job.ID(fmt.Sprintf("j%d", i)), Worker: cluster.NodeID("w" + strconv.Itoa(i%3)), Reason: string(slices.Repeat([]byte{'x'}, 3000)),
		}}
		switch {
		case i%97 == 0:
			d = event.Draft{Term: 1, Kind: event.KindJobStopped, Body: event.JobStopped{Job: "rare", Actor: "uid:7@n3"}}
		case i%20 == 0:
			d = event.Draft{Term: 1, Kind: event.KindChunkReclaimed, Body: event.ChunkReclaimed{Job: "some", Worker: cluster.NodeID("w" + strconv.Itoa(rand.IntN(2)))}}
		case i%31 == 0:
			d = note(i)
		}
		mustAppend(t, l, d)
	}
}

// search holds what the index leaves over against all events, and returns how
// many were read.
func search(t testing.TB, l *Log, from event.Cursor) (read int) {
	t.Helper()
	for _, s := range about {
		var want, got []uint64
		for e, err := range l.Store.After(t.Context(), from.Clone(), store.Filter{}) {
			check(t, err)
			if s.Match(&e) {
				want = append(want, e.Seq)
			}
		}
		at := from.Clone()
		for e, err := range l.After(t.Context(), at, store.Filter{About: s}) {
			check(t, err)
			read++
			if s.Match(&e) {
				got = append(got, e.Seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v from %s: events %v, want %v", s, from, got, want)
		}
		if at.String() != l.Position().String() {
			t.Fatalf("%+v: read up to %s, the log ends at %s", s, at, l.Position())
		}
	}
	return read
}

func indexFiles(t testing.TB, o Options) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(o.IndexDir, "*"))
	check(t, err)
	return files
}

// TestIndexFindsWhatIsThere looks for things in a log while it is written, after
// a restart, and with files of the index missing, damaged, of other segments and
// foreign: always what is there is found, and the files come back.
func TestIndexFindsWhatIsThere(t *testing.T) {
	o := indexed(t.TempDir())
	l, err := Open(o)
	check(t, err)
	full := func() (n int) {
		for _, s := range l.Segments(l.Source()) {
			if s.Sealed {
				n++
			}
		}
		return n
	}
	complete := func() bool { return len(indexFiles(t, o)) == full() }
	check(t, live(l, func(ctx context.Context) {
		check(t, begins(ctx, l))
		for range 4 {
			various(t, l, 250)
			search(t, l, event.Cursor{})
		}
		search(t, l, event.Cursor{l.Source(): 333})
		eventually(t, "each full segment has its file", complete)
		all, read := int(l.Head(l.Source()).Seq)*len(about), search(t, l, event.Cursor{})
		if read*3 > all*2 {
			t.Errorf("%d of %d events were read", read, all)
		}
	}))
	files := indexFiles(t, o)
	if len(files) < 4 {
		t.Fatalf("%d files", len(files))
	}
	damage := map[string]func(){
		"missing":  func() { check(t, os.Remove(files[0])) },
		"all gone": func() { check(t, os.RemoveAll(o.IndexDir)) },
		"empty":    func() { check(t, os.Truncate(files[1], 0)) },
		"swapped": func() {
			check(t, os.Rename(files[0], files[2]))
		},
		"rotten": func() {
			b, err := os.ReadFile(files[1])
			check(t, err)
			b[len(b)*2/3] ^= 0x40
			check(t, os.WriteFile(files[1], b, 0o600))
		},
		"foreign": func() {
			check(t, os.WriteFile(filepath.Join(o.IndexDir, "x.1-00000000000000000001.idx"), []byte("x"), 0o600))
		},
		"none": func() {},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			harm()
			l, err = Open(o)
			check(t, err)
			search(t, l, event.Cursor{})
			check(t, live(l, func(context.Context) {
				eventually(t, "each full segment has its file", complete)
				search(t, l, event.Cursor{})
			}))
		})
	}
	t.Run("while it runs", func(t *testing.T) {
		l, err = Open(o)
		check(t, err)
		check(t, live(l, func(context.Context) {
			eventually(t, "each full segment has its file", complete)
			for _, name := range []string{"rotten", "missing"} {
				damage[name]()
				search(t, l, event.Cursor{})
			}
			eventually(t, "the missing file comes back", complete)
		}))
	})
}

// TestIndexGoesWithItsSegments drops segments: their files go, and what is left
// is found.
func TestIndexGoesWithItsSegments(t *testing.T) {
	o := indexed(t.TempDir())
	o.RetainBytes = 1
	l, err := Open(o)
	check(t, err)
	check(t, live(l, func(ctx context.Context) {
		check(t, begins(ctx, l))
		for range 3 {
			various(t, l, 250)
			mustSnapshot(t, l)
		}
		eventually(t, "segments dropped", func() bool { return l.Oldest()[l.Source()] > 0 })
		eventually(t, "their index as well", func() bool {
			mustAppend(t, l, note(1)) // so that it looks
			want := map[string]bool{}
			for _, s := range l.Segments(l.Source()) {
				if s.Sealed {
					want[filepath.Join(o.IndexDir, segment.SourceDir(s.Source)+"-"+fmt.Sprintf("%020d.idx", s.First))] = true
				}
			}
			files := indexFiles(t, o)
			return len(files) == len(want) && !slices.ContainsFunc(files, func(f string) bool { return !want[f] })
		})
		eventually(t, "nothing more is dropped", func() bool {
			oldest := l.Oldest()[l.Source()]
			time.Sleep(300 * time.Millisecond)
			return l.Oldest()[l.Source()] == oldest
		})
		search(t, l, l.Oldest())
	}))
}

// TestIndexIsOfNoUseToTheLog lets nothing of the index be written: the log does
// not mind.
func TestIndexIsOfNoUseToTheLog(t *testing.T) {
	o := indexed(t.TempDir())
	check(t, os.WriteFile(o.IndexDir, []byte("a file"), 0o600))
	l, err := Open(o)
	check(t, err)
	check(t, live(l, func(ctx context.Context) {
		check(t, begins(ctx, l))
		various(t, l, 400)
		search(t, l, event.Cursor{})
	}))
}

// BenchmarkFindEntity looks for the 20 events about one job in a log of
// SKEIN_EVENTS events, by default 300,000. The bound is 50 ms in 10,000,000.
func BenchmarkFindEntity(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("SKEIN_EVENTS"))
	if n == 0 {
		n = 300_000
	}
	o := testOptions(filepath.Join(b.TempDir(), "log"), "n1")
	o.IndexDir, o.IndexEvery = filepath.Join(b.TempDir(), "index"), 100*time.Millisecond
	o.FS = quickFS()
	l, err := Open(o)
	check(b, err)
	for i := range n / 100 {
		drafts := slices.Repeat([]event.Draft{draft300()}, 100)
		if i%(n/2000) == n/4000 {
			drafts[50] = event.Draft{Term: 1, Kind: event.KindJobStopped, Body: event.JobStopped{Job: "needle", Actor: "uid:7@n3"}}
		}
		r, err := l.prepare(drafts)
		check(b, err)
		r.weight = 0 // it does not pass the intake
		check(b, l.w.commit([]*request{r}))
	}
	check(b, l.Close())
	l, stop := start(b, o)
	defer func() { check(b, stop()) }()
	full := len(l.Segments(l.Source())) - 1
	deadline := time.Now().Add(time.Hour)
	for len(indexFiles(b, o)) < full {
		if time.Now().After(deadline) {
			b.Fatal("no index")
		}
		time.Sleep(100 * time.Millisecond)
	}
	var bytes int64
	for _, f := range indexFiles(b, o) {
		info, err := os.Stat(f)
		check(b, err)
		bytes += info.Size()
	}
	b.Logf("%d events, %d bytes; index of %d bytes in %d files", l.Head(l.Source()).Seq, l.Size(), bytes, full)
	for b.Loop() {
		found := 0
		for e, err := range l.After(b.Context(), event.Cursor{}, store.Filter{About: event.Subject{Job: "needle"}}) {
			check(b, err)
			if (event.Subject{Job: "needle"}).Match(&e) {
				found++
			}
		}
		if found != 20 {
			b.Fatalf("%d of 20 events found", found)
		}
	}
	if each := b.Elapsed() / time.Duration(b.N); n >= 10_000_000 && each > 50*time.Millisecond {
		b.Errorf("%s, bound 50ms", each)
	}
}
