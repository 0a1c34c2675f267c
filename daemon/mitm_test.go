package daemon

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/executor"
)

// echo computes a chunk in no time: its mean is its index.
type echo struct{ runs atomic.Int64 }

func (e *echo) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (e *echo) Execute(_ context.Context, _ int, t executor.Task) (job.ChunkResult, error) {
	e.runs.Add(1)
	_, n := t.Spec.ChunkRange(t.Attempt.Chunk)
	v := float64(t.Attempt.Chunk)
	return job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{"x": {N: n, Mean: v, Min: v, Max: v}}}, nil
}

// middle stands between the holder and its workers, reads every frame, and does
// to it what a network may do that does not lose the order of its streams, and
// what only an attacker may: it delivers results twice, late, out of order, on
// later streams, in later terms, after their jobs ended, and as another worker's.
type middle struct {
	mu      sync.Mutex
	rng     *rand.Rand
	results []stream.Result // that passed, of all workers
	orders  map[cluster.NodeID][]stream.Frame
	conns   map[net.Conn]bool
	did     map[string]int
	wg      sync.WaitGroup
}

// chance is true once in n times, and counts that.
func (m *middle) chance(n int, what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.IntN(n) > 0 {
		return false
	}
	m.did[what]++
	return true
}

func (m *middle) pause(most time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.rng.Int64N(int64(most)))
}

// old is a result that passed before, nil if there is none.
func (m *middle) old() *stream.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.results) == 0 {
		return nil
	}
	r := m.results[m.rng.IntN(len(m.results))]
	return &r
}

// join connects a holder with the worker w by two connections of the loopback.
func (m *middle) join(ctx context.Context, holder, node cluster.NodeID, w *worker.Worker) (net.Conn, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	near, far, err := pair()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.conns[ours], m.conns[near] = true, true
	m.mu.Unlock()
	both := func() { ours.Close(); near.Close() }
	m.wg.Go(func() { w.Serve(ctx, holder, far) })
	m.wg.Go(func() { defer both(); m.down(ours, near, node) })
	m.wg.Go(func() { defer both(); m.up(near, ours) })
	return theirs, nil
}

// pair is a connection over the loopback.
func pair() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	b, err = l.Accept()
	return a, b, err
}

// cut ends all streams.
func (m *middle) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
	clear(m.conns)
}

// pipe writes frames; it may be used from several goroutines.
type pipe struct {
	mu   sync.Mutex
	to   net.Conn
	enc  stream.Encoder
	fail bool
}

func (p *pipe) send(f stream.Frame) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.enc.Append(nil, f)
	if err == nil && !p.fail {
		_, err = p.to.Write(b)
	}
	p.fail = p.fail || err != nil
	return !p.fail
}

// down carries the holder's frames, and repeats orders of the past.
func (m *middle) down(from, to net.Conn, node cluster.NodeID) {
	in, out := stream.NewDecoder(from), &pipe{to: to}
	for {
		f, err := in.Read()
		if err != nil || !out.send(f) {
			return
		}
		if f.Assign == nil && f.Cancel == nil && f.Accepted == nil {
			continue
		}
		m.mu.Lock()
		m.orders[node] = append(m.orders[node], f)
		late := m.orders[node][m.rng.IntN(len(m.orders[node]))]
		m.mu.Unlock()
		if late.Assign != nil && late.Assign.Seq == 0 || termOf(late) != termOf(f) {
			continue // another term's would end the stream, as it should
		}
		if m.chance(10, "orders again") && !out.send(late) {
			return
		}
	}
}

func termOf(f stream.Frame) cluster.Term {
	switch {
	case f.Assign != nil:
		return f.Assign.Term
	case f.Cancel != nil:
		return f.Cancel.Term
	}
	return f.Accepted.Term
}

// up carries the worker's frames. Results that wait here die with the stream, and
// the worker sends them again.
func (m *middle) up(from, to net.Conn) {
	in, out := stream.NewDecoder(from), &pipe{to: to}
	var late sync.WaitGroup
	defer late.Wait()
	for {
		f, err := in.Read()
		if err != nil {
			return
		}
		if f.Result == nil {
			if !out.send(f) {
				return
			}
			continue
		}
		m.mu.Lock()
		m.results = append(m.results, *f.Result)
		m.mu.Unlock()
		if m.chance(4, "results late") {
			late.Go(func() {
				time.Sleep(m.pause(400 * time.Millisecond)) // the network's own time
				out.send(f)
			})
		} else if !out.send(f) {
			return
		}
		if m.chance(4, "results twice") {
			out.send(f)
		}
		if m.chance(3, "results replayed") {
			out.send(stream.Frame{Result: m.old()})
		}
	}
}

// localLog is a log of one host: what it has written is stable.
type localLog struct{ *eventlog.Log }

func (l localLog) WaitStable(context.Context, uint64) (int, error) { return 1, nil }

