package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// fake is an executor whose attempts end when the test says so.
type fake struct {
	mu      sync.Mutex
	waiting map[job.Attempt]chan error
	started []job.Attempt
	deaf    bool // ignores cancellation
}

func newFake() *fake { return &fake{waiting: map[job.Attempt]chan error{}} }

func (f *fake) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Execute(ctx context.Context, _ int, t executor.Task) (job.ChunkResult, error) {
	end := make(chan error, 1)
	f.mu.Lock()
	f.waiting[t.Attempt] = end
	if t.Words != nil {
		fmt.Fprintf(t.Words, "words of %s\n", t.Attempt)
	}
	f.started = append(f.started, t.Attempt)
	deaf := f.deaf
	f.mu.Unlock()
	done := ctx.Done()
	if deaf {
		done = nil
	}
	select {
	case err := <-end:
		_, n := t.Spec.ChunkRange(t.Attempt.Chunk)
		return job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{"x": {N: n, Mean: 1, Min: 1, Max: 1}}}, err
	case <-done:
		return job.ChunkResult{}, ctx.Err()
	}
}

// finish ends a running attempt.
func (f *fake) finish(t *testing.T, r job.Attempt, err error) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	end, ok := f.waiting[r]
	if !ok {
		t.Fatalf("%v is not running", r)
	}
	delete(f.waiting, r)
	end <- err
}

func (f *fake) order() []job.Attempt {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]job.Attempt(nil), f.started...)
}

// bench is a worker under test, inside a synctest bubble.
type bench struct {
	*Worker
	t    *testing.T
	exec *fake
	stop context.CancelFunc
	over chan error // capacity 1
}

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, exec: newFake(), over: make(chan error, 1)}
	o := Options{
		Slots: 2, Executors: map[string]Executor{"wasm": b.exec}, Registerer: prometheus.NewRegistry(),
		StatusEvery: time.Hour,
	}
	if change != nil {
		change(&o)
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Worker = w
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.Background())
	go func() { b.over <- w.Run(ctx) }()
	t.Cleanup(func() {
		b.stop()
		<-w.done
	})
	return b
}

// end stops the worker and returns what Run said.
func (b *bench) end() error {
	b.stop()
	return <-b.over
}

// holder is the scheduler's side of a stream. Its frames arrive in a channel
// that has room for all of a test.
type holder struct {
	t    *testing.T
	conn net.Conn
	term cluster.Term
	in   chan stream.Frame
}

func (b *bench) dial(from cluster.NodeID, term cluster.Term) *holder {
	b.t.Helper()
	near, far := net.Pipe()
	h := &holder{t: b.t, conn: near, term: term, in: make(chan stream.Frame, 10_000)}
	go b.Serve(context.Background(), from, far)
	go func() {
		defer close(h.in)
		for {
			f, err := stream.Read(near)
			if err != nil {
				return
			}
			h.in <- f
		}
	}()
	b.t.Cleanup(func() { near.Close() })
	h.send(stream.Frame{Hello: &stream.Hello{Term: term, Holder: from}})
	return h
}

func (h *holder) send(f stream.Frame) {
	h.t.Helper()
	_ = h.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if err := stream.Write(h.conn, f); err != nil {
		h.t.Fatalf("send: %v", err)
	}
}

// next returns the next frame; ok is false at the end of the stream.
func (h *holder) next() (f stream.Frame, ok bool) {
	h.t.Helper()
	select {
	case f, ok = <-h.in:
		return f, ok
	case <-time.After(10 * time.Minute): // of the bubble's time
		h.t.Fatal("no frame")
	}
	return f, false
}

func (h *holder) welcome() *stream.Welcome {
	h.t.Helper()
	f, _ := h.next()
	if f.Welcome == nil {
		h.t.Fatalf("got %+v, want a welcome", f)
	}
	return f.Welcome
}

func (h *holder) refused(why string) {
	h.t.Helper()
	f, _ := h.next()
	if f.Refused == nil || !strings.Contains(f.Refused.Reason, why) {
		h.t.Fatalf("got %+v, want a refusal because of %q", f, why)
	}
	if f, ok := h.next(); ok {
		h.t.Fatalf("after the refusal: %+v", f)
	}
}

func (h *holder) result() *stream.Result {
	h.t.Helper()
	f, _ := h.next()
	if f.Result == nil {
		h.t.Fatalf("got %+v, want a result", f)
	}
	return f.Result
}

