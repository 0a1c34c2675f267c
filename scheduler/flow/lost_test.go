package flow

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// chained is a workflow in which a file goes from a step to the items of another, whose
// files are put together.
func chained() flow.Def {
	leaves := spec()
	leaves.Result, leaves.Outputs = job.ResultNone, []string{"rows"}
	out := map[string]string{"rows": "file:rows"}
	return flow.Def{Steps: []flow.Step{
		{Name: "first", Job: leaves, Outputs: out},
		{Name: "draw", After: []string{"first"}, Each: raw(`[1,2]`), Job: leaves, Outputs: out, Files: map[string]string{"table": "first.rows"}},
		{Name: "film", After: []string{"draw"}, Job: leaves, Outputs: out, Files: map[string]string{"rows": "draw.rows"}},
		{Name: "after", After: []string{"film"}, Job: spec()},
	}}
}

// tries are their numbers in what show says.
var tries = regexp.MustCompile(`#\d+`)

func fileOf(step string, index int) cluster.Hash { return cluster.Hash{step[0], byte(index)} }

// newLostWorld is one in which each job leaves its file, and some files are lost as soon as
// they are there.
func newLostWorld(t *testing.T, d flow.Def, lose ...cluster.Hash) *world {
	t.Helper()
	w := newWorld(t, d, nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(1) })
	w.left = func(n Name) []job.OutputFile {
		return []job.OutputFile{{Name: "rows", File: job.File{Hash: fileOf(n.Step, n.Index)}}}
	}
	w.lose = map[cluster.Hash]bool{}
	for _, h := range lose {
		w.lose[h] = true
	}
	return w
}

// tries says which tries were submitted, and how often.
func (w *world) tries(step string) (out []string) {
	for index := range 3 {
		for try := 1; try < 20; try++ {
			if n := w.starts[Name{Step: step, Index: index, Try: try}]; n > 0 {
				out = append(out, fmt.Sprintf("%d#%d", index, try))
			}
			if w.starts[Name{Step: step, Index: index, Try: try}] > 1 {
				w.t.Errorf("%s[%d]#%d was submitted %d times", step, index, try, w.starts[Name{Step: step, Index: index, Try: try}])
			}
		}
	}
	return out
}

// TestLostFilesAreComputedAgain cuts the log at every event: what left files that no host
// has any more leaves them again, that and nothing else, before what needs them begins.
func TestLostFilesAreComputedAgain(t *testing.T) {
	first, one, two := fileOf("first", 0), fileOf("draw", 0), fileOf("draw", 1)
	for _, c := range []struct {
		name string
		lose []cluster.Hash
		want string // tries of first, draw and film
	}{
		{"none", nil, "[0#1] [0#1 1#1] [0#1]"},
		{"of a step", []cluster.Hash{first}, "[0#1 0#2] [0#1 1#1] [0#1]"},
		{"of an item", []cluster.Hash{two}, "[0#1] [0#1 1#1 1#2] [0#1]"},
		{"of both items", []cluster.Hash{one, two}, "[0#1] [0#1 0#2 1#1 1#2] [0#1]"},
		{"of all", []cluster.Hash{first, one, two}, "[0#1 0#2] [0#1 0#2 1#1 1#2] [0#1]"},
	} {
		for _, orphans := range []bool{false, true} {
			want := ""
			for cut := -1; ; cut++ {
				w := newLostWorld(t, chained(), c.lose...)
				w.cut, w.orphans = cut, orphans
				w.toEnd(nil)
				if cut >= 0 && w.deaths == 0 {
					if cut < 12 {
						t.Errorf("%s: only %d places to die at", c.name, cut)
					}
					break
				}
				if got := fmt.Sprint(w.tries("first"), w.tries("draw"), w.tries("film")); got != c.want {
					t.Fatalf("%s, the holder died at %d: %s began, want %s\n%s", c.name, cut, got, c.want, w.history())
				}
				got := tries.ReplaceAllString(w.show(), "") // an orphan's number is in no log
				if want == "" {
					want = got
				}
				if got != want || w.state().State != flow.Completed {
					t.Fatalf("%s, the holder died at %d: got\n%s\nwant\n%s\n%s", c.name, cut, got, want, w.history())
				}
			}
		}
	}
}

// TestLostFilesOfFiles: what is to be computed again may itself need what is lost by then.
func TestLostFilesOfFiles(t *testing.T) {
	for cut := -1; ; cut++ {
		w := newLostWorld(t, chained(), fileOf("draw", 1))
		w.cut = cut
		w.outcome = func(n Name) (job.State, *job.Result) {
			if n.Step == "draw" && n.Index == 1 && n.Try == 1 {
				w.gone[fileOf("first", 0)] = true
			}
			return job.Completed, metric(1)
		}
		w.toEnd(nil)
		if cut >= 0 && w.deaths == 0 {
			return
		}
		if got := fmt.Sprint(w.tries("first"), w.tries("draw"), w.tries("film")); got != "[0#1 0#2] [0#1 1#1 1#2] [0#1]" || w.state().State != flow.Completed {
			t.Fatalf("the holder died at %d: %s began\n%s\n%s", cut, got, w.show(), w.history())
		}
	}
}

