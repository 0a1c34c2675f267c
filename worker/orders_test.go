package worker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/ends"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/executor"
	"github.com/skein-project/skein/worker/outbox"
	"github.com/skein-project/skein/worker/runner"
)

// order assigns with a place in the order of commands.
func (h *holder) order(seq uint64, chunks ...int) {
	h.t.Helper()
	a := &stream.Assign{Term: h.term, Seq: seq, Job: "j", Spec: testSpec()}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	h.send(stream.Frame{Assign: a})
}

// A dispatch that comes again starts nothing anew, and one that comes late
// starts nothing at all, also after its work is done.
func TestLateDispatchStartsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		h := b.dial("h", 1)
		h.welcome()
		h.order(5, 0)
		b.exec.finish(t, ref(0, 1), nil)
		h.result()
		h.order(5, 0) // its answer seemed to be lost
		if r := h.result(); r.Attempt != ref(0, 1) {
			t.Fatalf("sent again: %+v", r)
		}
		h.send(stream.Frame{Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{ref(0, 1)}}})
		h.order(5, 0) // once more, when all is over
		h.order(4, 1) // and an earlier one
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Seq: 7, Job: "j"}})
		if f, _ := h.next(); f.Stopped == nil || f.Stopped.Seq != 7 {
			t.Fatalf("got %+v, want the cancel confirmed", f)
		}
		h.order(6, 2) // overtaken by the cancel
		h.quiet()
		if n := len(b.exec.order()); n != 1 {
			t.Errorf("%d attempts started, want 1", n)
		}
		h.order(8, 3)
		synctest.Wait()
		if n := len(b.exec.order()); n != 2 {
			t.Errorf("%d attempts started, want 2", n)
		}
	})
}

// A cancel is confirmed when the last attempt has really ended, a second cancel
// of the same as well.
func TestCancelIsConfirmedAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.exec.deaf = true
		h := b.dial("h", 1)
		h.welcome()
		h.order(1, 0, 1, 2)
		synctest.Wait()
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Seq: 2, Job: "j"}})
		h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Seq: 3, Job: "j"}})
		b.exec.finish(t, ref(0, 1), nil)
		h.quiet() // one still runs
		b.exec.finish(t, ref(1, 1), errors.New("late"))
		for want := uint64(2); want <= 3; want++ {
			if f, _ := h.next(); f.Stopped == nil || f.Stopped.Seq != want || f.Stopped.Job != "j" {
				t.Fatalf("got %+v, want cancel %d confirmed", f, want)
			}
		}
		h.quiet()
	})
}

// What a worker has is told after every command before the question.
func TestQuery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots = 1 })
		h := b.dial("h", 1)
		h.welcome()
		h.order(1, 0, 1, 2)
		b.exec.finish(t, ref(0, 1), nil)
		h.result()
		h.send(stream.Frame{Query: &stream.Ping{Term: 1, Nonce: 9}})
		f, _ := h.next()
		if a := f.Assigned; a == nil || a.Nonce != 9 || !slices.Equal(a.Refs, []job.Attempt{ref(1, 1), ref(2, 1)}) || !slices.Equal(a.Kept, []job.Attempt{ref(0, 1)}) {
			t.Fatalf("got %+v", f)
		}
		h.send(stream.Frame{Query: &stream.Ping{Term: 2, Nonce: 9}})
		h.refused("out of place")
	})
}

// Without a word of any holder for as long as assignments last, work stops;
// results are kept.
func TestSilenceFences(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots, o.FenceAfter, o.StatusEvery = 2, 100*time.Second, 2*time.Second })
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0, 1, 2, 3)
		b.exec.finish(t, ref(0, 1), nil)
		synctest.Wait()
		h.conn.Close()
		time.Sleep(99 * time.Second)
		if v := b.View(); len(v.Running) != 2 || v.Queued != 1 {
			t.Fatalf("before: %+v", v)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if v := b.View(); len(v.Running) != 0 || v.Queued != 0 || v.Kept != 1 {
			t.Fatalf("after: %+v", v)
		}
		w := b.dial("h", 1)
		if m := w.welcome(); len(m.Assigned) != 0 {
			t.Errorf("assigned %v", m.Assigned)
		}
		if r := w.result(); r.Attempt != ref(0, 1) {
			t.Errorf("kept %+v", r)
		}
	})
}

func TestDrain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drained")
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.DrainFile = file })
		h := b.dial("h", 1)
		if h.welcome().Draining {
			t.Error("drains from the start")
		}
		h.assign(0, 1, 2)
		synctest.Wait()
		if err := b.Drain(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if f, _ := h.next(); f.Status == nil || !f.Status.Draining || f.Status.Ready || len(f.Status.Running) != 2 {
			t.Fatalf("got %+v, want a status first", f)
		}
		if r := h.result(); r.Attempt != ref(2, 1) || r.Class != job.HandedBack {
			t.Fatalf("got %+v, want the queued attempt back", r)
		}
		h.assign(3) // sent before the holder knew
		if r := h.result(); r.Attempt != ref(3, 1) || r.Class != job.HandedBack {
			t.Fatalf("got %+v, want it back", r)
		}
		b.exec.finish(t, ref(0, 1), nil)
		if r := h.result(); r.Result == nil {
			t.Fatalf("got %+v, want the running one's result", r)
		}
		if v := b.View(); !v.Draining || v.Stopping {
			t.Errorf("view %+v", v)
		}
	})
	bubble(t, func(t *testing.T) { // a restart does not end it
		b := newBench(t, func(o *Options) { o.DrainFile = file })
		h := b.dial("h", 2)
		if !h.welcome().Draining {
			t.Error("the drain was forgotten")
		}
		for range 2 {
			if err := b.Drain(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		if f, _ := h.next(); f.Status == nil || f.Status.Draining || !f.Status.Ready {
			t.Fatalf("got %+v", f)
		}
		h.assign(4)
		synctest.Wait()
		if len(b.exec.order()) != 1 {
			t.Error("nothing begins after the drain")
		}
	})
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file of the drain: %v", err)
	}
}