// quiet checks that nothing more has come.
func (h *holder) quiet() {
	h.t.Helper()
	synctest.Wait()
	select {
	case f, ok := <-h.in:
		h.t.Fatalf("got %+v (%v), want nothing", f, ok)
	default:
	}
}

func testSpec() job.Spec {
	return job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 10}.WithDefaults()
}

func ref(chunk, attempt int) job.Attempt { return job.Attempt{Job: "j", Chunk: chunk, Number: attempt} }

func (h *holder) assign(chunks ...int) {
	h.t.Helper()
	a := &stream.Assign{Term: h.term, Job: "j", Spec: testSpec()}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	h.send(stream.Frame{Assign: a})
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestResultIsKeptUntilAccepted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		h := b.dial("h", 1)
		if w := h.welcome(); w.Slots != 2 || !reflect.DeepEqual(w.Executors, []string{"wasm"}) || len(w.Assigned) != 0 {
			t.Fatalf("welcome %+v", w)
		}
		h.assign(0, 1, 2)
		b.exec.finish(t, ref(0, 1), nil)
		if r := h.result(); r.Attempt != ref(0, 1) || r.Result == nil || r.Result.Iterations != 10 {
			t.Fatalf("result %+v", r)
		}
		b.exec.finish(t, ref(1, 1), errors.New("no luck"))
		if r := h.result(); r.Attempt != ref(1, 1) || r.Error != "no luck" {
			t.Fatalf("result %+v", r)
		}
		h.send(stream.Frame{Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{ref(0, 1)}}})
		h.conn.Close()
		synctest.Wait()

		again := b.dial("h", 1)
		if w := again.welcome(); !reflect.DeepEqual(w.Assigned, []job.Attempt{ref(2, 1)}) {
			t.Fatalf("assigned %v", w.Assigned)
		}
		if r := again.result(); r.Attempt != ref(1, 1) {
			t.Fatalf("sent again: %+v", r)
		}
		again.quiet()
	})
}

// A lost holder stops nothing: the next one finds the work done.
func TestWorkGoesOnWithoutHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		old := b.dial("h1", 1)
		old.welcome()
		old.assign(0, 1, 2, 3)
		synctest.Wait()
		old.conn.Close()
		synctest.Wait()
		for c := range 4 {
			b.exec.finish(t, ref(c, 1), nil)
		}
		synctest.Wait()
		if v := b.View(); v.Kept != 4 || v.Holder != "" || len(v.Running) != 0 {
			t.Fatalf("view %+v", v)
		}
		h := b.dial("h2", 2)
		h.welcome()
		for c := range 4 {
			if r := h.result(); r.Attempt != ref(c, 1) {
				t.Fatalf("result %d is of %v", c, r.Attempt)
			}
		}
	})
}

func TestTerms(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var known cluster.Term
		var mu sync.Mutex
		b := newBench(t, func(o *Options) {
			o.MinTerm = func() cluster.Term { mu.Lock(); defer mu.Unlock(); return known }
			o.CheckHolder = func(from cluster.NodeID, _ cluster.Term) error {
				if from == "mallory" {
					return errors.New("mallory does not hold the lease")
				}
				return nil
			}
		})
		h5 := b.dial("h", 5)
		h5.welcome()
		b.dial("h", 4).refused("term 4 is over, term 5 is known")
		b.dial("other", 5).refused("term 5 belongs to h")
		b.dial("mallory", math.MaxUint64).refused("does not hold")
		h5.assign(0) // still served
		b.exec.finish(t, ref(0, 1), nil)
		h5.result()

		h6 := b.dial("other", 6)
		h6.welcome()
		h6.result()
		h5.refused("replaced")

		mu.Lock()
		known = 9
		mu.Unlock()
		h6.assign(1)
		h6.refused("term 9 is known")
		if n := len(b.exec.order()); n != 1 {
			t.Errorf("%d attempts started, the stale one must not", n)
		}
		b.dial("other", 8).refused("term 9 is known")
		b.dial("other", 9).welcome()
	})
}

func TestFramesOutOfPlaceEndTheStream(t *testing.T) {
	for name, f := range map[string]stream.Frame{
		"other term assign":   {Assign: &stream.Assign{Term: 2, Job: "j", Spec: testSpec(), Chunks: []job.Attempt{{Chunk: 0, Number: 1}}}},
		"other term cancel":   {Cancel: &stream.Cancel{Term: 4, Job: "j"}},
		"other term accepted": {Accepted: &stream.Accepted{Term: 4}},
		"second hello":        {Hello: &stream.Hello{Term: 3, Holder: "h"}},
		"a worker's frame":    {Status: &stream.Status{}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, nil)
				h := b.dial("h", 3)
				h.welcome()
				h.send(f)
				h.refused("out of place")
				if n := len(b.exec.order()); n != 0 {
					t.Errorf("%d attempts started", n)
				}
			})
		})
	}
}

