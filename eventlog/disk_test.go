package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/replicate"
)

// plain is a draft that is not essential.
func plain(i int) event.Draft {
	return event.Draft{Kind: event.KindPublishing, Body: event.Publishing{Why: fmt.Sprintf("w%d", i)}}
}

// diskOptions has 100 MiB of which 10 are the reserve; free is what is left.
func diskOptions(t *testing.T, free *atomic.Int64) Options {
	o := testOptions(t.TempDir(), "n1")
	free.Store(100 << 20)
	o.LowWater, o.Reserve = 20<<20, 10<<20
	o.Free = func(string) (int64, error) { return free.Load(), nil }
	return o
}

func TestDiskStates(t *testing.T) {
	var free atomic.Int64
	o := diskOptions(t, &free)
	var mu sync.Mutex
	var seen []disk.State
	o.OnDisk = func(d disk.Report) { mu.Lock(); seen = append(seen, d.State); mu.Unlock() }
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		free int64
		want disk.State
	}{
		{100 << 20, disk.OK},
		{20<<20 + 1, disk.OK},
		{20 << 20, disk.Low},
		{21 << 20, disk.Low}, // not better yet: it would flap
		{23 << 20, disk.OK},
		{10 << 20, disk.Full},
		{11 << 20, disk.Full},
		{12 << 20, disk.Low},
		{-1, disk.OK}, // the file system does not say
		{0, disk.Full},
		{100 << 20, disk.OK},
	} {
		free.Store(c.free)
		l.measure()
		if got := l.Disk(); got.State != c.want || got.Free != c.free {
			t.Errorf("%d bytes free: %+v, want %s", c.free, got, c.want)
		}
	}
	want := []disk.State{disk.Low, disk.OK, disk.Full, disk.Low, disk.OK, disk.Full, disk.OK}
	if !slices.Equal(seen, want) {
		t.Errorf("told %v, want %v", seen, want)
	}
	if info, err := os.Stat(filepath.Join(o.Dir, disk.BallastFile)); err != nil || info.Size() != o.Reserve/4 {
		t.Errorf("ballast: %v", err)
	}
}

