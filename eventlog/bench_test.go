package eventlog

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// running writes n events of jobs that run: every second one gives a chunk out, the others
// bring results. None of the jobs ends, so that the state keeps every chunk.
func running(tb testing.TB, o Options, n int) {
	tb.Helper()
	const chunks = 500
	o.FS = quickFS()
	l, err := Open(o)
	check(tb, err)
	defer l.Close()
	write := func(drafts ...event.Draft) {
		r, err := l.prepare(drafts)
		check(tb, err)
		r.weight = 0 // it does not pass the intake
		check(tb, l.w.commit([]*request{r}))
	}
	write(event.Draft{Term: 1, Kind: event.KindTermStart, Body: event.TermStart{Term: 1}})
	for i := 0; n > 1; i++ {
		id := job.NewID("o", fmt.Sprint(i))
		spec := job.Spec{Key: fmt.Sprint(i), Artefact: cluster.Hash{1}, Iterations: chunks * 1000, Chunk: 1000}.WithDefaults()
		drafts := []event.Draft{{Term: 1, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{Job: id, Spec: spec, Owner: "o", Chunks: chunks}}}
		for c := range min(chunks, n/2) {
			worker := cluster.NodeID(fmt.Sprintf("host-%03d", c%50))
			drafts = append(drafts, event.Draft{Term: 1, Kind: event.KindChunksAssigned, Body: event.ChunksAssigned{
				Job: id, Assignments: []job.Attempt{{Chunk: c, Number: 1, Worker: worker}},
			}}, event.Draft{Term: 1, Kind: event.KindChunksAccepted, Body: event.ChunksAccepted{Job: id, Accepts: []event.Accept{{
				Chunk: c, Attempt: 1, Worker: worker, Seconds: 0.125, Result: job.ChunkResult{Iterations: 1000, Metrics: map[string]job.Metric{
					"hits": {N: 1000, Mean: 0.785, M2: 168.775, Min: 0, Max: 1},
				}},
			}}}})
		}
		n -= len(drafts)
		for part := range slices.Chunk(drafts, 100) {
			write(part...)
		}
	}
}

// BenchmarkReplay replays a running log of 200,000 events as of some moments: the first
// one, the next ones as somebody drags a slider asks for them, and from the files.
func BenchmarkReplay(b *testing.B) {
	o := testOptions(filepath.Join(b.TempDir(), "log"), "n1")
	running(b, o, 200_000)
	l, stop := start(b, o)
	defer func() { check(b, stop()) }()
	var clocks []cluster.HLC
	for e, err := range l.Between(l.Oldest(), l.Heads()) {
		check(b, err)
		clocks = append(clocks, e.HLC)
	}
	ask := func(b *testing.B, i int, f func(cluster.HLC) (audit.Replayed, error)) {
		b.Helper()
		r, err := f(clocks[i])
		if err != nil || r.Events != uint64(i+1) || r.Malformed > 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	rewind := func(r *audit.Rewind) func(cluster.HLC) (audit.Replayed, error) {
		return func(at cluster.HLC) (audit.Replayed, error) {
			_, is, err := r.At(b.Context(), at)
			return is, err
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			ask(b, len(clocks)-1, rewind(l.Rewind()))
		}
	})
	b.Run("warm", func(b *testing.B) {
		r := l.Rewind()
		ask(b, len(clocks)-1, rewind(r))
		rnd, most := rand.New(rand.NewPCG(1, 2)), time.Duration(0)
		for b.Loop() {
			began := time.Now()
			ask(b, rnd.IntN(len(clocks)), rewind(r))
			most = max(most, time.Since(began))
		}
		b.ReportMetric(float64(most.Milliseconds()), "most-ms")
	})
	b.Run("files", func(b *testing.B) {
		for b.Loop() {
			ask(b, len(clocks)-1, func(at cluster.HLC) (audit.Replayed, error) {
				_, is, err := l.ReplayAt(b.Context(), audit.At{Clock: at})
				return is, err
			})
		}
	})
}