func TestGarbageInsteadOfHello(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		for _, in := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x02{}", "\x00\x00\x00\x04null"} {
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() { defer close(done); b.Serve(context.Background(), "x", far) }()
			_, _ = near.Write([]byte(in))
			<-done // also in silence: the bubble's clock runs
			near.Close()
		}
		near, far := net.Pipe()
		b.Serve(context.Background(), "x", far) // says nothing: ends at the deadline
		near.Close()
	})
}

func TestSameAssignTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2)
		h.assign(0, 1, 2)
		b.exec.finish(t, ref(0, 1), nil)
		h.result()
		h.assign(0) // the result seems to be lost
		if r := h.result(); r.Attempt != ref(0, 1) {
			t.Fatalf("sent again: %+v", r)
		}
		b.exec.finish(t, ref(1, 1), nil)
		b.exec.finish(t, ref(2, 1), nil)
		h.result()
		h.result()
		h.quiet()
		if got := b.exec.order(); len(got) != 3 || got[2] != ref(2, 1) {
			t.Fatalf("started %v", got)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots = 1 })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2, 3)
		b.exec.finish(t, ref(0, 1), nil)
		h.result()
		synctest.Wait() // 1 runs, 2 and 3 wait
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Job: "j", Chunks: []job.Attempt{{Chunk: 0, Number: 1}, {Chunk: 1, Number: 1}, {Chunk: 2, Number: 1}}}})
		b.exec.finish(t, ref(3, 1), nil)
		if r := h.result(); r.Attempt != ref(3, 1) {
			t.Fatalf("result %+v", r)
		}
		if v := b.View(); v.Kept != 1 || v.Queued != 0 || len(v.Running) != 0 {
			t.Fatalf("view %+v", v)
		}
		h.assign(4, 5)
		synctest.Wait()
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Job: "other"}})
		synctest.Wait()
		if v := b.View(); len(v.Running) != 1 || v.Queued != 1 {
			t.Fatalf("another job's cancel: %+v", v)
		}
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Job: "j"}})
		synctest.Wait()
		if v := b.View(); len(v.Running) != 0 || v.Queued != 0 || v.Kept != 0 {
			t.Fatalf("after the job's cancel: %+v", v)
		}
		h.quiet()
	})
}

func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots, o.Queue = 1, 3 })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2)
		h.assign(3, 4, 5)
		h.refused("queue is full")
		if w := b.dial("h", 1).welcome(); len(w.Assigned) != 3 {
			t.Fatalf("assigned %v, want what fitted", w.Assigned)
		}
	})
}

func TestFullOutboxStopsNewWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) {
			o.Slots, o.OutboxBytes, o.KeepFor, o.StatusEvery = 1, 10, 30*time.Minute, time.Minute
		})
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2)
		b.exec.finish(t, ref(0, 1), nil)
		h.result()
		if n := len(b.exec.order()); n != 1 {
			t.Fatalf("%d attempts started over a full outbox", n)
		}
		h.send(stream.Frame{Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{ref(0, 1)}}})
		b.exec.finish(t, ref(1, 1), nil)
		h.result()
		if n := len(b.exec.order()); n != 2 {
			t.Fatalf("%d attempts started", n)
		}
		for len(b.exec.order()) < 3 { // nobody accepts: given up in time
			if f, _ := h.next(); f.Status == nil {
				t.Fatalf("got %+v", f)
			}
			h.send(stream.Frame{Accepted: &stream.Accepted{Term: 1}}) // the holder lives
		}
		if v := b.View(); v.Kept != 0 {
			t.Errorf("%d results kept", v.Kept)
		}
	})
}

func TestStatusAndPing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots, o.StatusEvery = 1, 2*time.Second })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1)
		began := time.Now()
		f, _ := h.next()
		if f.Status == nil || !reflect.DeepEqual(f.Status.Running, []job.Attempt{ref(0, 1)}) || f.Status.Queued != 1 {
			t.Fatalf("got %+v", f)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("status after %s", d)
		}
		h.send(stream.Frame{Ping: &stream.Ping{Nonce: 7}})
		if f, _ := h.next(); f.Pong == nil || f.Pong.Nonce != 7 {
			t.Fatalf("got %+v", f)
		}
	})
}

