package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/executor"
	"github.com/skein-project/skein/worker/words"
)

// TestLogs: of whose attempts words are kept, and which of them outlive this host.
func TestLogs(t *testing.T) {
	for logs, want := range map[job.Logs][]int{"": {1, 3}, job.LogsNone: nil, job.LogsFailed: {1, 3}, job.LogsAll: {0, 1, 3}} {
		t.Run(string(logs), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ring, err := words.Open(words.Options{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				var stored []string
				b := newBench(t, func(o *Options) {
					o.Slots, o.Words = 4, ring
					o.KeepLog = func(text []byte) (cluster.Hash, error) {
						stored = append(stored, string(text))
						return cluster.Hash{7}, nil
					}
				})
				h := b.dial("h", 1)
				h.welcome()
				spec := testSpec()
				spec.Logs = logs
				h.send(stream.Frame{Assign: &stream.Assign{Term: 1, Job: "j", Spec: spec, Chunks: []job.Attempt{
					{Chunk: 0, Number: 1}, {Chunk: 1, Number: 1}, {Chunk: 2, Number: 1}, {Chunk: 3, Number: 1},
				}}})
				synctest.Wait()
				if live := len(ring.Live("j")); live != 4 && logs != job.LogsNone || live != 0 && logs == job.LogsNone {
					t.Errorf("%d are heard", live)
				}
				b.exec.finish(t, ref(0, 1), nil)
				if r := h.result(); !r.Log.IsZero() {
					t.Errorf("a success has a log: %+v", r)
				}
				b.exec.finish(t, ref(1, 1), errors.New("exit code 3"))
				if r := h.result(); r.Log.IsZero() != (logs == job.LogsNone) {
					t.Errorf("log of a failure: %+v", r)
				}
				h.send(stream.Frame{Cancel: &stream.Cancel{Term: 1, Job: "j", Chunks: []job.Attempt{{Chunk: 2, Number: 1}}}})
				synctest.Wait()
				b.exec.finish(t, ref(3, 1), executor.Infra(errors.New("no memory here")))
				if r := h.result(); !r.Log.IsZero() {
					t.Errorf("what says nothing of the work outlives its host: %+v", r)
				}
				var got []int
				if err := ring.Read("j", func(job.Attempt, bool) bool { return true }, func(e words.Entry) error {
					got = append(got, e.Chunk)
					if text := string(e.Said.Text()); text != "words of "+e.Attempt.String()+"\n" {
						t.Errorf("%s said %q", e.Attempt, text)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("words of chunks %v, want %v", got, want)
				}
				if logs != job.LogsNone && !slices.Equal(stored, []string{"words of j/1#1\n"}) {
					t.Errorf("stored %q", stored)
				}
			})
		})
	}
}

// TestLogsOfAFailingJob: only the first failures of a job are stored again and again.
func TestLogsOfAFailingJob(t *testing.T) {
	ring, err := words.Open(words.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	w, err := New(Options{Executors: map[string]Executor{"wasm": newFake()}, Words: ring, KeepLog: func([]byte) (cluster.Hash, error) {
		stored++
		return cluster.Hash{1}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{Worker: w, ctx: context.Background()}
	for i := range 3 * job.MaxLogs {
		task := executor.Task{Attempt: ref(i, 1), Spec: testSpec()}
		keep := l.hear(&task)
		_, _ = task.Words.Write([]byte("x"))
		if log := keep(errors.New("exit code 1"), false); log.IsZero() != (i >= job.MaxLogs) {
			t.Errorf("failure %d: %s", i, log)
		}
	}
	if stored != job.MaxLogs {
		t.Errorf("%d stored, want %d", stored, job.MaxLogs)
	}
}