// TestResultsInTheMiddle has real schedulers, workers and a real log, and between
// them one who delivers results twice, late, again after their jobs ended, in
// other terms and in other workers' names, repeats orders, and cuts streams,
// while the term changes. Every job has each chunk once, and its own result.
func TestResultsInTheMiddle(t *testing.T) {
	jobs, chunks := 12, 40
	if os.Getenv("SKEIN_PROVE") == "1" {
		jobs, chunks = 300, 100
	}
	seed := rand.Uint64()
	if text := os.Getenv("SKEIN_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SKEIN_SEED=%d", seed)
	m := &middle{
		rng: rand.New(rand.NewPCG(seed, 1)), conns: make(map[net.Conn]bool), did: make(map[string]int),
		orders: make(map[cluster.NodeID][]stream.Frame),
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var holds atomic.Uint64 // the term
	log, err := eventlog.Open(eventlog.Options{
		Dir: t.TempDir(), Cluster: "c", Self: "n1", Key: key, Logger: zerolog.Nop(),
		MayAct: func(term cluster.Term) bool { return uint64(term) == holds.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = log.Run(ctx) }) // ends with ctx
	began := time.Now()
	work := &echo{}
	workers := make(map[cluster.NodeID]*worker.Worker)
	for _, n := range []cluster.NodeID{"n1", "n2", "n3"} {
		w, err := worker.New(worker.Options{
			Slots: 2, Executors: map[string]worker.Executor{job.ExecutorWASM: work}, StatusEvery: 200 * time.Millisecond,
			OutboxFile: filepath.Join(t.TempDir(), "outbox"), Logger: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		workers[n] = w
		running.Go(func() { _ = w.Run(ctx) })
	}
	sched, err := scheduler.New(scheduler.Options{
		Self: "n1", Log: localLog{log}, Logger: zerolog.Nop(), Now: func() time.Duration { return time.Since(began) },
		MayAct: func(term cluster.Term) bool { return uint64(term) == holds.Load() },
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return m.join(context.WithoutCancel(ctx), "n1", to, workers[to])
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	sched.SetWorkers([]cluster.NodeID{"n1", "n2", "n3"})
	term := func() (stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		id := cluster.Term(holds.Add(1))
		over := make(chan error, 1)
		go func() { over <- sched.Run(ctx, id) }()
		return func() {
			cancel()
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("term %d: %v", id, err)
			}
		}
	}
	defer m.wg.Wait()
	defer m.cut()
	stop := term()
	defer func() { stop() }()

	spec := func(i int) job.Spec {
		return job.Spec{Key: fmt.Sprint("k", i), Artefact: cluster.Hash{1}, Iterations: uint64(10 * chunks), Chunk: 10}
	}
	ended := func(id job.ID) (j state.Job) {
		log.View(func(s *state.State) { j, _ = s.Job(id) })
		return j
	}
	ids := make([]job.ID, jobs)
	for i := range ids {
		for {
			sub, err := sched.Submit(ctx, spec(i), "uid:1", scheduler.WaitStable, true)
			if err == nil {
				ids[i] = sub.Job
				break
			}
			if !errors.Is(err, scheduler.ErrNotHolder) && !errors.Is(err, scheduler.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // the next term begins
		}
		rare := 3
		if i == jobs/2 {
			rare = 1 // once in any case
		}
		if m.chance(rare, "streams cut") {
			m.cut()
		}
		if i%5 == 4 {
			stop()
			stop = term()
		}
	}
	deadline := time.Now().Add(2*time.Minute + time.Duration(jobs)*time.Second)
	for _, id := range ids {
		for !ended(id).State.Final() {
			if time.Now().After(deadline) {
				t.Fatalf("job %s: %+v", id, ended(id))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	iterations := uint64(0)
	for _, id := range ids {
		j := ended(id)
		iterations += j.Iterations
		x := j.Aggregates[0]
		if j.State != job.Completed || j.Counts.Accepted != chunks || j.Iterations != j.Spec.Iterations || j.Disputed != 0 || j.Failures != 0 ||
			x.N != j.Iterations || x.Mean != float64(chunks-1)/2 || x.Max != float64(chunks-1) {
			t.Errorf("job %s: %s, %+v, %d iterations, %d disputed, %d failures, %+v", id, j.State, j.Counts, j.Iterations, j.Disputed, j.Failures, x)
		}
	}
	accepts := make(map[string]int)
	for e, err := range log.Between(log.Oldest(), log.Heads()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != event.KindChunksAccepted {
			continue
		}
		b, err := bodyOf[event.ChunksAccepted](e)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range b.Accepts {
			accepts[fmt.Sprint(b.Job, "/", a.Chunk)]++
		}
	}
	for chunk, n := range accepts {
		if n != 1 {
			t.Errorf("chunk %s was accepted %d times", chunk, n)
		}
	}
	if want := jobs * chunks; len(accepts) != want {
		t.Errorf("%d chunks accepted of %d", len(accepts), want)
	}
	for _, what := range []string{"results twice", "results late", "results replayed", "orders again", "streams cut"} {
		if m.did[what] == 0 {
			t.Errorf("no %s: the test lost its point", what)
		}
	}
	t.Logf("SUMMARY: results in the middle: %d jobs, %d terms, iterations submitted %d, accepted %d, %d chunks run for %d; %v", jobs, holds.Load(), 10*jobs*chunks, iterations, work.runs.Load(), jobs*chunks, m.did)
}

func bodyOf[T any](e event.Event) (b T, err error) {
	return b, json.Unmarshal(e.Body, &b)
}