// A holder that does not read costs a bounded amount of memory and stalls
// nobody.
func TestHolderThatDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); b.Serve(context.Background(), "h", far) }()
		if err := stream.Write(near, stream.Frame{Hello: &stream.Hello{Term: 1, Holder: "h"}}); err != nil {
			t.Fatal(err)
		}
		<-served // the write deadline ends it
		near.Close()
		b.dial("h", 1).welcome()
	})
}

func TestDrainWaitsForRunningChunks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2)
		synctest.Wait()
		b.stop()
		synctest.Wait()
		b.dial("h", 1).refused("stops")
		b.exec.finish(t, ref(0, 1), nil)
		b.exec.finish(t, ref(1, 1), nil)
		if r := h.result(); r.Attempt != ref(2, 1) || r.Class != job.HandedBack {
			t.Errorf("got %+v, want the queued attempt given back", r)
		}
		h.result()
		h.result()
		h.refused("stops")
		if err := <-b.over; err != nil {
			t.Fatal(err)
		}
		if n := len(b.exec.order()); n != 2 {
			t.Errorf("%d attempts started, the queued one must not", n)
		}
		near, far := net.Pipe() // after the end
		go b.Serve(context.Background(), "h", far)
		_ = stream.Write(near, stream.Frame{Hello: &stream.Hello{Term: 1, Holder: "h"}})
		if f, err := stream.Read(near); err != nil || f.Refused == nil {
			t.Errorf("after the end: %+v, %v", f, err)
		}
		near.Close()
	})
}

func TestDrainIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.DrainTimeout = 3 * time.Second })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0)
		synctest.Wait()
		began := time.Now()
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("took %s, want 3s", d)
		}
		if r := h.result(); r.Attempt != ref(0, 1) || r.Class != job.HandedBack {
			t.Errorf("got %+v: a stop is no verdict about the chunk", r)
		}
		h.refused("stops")
	})
}

func TestDeafExecutorDoesNotHoldTheStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.exec.deaf = true
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0)
		synctest.Wait()
		if err := b.end(); err == nil || !strings.Contains(err.Error(), "1 attempts did not end") {
			t.Fatalf("end: %v", err)
		}
		b.exec.finish(t, ref(0, 1), nil)
	})
}

type failing struct{ *fake }

func (failing) Run(context.Context) error { return errors.New("no threads") }

func TestExecutorThatEndsEndsTheWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Executors = map[string]Executor{"wasm": failing{newFake()}} })
		if err := <-b.over; err == nil || !strings.Contains(err.Error(), "executor wasm: no threads") {
			t.Fatalf("end: %v", err)
		}
	})
}

func TestOutboxSurvivesARestart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "outbox")
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.OutboxFile = name })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1)
		b.exec.finish(t, ref(0, 1), nil)
		b.exec.finish(t, ref(1, 1), errors.New("no luck"))
		h.result()
		h.result()
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
	})
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, `{"job":"j","chunk":-1}`)
	fmt.Fprintln(f, "rot")
	f.Close()
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.OutboxFile = name })
		h := b.dial("h", 2)
		h.welcome()
		if r := h.result(); r.Attempt != ref(0, 1) || r.Result == nil {
			t.Fatalf("first %+v", r)
		}
		if r := h.result(); r.Attempt != ref(1, 1) || r.Error != "no luck" {
			t.Fatalf("second %+v", r)
		}
		h.send(stream.Frame{Accepted: &stream.Accepted{Term: 2, Refs: []job.Attempt{ref(0, 1), ref(1, 1)}}})
		h.quiet()
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty outbox left its file: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	exec := map[string]Executor{"wasm": newFake()}
	for name, o := range map[string]Options{
		"no executor":    {},
		"nil executor":   {Executors: map[string]Executor{"wasm": nil}},
		"slots":          {Executors: exec, Slots: executor.MaxSlots + 1},
		"negative slots": {Executors: exec, Slots: -1},
		"queue":          {Executors: exec, Queue: -1},
		"outbox":         {Executors: exec, OutboxBytes: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := artefact.New(artefact.Options{}); err == nil {
		t.Error("store without directory: accepted")
	}
	if _, err := executor.NewWASM(executor.WASMOptions{}); err == nil {
		t.Error("executor without store: accepted")
	}
}
