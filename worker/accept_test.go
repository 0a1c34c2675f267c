package worker

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// of assigns chunks of a job of its own to somebody.
func (h *holder) of(owner string, seq uint64, chunks ...int) {
	h.t.Helper()
	a := &stream.Assign{Term: h.term, Seq: seq, Job: job.ID("j-" + owner), Owner: owner, Spec: testSpec()}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	h.send(stream.Frame{Assign: a})
}

// TestHostRunsOnlyWhatItAccepts: a holder that gives it another's chunks gets them
// back, and one that does not say whose they are, too.
func TestHostRunsOnlyWhatItAccepts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) {
			o.MemoryBytes = 512 << 20
			o.Accept = func() job.Acceptance { return job.Acceptance{Accept: job.AcceptUser, Names: []string{"user:bob"}} }
			o.Runs = func(a job.Acceptance, owner string) bool { return a.Allows("user:ann", owner, nil) }
		})
		h := b.dial("n1", 1)
		if w := h.welcome(); w.Accept == nil || w.Accept.String() != "user user:bob" || w.MemoryBytes != 512<<20 {
			t.Fatalf("told %+v", w)
		}
		for i, owner := range []string{"user:eve", ""} {
			h.of(owner, uint64(i+1), 0)
			if r := h.result(); r.Class != job.HandedBack || !strings.Contains(r.Error, "does not run") {
				t.Errorf("a chunk of %q: %+v", owner, r)
			}
		}
		h.of("user:ann", 3, 1)
		h.of("user:bob", 4, 2)
		if got := b.exec.order(); len(got) != 2 {
			t.Errorf("%v runs", got)
		}
	})
}

// TestHostNarrowsWhileChunksRun: what runs ends, what waits goes back, and the
// holder learns it on a new stream.
func TestHostNarrowsWhileChunksRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mode atomic.Value
		mode.Store(job.AcceptPublic)
		b := newBench(t, func(o *Options) {
			o.StatusEvery = time.Second
			o.Accept = func() job.Acceptance { return job.Acceptance{Accept: mode.Load().(job.Accept)} }
			o.Runs = func(a job.Acceptance, owner string) bool { return a.Allows("user:ann", owner, nil) }
		})
		h := b.dial("n1", 1)
		h.welcome()
		h.of("user:eve", 1, 0, 1, 2) // two slots: one waits
		h.of("user:ann", 2, 3)
		if got := b.exec.order(); len(got) != 2 {
			t.Fatalf("%v runs", got)
		}
		mode.Store(job.AcceptOwner)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		again := b.dial("n1", 1)
		w := again.welcome()
		if w.Accept.Accept != job.AcceptOwner || len(w.Assigned) != 3 {
			t.Fatalf("told %v, has %v", w.Accept, w.Assigned)
		}
		if r := again.result(); r.Chunk != 2 || r.Class != job.HandedBack {
			t.Fatalf("given back: %+v", r)
		}
		b.exec.finish(t, job.Attempt{Job: "j-user:eve", Chunk: 0, Number: 1}, nil)
		for {
			f, ok := again.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if f.Result != nil {
				if f.Result.Chunk != 0 || f.Result.Result == nil {
					t.Fatalf("what ran: %+v", f.Result)
				}
				break
			}
		}
		if got := b.exec.order(); len(got) != 3 || got[2].Job != "j-user:ann" {
			t.Errorf("then %v runs", got)
		}
	})
}
