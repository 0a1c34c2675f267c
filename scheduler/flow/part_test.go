package flow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// inChunks is a workflow whose first step has four chunks, which leave a file each.
func inChunks(source string) flow.Def {
	leaves := spec()
	leaves.Result, leaves.Outputs, leaves.Iterations = job.ResultNone, []string{"rows"}, 4
	last := spec()
	return flow.Def{Steps: []flow.Step{
		{Name: "draw", Job: leaves, Outputs: map[string]string{"rows": source}, Retry: flow.Retry{Times: 1}},
		{Name: "film", After: []string{"draw"}, Job: last, Files: map[string]string{"rows": "draw.rows"}},
	}}
}

// parts says which tries of the first step were submitted, and for which chunks.
func (w *world) parts() string {
	out := ""
	for try := 1; try < 9; try++ {
		for _, j := range w.jobs {
			switch n := (Name{Step: "draw", Try: try}); {
			case j.Name != n:
			case j.part == nil:
				out += fmt.Sprintf(" #%d", try)
			default:
				out += fmt.Sprintf(" #%d:%d-%d", try, j.part.First, j.part.Last)
			}
		}
	}
	return strings.TrimSpace(out)
}

// TestLostChunksAreComputedAlone cuts the log at every event: of a job of several chunks
// those run again whose files are lost.
func TestLostChunksAreComputedAlone(t *testing.T) {
	file := func(chunk int) cluster.Hash { return cluster.Hash{5, byte(chunk)} }
	for _, c := range []struct {
		name, source, want string
		lose               []int
		gone               bool // the job is forgotten
		other              bool // another file comes back
		state              flow.State
	}{
		{"none", "files:rows", "#1", nil, false, false, flow.Completed},
		{"one", "files:rows", "#1 #2:2-2", []int{2}, false, false, flow.Completed},
		{"two", "files:rows", "#1 #2:1-3", []int{1, 3}, false, false, flow.Completed},
		{"all", "files:rows", "#1 #2", []int{0, 1, 2, 3}, false, false, flow.Completed},
		{"of a chunk", "file:rows@1", "#1 #2:1-1", []int{1}, false, false, flow.Completed},
		{"one of a job that is forgotten", "files:rows", "#1 #2", []int{2}, true, false, flow.Completed},
		{"another file", "files:rows", "#1 #2:2-2", []int{2}, false, true, flow.Failed},
	} {
		for cut := -1; ; cut++ {
			w := newWorld(t, inChunks(c.source), nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(1) })
			w.left = func(n Name) (out []job.OutputFile) {
				for chunk := 0; chunk < 4 && n.Step == "draw"; chunk++ {
					h := file(chunk)
					if c.other && n.Try > 1 {
						h[2] = 1
					}
					out = append(out, job.OutputFile{Chunk: chunk, Name: "rows", File: job.File{Hash: h}})
				}
				return out
			}
			w.lose = map[cluster.Hash]bool{}
			for _, chunk := range c.lose {
				w.lose[file(chunk)] = true
			}
			if c.gone {
				w.forget = func(Name) bool { return true }
			}
			w.cut = cut
			w.toEnd(nil)
			if cut >= 0 && w.deaths == 0 {
				break
			}
			if got := w.parts(); got != c.want || w.state().State != c.state {
				t.Fatalf("%s, the holder died at %d: %s began, want %s\n%s\n%s", c.name, cut, got, c.want, w.show(), w.history())
			}
		}
	}
}