// TestFullDiskTakesOnlyEssentials fills the disk up to the reserve: new work is
// certainly refused, what ends work is written, and service comes back with the
// room.
func TestFullDiskTakesOnlyEssentials(t *testing.T) {
	var free atomic.Int64
	o := diskOptions(t, &free)
	l, _ := start(t, o)
	mustAppend(t, l, plain(1))
	free.Store(9 << 20)
	l.measure()
	before := l.Head(l.Source()).Seq
	submit := event.Draft{Term: 1, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{Job: "j1"}}
	for _, drafts := range [][]event.Draft{{plain(2)}, {submit}, {acting(1, 1), submit}} {
		if _, err := l.Append(t.Context(), drafts); !errors.Is(err, ErrDiskFull) || !errors.Is(err, ErrRejected) {
			t.Fatalf("append to a full disk: %v, want ErrDiskFull", err)
		}
	}
	if h := l.Head(l.Source()).Seq; h != before {
		t.Fatalf("refused appends wrote %d events", h-before)
	}
	mustAppend(t, l, acting(1, 1), event.Draft{Kind: event.KindLeaseReleased, Body: event.LeaseReleased{Term: 1}})
	free.Store(50 << 20)
	l.measure()
	mustAppend(t, l, plain(3))
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestLimitOfTheLogCountsAsFull(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	o.MaxBytes = 1 << 20
	l, stop := start(t, o)
	n := 0
	var err error
	for ; err == nil; n++ {
		_, err = l.Append(t.Context(), []event.Draft{{Kind: event.KindPublishing, Body: event.Publishing{Why: strings.Repeat("x", 10_000)}}})
	}
	if !errors.Is(err, ErrDiskFull) || l.Disk().State != disk.Full {
		t.Fatalf("after %d events: %v, %+v", n, err, l.Disk())
	}
	if size := l.Size(); size < 15<<16 || size > 1<<20 {
		t.Fatalf("refused at %d bytes of %d", size, o.MaxBytes)
	}
	mustAppend(t, l, acting(1, 1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	o.MaxBytes = 2 << 20
	l, _ = start(t, o)
	mustAppend(t, l, plain(1))
}

// TestNoRoomLeavesNoTrace lets the file system refuse every byte. Nothing is
// acknowledged, nothing poisoned; the ballast carries what is essential, and
// when that is gone too, the state says so until there is room.
func TestNoRoomLeavesNoTrace(t *testing.T) {
	for _, op := range []string{"preallocate", "create"} {
		t.Run(op, func(t *testing.T) {
			ffs := quickFS()
			var free atomic.Int64
			o := diskOptions(t, &free)
			o.FS, o.SegmentSize, o.Prealloc = ffs, 4096, 1024
			l, stop := start(t, o)
			last := mustAppend(t, l, plain(1))[0]
			l.measure()
			if l.Disk().Ballast == 0 {
				t.Fatal("no ballast")
			}
			ballast := filepath.Join(o.Dir, disk.BallastFile)
			hasBallast := func() bool { _, err := os.Stat(ballast); return err == nil }
			var empty atomic.Bool
			ffs.set(func(got string, _ int) error {
				if got == op && (empty.Load() || hasBallast()) {
					return syscall.ENOSPC
				}
				return nil
			})
			// The file system is full as long as the ballast takes the room.
			rejected := false
			for i := 0; i < 200 && !rejected; i++ {
				e, err := l.Append(t.Context(), []event.Draft{plain(i)})
				if rejected = errors.Is(err, ErrDiskFull); err != nil && !rejected {
					t.Fatal(err)
				} else if err == nil {
					last = e[0]
				}
			}
			if !rejected || !hasBallast() {
				t.Fatalf("rejected %t, ballast %t", rejected, hasBallast())
			}
			e := mustAppend(t, l, acting(1, 1))[0]
			if e.Seq != last.Seq+1 || e.Prev != last.Hash {
				t.Fatalf("seq %d after %d: the refused append left a trace", e.Seq, last.Seq)
			}
			if hasBallast() {
				t.Fatal("the essential event was written without the ballast")
			}
			last = e
			empty.Store(true) // now without the ballast too
			for i := 0; ; i++ {
				e, err := l.Append(t.Context(), []event.Draft{acting(1, i)})
				if errors.Is(err, ErrDiskFull) {
					break
				}
				if err != nil || i > 200 {
					t.Fatalf("append %d to nothing: %v, want ErrDiskFull", i, err)
				}
				last = e[0]
			}
			if l.Disk().State != disk.Out || l.Err() != nil {
				t.Fatalf("%+v, %v", l.Disk(), l.Err())
			}
			ffs.set(nil)
			l.measure()
			if e := mustAppend(t, l, plain(9))[0]; e.Seq != last.Seq+1 || e.Prev != last.Hash {
				t.Fatalf("seq %d after %d", e.Seq, last.Seq)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if h := again.Head(again.Source()); h.Seq != last.Seq+1 {
				t.Fatalf("%d events after reopening, want %d", h.Seq, last.Seq+1)
			}
		})
	}
}

// TestPoisonedLogRecoversByItself lets each kind of operation fail for a while:
// the appends of that time have an unknown outcome or are refused, and then the
// same Log goes on with everything acknowledged and nothing twice.
func TestPoisonedLogRecoversByItself(t *testing.T) {
	for _, op := range []string{"write", "short", "sync", "truncate", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			ffs := quickFS()
			ffs.short = true
			o := testOptions(t.TempDir(), "n1")
			o.FS, o.SegmentSize, o.ReopenAfter = ffs, 4096, 5*time.Millisecond
			var poisoned atomic.Int32
			o.OnPoison = func(error) { poisoned.Add(1) }
			l, stop := start(t, o)
			acked := map[uint64]cluster.Hash{}
			unknown := map[string]bool{}
			var lives, fails int
			var mu sync.Mutex
			ffs.set(func(got string, _ int) error {
				mu.Lock()
				defer mu.Unlock()
				if got == op {
					if lives++; lives%5 == 0 { // also recoveries fail
						fails++
						return syscall.EIO
					}
				}
				return nil
			})
			deadline := time.Now().Add(patience)
			for i := 0; poisoned.Load() < 4 && time.Now().Before(deadline); i++ {
				events, err := l.Append(context.Background(), []event.Draft{note(i), note(i)})
				switch {
				case err == nil:
					for _, e := range events {
						acked[e.Seq] = e.Hash
					}
				case errors.Is(err, replicate.ErrUnknown):
					unknown[fmt.Sprintf(`"v%d"`, i)] = true
				case !errors.Is(err, ErrRejected):
					t.Fatal(err)
				default:
					i--
				}
			}
			if poisoned.Load() < 4 {
				t.Fatalf("poisoned %d times", poisoned.Load())
			}
			ffs.set(nil)
			eventually(t, "the log is sound", func() bool { return l.Err() == nil })
			for _, e := range mustAppend(t, l, note(1), note(2)) {
				acked[e.Seq] = e.Hash
			}
			hash := stateHash(l)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if stateHash(again) != hash {
				t.Fatal("the fold of the running log was another")
			}
			found := 0
			for e, err := range again.Read(l.Source(), 1) {
				if err != nil {
					t.Fatal(err)
				}
				if want, ok := acked[e.Seq]; ok {
					found++
					if want != e.Hash {
						t.Fatalf("event %d is not the acknowledged one", e.Seq)
					}
				} else if !slices.ContainsFunc(keys(unknown), func(v string) bool { return strings.Contains(string(e.Body), v) }) {
					t.Fatalf("event %d, %s, was neither acknowledged nor unknown", e.Seq, e.Body)
				}
			}
			if found != len(acked) {
				t.Fatalf("%d of %d acknowledged events", found, len(acked))
			}
			t.Logf("%d acknowledged, %d unknown, poisoned %d times", len(acked), len(unknown), poisoned.Load())
		})
	}
}

func keys(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// TestIntakeClassesDoNotStarve fills the intake with each class of requests.
func TestIntakeClassesDoNotStarve(t *testing.T) {
	q := newIntake(8192)
	put := func(c class, weight int64) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // admitted at once, or not at all
		return q.put(ctx, &request{class: c, weight: weight, records: 1, done: make(chan struct{}, 1)})
	}
	fill := func(c class) (n int) {
		for put(c, 256) == nil {
			n++
		}
		return n
	}
	if n := fill(ordinary); n != 24 {
		t.Errorf("%d ordinary requests of 256 bytes, want 24", n)
	}
	if n := fill(foreign); n != 4 {
		t.Errorf("%d foreign ones beside them, want 4", n)
	}
	if n := fill(urgent); n != 4 {
		t.Errorf("%d urgent ones beside them, want 4", n)
	}
	batch := q.take(nil)
	for i, r := range batch {
		if (r.class == urgent) != (i < 4) {
			t.Fatalf("request %d of the group is of class %d", i, r.class)
		}
	}
	q.giveBack(batch)
	if q.total() != 0 {
		t.Fatalf("%d bytes left", q.total())
	}
	// A flood of urgent ones larger than a group lets the others through.
	q.budget = 8 * groupBytes
	for range 3 {
		if err := put(urgent, groupBytes); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(ordinary, 100); err != nil {
		t.Fatal(err)
	}
	if batch := q.take(nil); len(batch) != 2 || batch[0].class != urgent || batch[1].class != ordinary {
		t.Fatalf("first group has %d requests", len(batch))
	}
}

// TestOutcomesOfCancelledAppends gives up appends at both stages and looks
// whether what they answer is true.
func TestOutcomesOfCancelledAppends(t *testing.T) {
	ffs := quickFS()
	o := testOptions(t.TempDir(), "n1")
	o.FS = ffs
	l, stop := start(t, o)
	mustAppend(t, l, note(0))
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ffs.set(func(op string, _ int) error {
		if op == "sync" {
			once.Do(func() { close(entered); <-leave })
		}
		return nil
	})
	// The first is being written when its caller gives up, the second waits.
	first, stopFirst := context.WithCancel(t.Context())
	second, stopSecond := context.WithCancel(t.Context())
	errs := [2]chan error{make(chan error, 1), make(chan error, 1)}
	go func() { _, err := l.Append(first, []event.Draft{note(1)}); errs[0] <- err }()
	<-entered
	go func() { _, err := l.Append(second, []event.Draft{note(2)}); errs[1] <- err }()
	eventually(t, "the second is queued", func() bool { l.w.in.mu.Lock(); defer l.w.in.mu.Unlock(); return len(l.w.in.urgent) == 1 })
	stopFirst()
	if err := <-errs[0]; !errors.Is(err, replicate.ErrUnknown) || errors.Is(err, ErrRejected) || !errors.Is(err, context.Canceled) {
		t.Errorf("given up while it was written: %v, want replicate.ErrUnknown", err)
	}
	stopSecond()
	if err := <-errs[1]; !errors.Is(err, ErrRejected) || errors.Is(err, replicate.ErrUnknown) {
		t.Errorf("given up in the queue: %v, want ErrRejected", err)
	}
	close(leave)
	if e := mustAppend(t, l, note(3)); e[0].Seq != 3 {
		t.Errorf("next event has seq %d, want 3: the first was written, the second not", e[0].Seq)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), []event.Draft{note(4)}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v, want ErrClosed", err)
	}
}

// TestSlowDiskKeepsMemoryBounded has syncs of 200 ms and more writers than fit:
// what waits stays within the budget, and all of it gets through.
func TestSlowDiskKeepsMemoryBounded(t *testing.T) {
	ffs := quickFS()
	o := testOptions(t.TempDir(), "n1")
	o.FS, o.IntakeBytes = ffs, 256<<10
	l, _ := start(t, o)
	var worst atomic.Int64
	ffs.set(func(op string, _ int) error {
		if op == "sync" {
			time.Sleep(200 * time.Millisecond)
			l.w.in.mu.Lock()
			worst.Store(max(worst.Load(), l.w.in.total()))
			l.w.in.mu.Unlock()
		}
		return nil
	})
	body := strings.Repeat("x", 4096)
	var wg sync.WaitGroup
	for range 200 { // 800 KiB at once
		wg.Go(func() {
			if _, err := l.Append(t.Context(), []event.Draft{{Kind: event.KindPublishing, Body: event.Publishing{Why: body}}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w := worst.Load(); w == 0 || w > o.IntakeBytes {
		t.Fatalf("%d bytes waited, at most %d may", w, o.IntakeBytes)
	}
}

func TestQuotaOfOneHost(t *testing.T) {
	net := newNetwork(t)
	ao, co := testOptions(t.TempDir(), "a"), testOptions(t.TempDir(), "c")
	a, c := net.join(t, ao), net.join(t, co)
	bo := testOptions(t.TempDir(), "b")
	bo.SourceBytes = 64 << 10
	b := net.join(t, bo)
	for i := range 40 {
		mustAppend(t, a, event.Draft{Kind: event.KindPublishing, Body: event.Publishing{Why: strings.Repeat("x", 4<<10)}})
		mustAppend(t, c, note(i))
		_ = b.Sync(t.Context(), "a") // the last ones are refused
	}
	if err := b.Sync(t.Context(), "a"); !errors.Is(err, disk.ErrQuota) {
		t.Fatalf("pull of too much: %v, want disk.ErrQuota", err)
	}
	held := b.Sizes()["a"]
	if held > bo.SourceBytes || held < bo.SourceBytes/2 {
		t.Fatalf("%d bytes of a were taken, at most %d may", held, bo.SourceBytes)
	}
	if err := b.Sync(t.Context(), "c"); err != nil && !errors.Is(err, disk.ErrQuota) {
		t.Fatal(err)
	}
	if got, want := b.Head(c.Source()).Seq, c.Head(c.Source()).Seq; got != want {
		t.Fatalf("%d of %d events of the honest host", got, want)
	}
	mustAppend(t, b, plain(1))
}