// One host cannot hold more than a few connections open, another is served all
// the same.
func TestConnectionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, nil)
		refused := make(chan struct{}, 1000)
		for range 1000 {
			near, far := net.Pipe()
			t.Cleanup(func() { near.Close() })
			go func() {
				began := time.Now()
				b.Serve(context.Background(), "crowd", far)
				if time.Since(began) == 0 {
					refused <- struct{}{}
				}
			}()
		}
		synctest.Wait()
		if n := len(refused); n != 1000-maxConnections {
			t.Errorf("%d of 1000 refused at once", n)
		}
		b.dial("h", 1).welcome()
		time.Sleep(time.Minute) // the others said nothing
		b.dial("crowd", 2).welcome()
	})
}

// Progress never falls, never exceeds the chunk, and tells how long it stands.
func TestProgressInStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reports := make(chan func(uint64), 1)
		b := newBench(t, func(o *Options) {
			o.StatusEvery = 10 * time.Second
			o.Executors = map[string]Executor{"wasm": reporting{newFake(), reports}}
		})
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0)
		report := <-reports
		time.Sleep(3 * time.Second)
		for _, n := range []uint64{4, 2, 0} {
			report(n)
		}
		f, _ := h.next()
		if p := f.Status.Progress; len(p) != 1 || p[0].Done != 4 || p[0].Idle != 7 || p[0].Seconds != 10 {
			t.Fatalf("progress %+v", p)
		}
		report(1 << 40)
		f, _ = h.next()
		if p := f.Status.Progress; len(p) != 1 || p[0].Done != 10 {
			t.Fatalf("progress %+v", p)
		}
	})
}

// TestAsksGoAtOnce: who wants more time is heard at once, with what was done by then, and
// in every status from then on; what it asks in a loop is not.
func TestAsksGoAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tasks := make(chan executor.Task, 1)
		b := newBench(t, func(o *Options) {
			o.StatusEvery = 10 * time.Second
			o.Executors = map[string]Executor{"wasm": asking{newFake(), tasks}}
		})
		h := b.dial("h", 1)
		h.welcome()
		h.assign(0)
		task := <-tasks
		began := time.Now()
		want := stream.Ask{Number: 1, Seconds: 30, Reason: "a large frame"}
		for done := range uint64(2) {
			task.Report(done + 1)
			task.Ask(runner.Ask{Seconds: want.Seconds, Reason: want.Reason})
			f, _ := h.next()
			if p := f.Status.Progress; len(p) != 1 || p[0].Ask == nil || *p[0].Ask != want || p[0].Done != done+1 || time.Since(began) != 0 {
				t.Fatalf("after %s: progress %+v, want ask %+v", time.Since(began), p, want)
			}
			want.Number++
		}
		if f, _ := h.next(); time.Since(began) != 10*time.Second || f.Status.Progress[0].Ask.Number != 2 {
			t.Fatalf("after %s: %+v", time.Since(began), f.Status.Progress)
		}
		for range 1000 {
			task.Ask(runner.Ask{Seconds: 1})
			synctest.Wait()
		}
		latest := 0
		for time.Since(began) < 30*time.Second {
			f, _ := h.next()
			latest = f.Status.Progress[0].Ask.Number
		}
		if latest != ends.MaxAsks {
			t.Errorf("the latest request is number %d", latest)
		}
	})
}

type asking struct {
	*fake
	tasks chan executor.Task
}

func (a asking) Execute(ctx context.Context, slot int, t executor.Task) (job.ChunkResult, error) {
	a.tasks <- t
	return a.fake.Execute(ctx, slot, t)
}

type reporting struct {
	*fake
	reports chan func(uint64)
}

func (r reporting) Execute(ctx context.Context, slot int, t executor.Task) (job.ChunkResult, error) {
	r.reports <- t.Report
	return r.fake.Execute(ctx, slot, t)
}

// TestManyKeptResultsFitAFrame: however many results wait, the list of them is a
// frame that the holder takes, and the latest are in it.
func TestManyKeptResultsFitAFrame(t *testing.T) {
	l := &loop{Worker: &Worker{}, running: map[job.Attempt]*run{}, outbox: outbox.New(1<<30, time.Hour)}
	id := job.NewID("uid:1000", "k")
	for i := range 70_000 {
		l.queue = append(l.queue[:min(i, 1000)], queuedTask{Task: executor.Task{Attempt: job.Attempt{Job: id, Chunk: 1 << 20, Number: i + 1}}})
		if err := l.outbox.Add(stream.Result{Attempt: job.Attempt{Job: id, Chunk: 1<<21 + i, Number: 1}, Error: "no"}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := stream.Write(&b, l.have(7)); err != nil {
		t.Fatal(err)
	}
	f, err := stream.Read(&b)
	if err != nil || len(f.Assigned.Refs) != 1001 || len(f.Assigned.Kept) != maxHave-1001 || f.Assigned.Kept[len(f.Assigned.Kept)-1].Chunk != 1<<21+69_999 {
		t.Fatalf("%v: %d assigned, %d kept", err, len(f.Assigned.Refs), len(f.Assigned.Kept))
	}
}
