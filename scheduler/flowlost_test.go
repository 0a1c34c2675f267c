package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestFilesOfAFlowAreLost: a step whose files are on no host waits for the hosts that cannot
// be asked, and then for the job that left them, which runs again. It does so at once where
// no host is missing.
func TestFilesOfAFlowAreLost(t *testing.T) {
	for _, sure := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			lost := cluster.Hash{7}
			jobs := 0
			for _, w := range f.workers {
				w.answer = func(r job.Attempt, n uint64) []stream.Frame {
					out := goodResult(r, n)
					f.log.View(func(st *state.State) {
						if j, _ := st.Job(r.Job); strings.Contains(j.Spec.Key, "/draw[") {
							out.Result.Result.Outputs = job.Files{"rows": {Hash: lost, Size: 1}}
							f.mu.Lock()
							jobs++
							f.mu.Unlock()
						}
					})
					return []stream.Frame{out}
				}
			}
			f.s.o.Find = func(_ context.Context, files []cluster.Hash) ([]cluster.Hash, bool) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(files) != 1 || files[0] != lost {
					t.Errorf("looks for %v", files)
				}
				if jobs > 1 {
					return nil, true
				}
				return files, sure
			}
			stop := f.run(1)
			defer func() { _ = stop() }()
			draw, film := flowStep("draw"), flowStep("film", "draw")
			draw.Job.Chunk, draw.Job.Outputs, draw.Outputs = 20, []string{"rows"}, map[string]string{"rows": "file:rows"}
			film.Files = map[string]string{"rows": "draw.rows"}
			began := time.Now()
			id := f.submitFlow(flow.Def{Steps: []flow.Step{draw, film}})
			f.until(5*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
			if got, want := said(f.flowRun(id)), "completed draw[0]#1:completed draw[0]#2:completed film[0]#1:completed0.5"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if took := time.Since(began); took > 10*time.Second != !sure || took > 3*time.Minute {
				t.Errorf("sure %t: it took %s", sure, took)
			}
		})
	}
}

// TestChunkOfAFlowIsLost: of a job of two chunks the one runs again whose file is lost, as a
// job of its own; where that left another file, what needs it fails.
func TestChunkOfAFlowIsLost(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			again := 0
			for _, w := range f.workers {
				w.answer = func(r job.Attempt, n uint64) []stream.Frame {
					out := goodResult(r, n)
					f.log.View(func(st *state.State) {
						j, _ := st.Job(r.Job)
						if !strings.Contains(j.Spec.Key, "/draw[") {
							return
						}
						offset, _ := j.Spec.ChunkRange(r.Chunk)
						h := cluster.Hash{7, byte(offset)}
						if j.Spec.RetryOf != "" {
							f.mu.Lock()
							again++
							f.mu.Unlock()
							if !same {
								h[2] = 1
							}
						}
						out.Result.Result.Outputs = job.Files{"rows": {Hash: h, Size: 1}}
					})
					return []stream.Frame{out}
				}
			}
			f.s.o.Find = func(_ context.Context, files []cluster.Hash) (absent []cluster.Hash, sure bool) {
				f.mu.Lock()
				defer f.mu.Unlock()
				if lost := (cluster.Hash{7, 10}); again == 0 && slices.Contains(files, lost) {
					absent = append(absent, lost)
				}
				return absent, true
			}
			stop := f.run(1)
			defer func() { _ = stop() }()
			draw, film := flowStep("draw"), flowStep("film", "draw")
			draw.Job.Outputs, draw.Outputs = []string{"rows"}, map[string]string{"rows": "files:rows"}
			film.Files = map[string]string{"rows": "draw.rows"}
			id := f.submitFlow(flow.Def{Steps: []flow.Step{draw, film}})
			f.until(5*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
			want := "completed draw[0]#1:completed draw[0]#2:completed film[0]#1:completed0.5"
			if !same {
				want = "failed draw[0]#1:completed draw[0]#2:failed film[0]#1:failed"
			}
			if got := said(f.flowRun(id)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			tries := f.flowRun(id).Tries
			f.log.View(func(st *state.State) {
				first, _ := st.Job(tries[0].Job)
				part, _ := st.Job(tries[1].Job)
				if s := part.Spec; s.RetryOf != first.ID || s.FirstIteration != 10 || s.Iterations != 10 || part.Chunks != 1 || again != 1 {
					t.Errorf("%d chunks of it ran again, as %+v", again, s)
				}
			})
		})
	}
}