// TestLostFilesThatDoNotComeBack: another file, or none, fails what needs it and says why.
func TestLostFilesThatDoNotComeBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world)
		tries  string
		reason string
	}{
		{"another file", func(w *world) {
			w.left = func(n Name) []job.OutputFile {
				return []job.OutputFile{{Name: "rows", File: job.File{Hash: cluster.Hash{n.Step[0], byte(n.Index), byte(n.Try)}}}}
			}
			w.lose[cluster.Hash{'f', 0, 1}] = true
		}, "[0#1 0#2]", "input_lost: step first, computed again: output rows is another file than the one that was lost"},
		{"a failure", func(w *world) {
			w.outcome = func(n Name) (job.State, *job.Result) {
				if n.Step == "first" && n.Try > 1 {
					return job.Failed, nil
				}
				return job.Completed, metric(1)
			}
		}, "[0#1 0#2 0#3]", "input_lost: step first, computed again: "},
		{"lost again and again", func(w *world) {
			w.outcome = func(n Name) (job.State, *job.Result) {
				if n.Step == "first" {
					w.lose = nil
				}
				return job.Completed, metric(1)
			}
			w.left = func(n Name) []job.OutputFile {
				w.lost = func(h cluster.Hash) bool { return h == fileOf("first", 0) }
				return []job.OutputFile{{Name: "rows", File: job.File{Hash: fileOf(n.Step, n.Index)}}}
			}
		}, "[0#1 0#2 0#3 0#4]", "input_lost: file table, which is first.rows, is on no host"},
	} {
		want := ""
		for cut := -1; ; cut++ {
			d := chained()
			d.Steps[0].Retry.Times = 1
			w := newLostWorld(t, d, fileOf("first", 0))
			c.change(w)
			w.cut = cut
			w.toEnd(nil)
			if cut >= 0 && w.deaths == 0 {
				break
			}
			got := tries.ReplaceAllString(w.show(), "")
			if want == "" {
				want = got
			}
			if w.state().State != flow.Failed || !strings.Contains(w.state().Reason, c.reason) || fmt.Sprint(w.tries("first")) != c.tries || w.tries("draw") != nil || got != want {
				t.Fatalf("%s, the holder died at %d: %s %q, %v began\n%s\n%s", c.name, cut, w.state().State, w.state().Reason, w.tries("first"), got, w.history())
			}
		}
	}
}

// TestFilesLostWhileAJobRuns: that its files went is no failure of a job, a few times.
func TestFilesLostWhileAJobRuns(t *testing.T) {
	for _, c := range []struct {
		fails int
		again int // that its job goes on
		state flow.State
	}{{1, 1, flow.Completed}, {maxLost, maxLost, flow.Completed}, {maxLost + 1, maxLost, flow.Failed}} {
		for cut := -1; ; cut++ {
			w := newLostWorld(t, chained())
			w.cut = cut
			w.outcome = func(n Name) (job.State, *job.Result) {
				if n.Step == "draw" && n.Index == 0 && n.Try <= c.fails {
					w.gone[fileOf("first", 0)] = true
					return job.Failed, nil
				}
				return job.Completed, metric(1)
			}
			w.toEnd(nil)
			if cut >= 0 && w.deaths == 0 {
				break
			}
			again := w.jobs[flow.JobOf(owner, w.run, "draw", 0, 1)].kept
			if w.state().State != c.state || len(w.tries("draw")) != 2 || again < c.again || cut < 0 && again > c.again {
				t.Fatalf("%d losses, the holder died at %d: %s, %v began, it went on %d times\n%s\n%s", c.fails, cut, w.state().State, w.tries("draw"), again, w.show(), w.history())
			}
		}
	}
}

// TestStopWhileFilesAreComputedAgain: a run that is stopped waits for nothing of it, and
// its teardown goes without what cannot be had any more.
func TestStopWhileFilesAreComputedAgain(t *testing.T) {
	d := chained()
	d.Steps = append(d.Steps, flow.Step{Name: "clean", Role: flow.RoleTeardown, Job: spec(), Files: map[string]string{"table": "first.rows"}})
	for cut := -1; ; cut++ {
		w := newLostWorld(t, d, fileOf("first", 0))
		w.begin()
		w.endJob(0)
		for len(w.looks) > 0 {
			w.look()
		}
		if len(w.order) != 1 || w.jobs[w.order[0]].Name != (Name{Step: "first", Index: 0, Try: 2}) {
			t.Fatalf("%v runs\n%s", w.order, w.history())
		}
		if s := w.m.View()[1]; s.Instances[0].State != flow.Ready || s.Instances[0].Reason != "input_lost: file table, which is first.rows, is on no host" {
			t.Errorf("what waits is %+v", s.Instances[0])
		}
		w.cut = cut
		w.stopRun(false)
		w.toEnd(nil)
		if cut >= 0 && w.deaths == 0 {
			return
		}
		if w.state().State != flow.Cancelled || w.jobs[flow.JobOf(owner, w.run, "first", 0, 2)].state != job.Cancelled || w.tries("clean") != nil ||
			!strings.Contains(w.show(), "clean failed: input_lost: ") || !strings.Contains(w.show(), "draw cancelled") {
			t.Fatalf("the holder died at %d: %s\n%s", cut, w.show(), w.history())
		}
	}
}

// TestNothingIsFoundOut: where nobody can look for files, a job that failed has failed, and
// one that has not begun tries later.
func TestNothingIsFoundOut(t *testing.T) {
	w := newLostWorld(t, chained())
	w.outcome = func(n Name) (job.State, *job.Result) {
		if n.Step == "film" {
			return job.Failed, nil
		}
		return job.Completed, metric(1)
	}
	refused := 0
	w.noLook = func() bool { refused++; return refused%2 == 1 }
	w.toEnd(nil)
	if w.state().State != flow.Failed || fmt.Sprint(w.tries("draw"), w.tries("film")) != "[0#1 1#1] [0#1]" || refused < 4 {
		t.Fatalf("%d looked for: %s", refused, w.show())
	}
}
