package eventlog

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/audit"
)

// draft300 makes an event as most are in a log: the result of a chunk, about
// 300 bytes.
func draft300() event.Draft {
	return event.Draft{Term: 1, Kind: event.KindChunkAccepted, Body: event.ChunkAccepted{
		Job: job.NewID("uid:1000", "bench"), Chunk: 17, Attempt: 1, Worker: "host-017", Seconds: 0.125,
		Result: job.ChunkResult{Iterations: 1000, Metrics: map[string]job.Metric{
			"hits": {N: 1000, Mean: 0.785, M2: 168.775, Min: 0, Max: 1},
		}},
	}}
}

func benchmarkAppend(b *testing.B, writers int) {
	l, _ := start(b, testOptions(b.TempDir(), "n1"))
	drafts := []event.Draft{draft300()}
	var wg sync.WaitGroup
	work := make(chan struct{}, writers) // one token per append; full: the loop waits
	for range writers {
		wg.Go(func() {
			for range work {
				if _, err := l.Append(context.Background(), drafts); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppend1(b *testing.B)   { benchmarkAppend(b, 1) }
func BenchmarkAppend64(b *testing.B)  { benchmarkAppend(b, 64) }
func BenchmarkAppend512(b *testing.B) { benchmarkAppend(b, 512) }

// fill writes n events straight through the writer's own code, in groups of
// a hundred.
func fill(tb testing.TB, o Options, n int) {
	tb.Helper()
	o.FS = quickFS()
	l, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	drafts := make([]event.Draft, 100)
	for i := range drafts {
		drafts[i] = draft300()
	}
	for range n / len(drafts) {
		r, err := l.prepare(drafts)
		if err != nil {
			tb.Fatal(err)
		}
		r.weight = 0 // it does not pass the intake
		if err := l.w.commit([]*request{r}); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	o := testOptions(b.TempDir(), "n1")
	const n = 100_000
	fill(b, o, n)
	for b.Loop() {
		r, err := audit.Verify(context.Background(), audit.VerifyOptions{Dir: o.Dir, Cluster: o.Cluster, KeyOf: pubFor})
		if err != nil || r.Events != n {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
}

// TestRecoveryOfAMillion measures how long opening a large log takes, three times
// in a row, and reads all of it then. The quick run uses a twentieth.
func TestRecoveryOfAMillion(t *testing.T) {
	n := 50_000
	if os.Getenv("SKEIN_PROVE") != "" {
		n = 1_000_000
	}
	o := testOptions(t.TempDir(), "n1")
	fill(t, o, n)
	for range 3 {
		started := time.Now()
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(started)
		if got := l.Head(l.Source()).Seq; got != uint64(n) {
			t.Fatalf("%d events, want %d", got, n)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		t.Logf("%d events in %d segments recovered and folded in %s, %d MiB of heap afterwards",
			n, len(l.Segments(l.Source())), took.Round(time.Millisecond), m.HeapAlloc>>20)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	prev, read := cluster.Hash{}, 0
	for e, err := range l.Read(l.Source(), 1) {
		if err != nil || e.Prev != prev {
			t.Fatalf("event %d: %v", e.Seq, err)
		}
		prev = e.Hash
		read++
	}
	if read != n {
		t.Fatalf("read %d of %d events", read, n)
	}
}

// BenchmarkReplay replays a running log of 200,000 events as of ten moments, as one who
// drags a slider does. The bound is a second.
func BenchmarkReplay(b *testing.B) {
	o := testOptions(filepath.Join(b.TempDir(), "log"), "n1")
	o.FS = quickFS()
	l, err := Open(o)
	check(b, err)
	for range 2000 {
		r, err := l.prepare(slices.Repeat([]event.Draft{draft300()}, 100))
		check(b, err)
		r.weight = 0 // it does not pass the intake
		check(b, l.w.commit([]*request{r}))
	}
	check(b, l.Close())
	l, stop := start(b, o)
	defer func() { check(b, stop()) }()
	i := uint64(0)
	for b.Loop() {
		i++
		at := audit.At{Position: event.Cursor{l.Source(): l.Head(l.Source()).Seq * (i%10 + 1) / 10}}
		if _, r, err := l.ReplayAt(b.Context(), at); err != nil || r.Events != at.Position[l.Source()] {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
