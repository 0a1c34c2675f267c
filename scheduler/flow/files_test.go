package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
)

// drawn is a workflow in which a fan-out leaves files that are merged.
func drawn() flow.Def {
	paints := spec()
	paints.Result, paints.Outputs = job.ResultNone, []string{"rows"}
	merges := paints
	merges.Outputs, merges.Files = []string{"film"}, map[string]cluster.Hash{"head": {9}}
	return flow.Def{Steps: []flow.Step{
		{Name: "first", Job: paints, Outputs: map[string]string{"one": "file:rows", "second": "file:rows@1"}},
		{Name: "draw", Each: raw(`[1,2,3]`), Job: paints, Outputs: map[string]string{"rows": "files:rows"}, OnFailure: flow.FailureIgnore},
		{Name: "film", After: []string{"first", "draw"}, Job: merges, Files: map[string]string{"cover": "first.second", "rows": "draw.rows"}},
	}}
}

// TestFilesGoFromStepToStep: what chunks left is what later steps find, each under a name
// that tells its place, whatever failed that may.
func TestFilesGoFromStepToStep(t *testing.T) {
	g, err := Compile(drawn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	left := func(n int, of ...byte) (out []job.OutputFile) {
		for chunk, b := range of {
			out = append(out, job.OutputFile{Chunk: chunk, Name: "rows", File: job.File{Hash: cluster.Hash{byte(n), b}}})
		}
		return out
	}
	run := func(first []job.OutputFile, third job.State) (film *job.Spec, ends map[string]End) {
		t.Helper()
		m := New(g, flows.Run{WorkflowSubmitted: event.WorkflowSubmitted{Run: flow.NewRunID(owner, "k"), Owner: owner}, State: flow.Running}, 0, began)
		ends = make(map[string]End)
		todo := []Event{Begin{}}
		for ; len(todo) > 0; todo = todo[1:] {
			for _, a := range m.Step(todo[0], 0) {
				switch a := a.(type) {
				case Locate:
					todo = append(todo, Located{Name: a.Name})
				case Start:
					e := JobEnded{Name: a.Name, State: job.Completed, Result: &job.Result{}}
					switch a.Step {
					case "film":
						film = &a.Spec
					case "first":
						e.Left = first
					default:
						e.Left = left(10+a.Index, 1, 2)
					}
					if a.Step == "draw" && a.Index == 2 {
						e.State = third
					}
					todo = append(todo, e)
				case End:
					ends[fmt.Sprintf("%s%d", a.Step, a.Index)] = a
				}
			}
		}
		return film, ends
	}
	film, ends := run(left(1, 7), job.Completed)
	if e := ends["first0"]; e.State != flow.Failed || !e.Final || !strings.Contains(e.Reason, "output second: the job left no file rows") || film != nil {
		t.Errorf("a chunk that is not there: %+v", e)
	}
	if _, ends := run(left(1, 7, 8), job.Completed); !strings.Contains(ends["first0"].Reason, "2 chunks of the job left a file rows: say of which") {
		t.Errorf("which of two: %+v", ends["first0"])
	}
	def := drawn()
	delete(def.Steps[0].Outputs, "one")
	if g, err = Compile(def, nil); err != nil {
		t.Fatal(err)
	}
	film, ends = run(left(1, 7, 8), job.Completed)
	want := []string{"cover", "head", "rows.0000", "rows.0001", "rows.0002", "rows.0003", "rows.0004", "rows.0005"}
	if film == nil || !slices.Equal(slices.Sorted(maps.Keys(film.Files)), want) || film.Files["cover"] != (cluster.Hash{1, 8}) || film.Files["rows.0003"] != (cluster.Hash{11, 2}) {
		t.Fatalf("film is given %+v, %+v", film, ends)
	}
	var rows []string
	if err := json.Unmarshal(ends["draw1"].Outputs["rows"], &rows); err != nil || len(rows) != 2 || rows[1] != (cluster.Hash{11, 2}).String() {
		t.Errorf("output %s", ends["draw1"].Outputs["rows"])
	}
	if film, _ = run(left(1, 7, 8), job.Failed); film == nil || len(film.Files) != 6 || film.Files["rows.0003"] != (cluster.Hash{11, 2}) {
		t.Errorf("without the third: %+v", film)
	}
}

// TestFilesThatAreRefused: what steps may not take from each other.
func TestFilesThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(d *flow.Def){
		"step film: files: rows: ${draw.nix}: step draw has no output": func(d *flow.Def) { d.Steps[2].Files["rows"] = "draw.nix" },
		`files: rows: "nix.rows" is no output of a step`:               func(d *flow.Def) { d.Steps[2].Files["rows"] = "nix.rows" },
		`files: rows: "draw" is no output of a step`:                   func(d *flow.Def) { d.Steps[2].Files["rows"] = "draw" },
		"step draw does not come before film":                          func(d *flow.Def) { d.Steps[2].After = []string{"first"} },
		"draw.mean is no file":                                         func(d *flow.Def) { d.Steps[1].Outputs["mean"], d.Steps[2].Files["rows"] = "metric:x.mean", "draw.mean" },
		"files: the job has a file head as well":                       func(d *flow.Def) { d.Steps[2].Files["head"] = "draw.rows" },
		`files: "../x" is not the name of a file`:                      func(d *flow.Def) { d.Steps[2].Files["../x"] = "draw.rows" },
		"step draw: output rows: the job lists no output cols":         func(d *flow.Def) { d.Steps[1].Outputs["rows"] = "files:cols" },
		`"file:rows@x": no chunk`:                                      func(d *flow.Def) { d.Steps[1].Outputs["rows"] = "file:rows@x" },
		`"a/b" is not the name of a file`:                              func(d *flow.Def) { d.Steps[1].Outputs["rows"] = "file:a/b" },
	} {
		d := drawn()
		change(&d)
		if _, err := Compile(d, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
