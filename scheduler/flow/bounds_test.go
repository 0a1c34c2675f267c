package flow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// TestValuesThatAreTooMuch: what depends on outputs is bounded while the run goes on, and
// fails its step without another try.
func TestValuesThatAreTooMuch(t *testing.T) {
	long, _ := json.Marshal(strings.Repeat("x", 12<<10))
	many, _ := json.Marshal(make([]int, 4000))
	for name, c := range map[string]struct {
		value string // of the provider of the first step
		step  func(*flow.Step)
		want  string
	}{
		"text": {
			string(long), func(s *flow.Step) {
				s.Inputs = map[string]json.RawMessage{"x": raw(`"` + strings.Repeat("${first.v}", 6) + `"`)}
			}, "step b: failed: input x: text of more than 65536 bytes",
		},
		"document": {
			string(long), func(s *flow.Step) {
				list, _ := json.Marshal(make([]string, 100))
				s.Inputs = map[string]json.RawMessage{"x": json.RawMessage(strings.ReplaceAll(string(list), `""`, `"${first.v}"`))}
			}, "step b: failed: inputs: config document of 122",
		},
		"matrix": {
			string(many), func(s *flow.Step) {
				s.Matrix = map[string]json.RawMessage{"a": raw(`"${first.v}"`), "b": raw("[1,2]")}
			}, "step b: failed: matrix: 8000 items, at most 4096 are allowed",
		},
		"no such value": {
			"[1]", func(s *flow.Step) { s.Inputs = map[string]json.RawMessage{"x": raw(`"${first.v.7}"`)} },
			`step b: failed: input x: first.v: 7: "7" is no index of a list of 1`,
		},
	} {
		b := flow.Step{Name: "b", After: []string{"first"}, Job: spec(), Retry: flow.Retry{Times: 3}}
		c.step(&b)
		first := flow.Step{Name: "first", Job: spec(), Provider: new(spec()), Outputs: map[string]string{"v": "provider:v"}}
		w := newWorld(t, flow.Def{Steps: []flow.Step{first, b}}, nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(1) })
		w.left = func(n Name) (out []job.OutputFile) {
			if n.Provider {
				out = append(out, job.OutputFile{Name: "v", File: job.File{Hash: cluster.Hash{1}, Size: 1}})
			}
			return out
		}
		w.values[cluster.Hash{1}] = c.value
		w.toEnd(nil)
		if run := w.state(); run.State != flow.Failed || !strings.HasPrefix(run.Reason, c.want) {
			t.Errorf("%s: %s: %s, want %s", name, run.State, run.Reason, c.want)
		}
		if n := len(w.jobs); n != 2 {
			t.Errorf("%s: %d jobs", name, n)
		}
	}
}

// TestInstancesOfAllSteps: how many there are is known only while the run goes on.
func TestInstancesOfAllSteps(t *testing.T) {
	many, _ := json.Marshal(make([]int, 4096))
	steps := []flow.Step{{Name: "first", Job: spec(), Provider: new(spec()), Outputs: map[string]string{"v": "provider:v"}}}
	for _, name := range []string{"a", "b", "c", "d"} {
		steps = append(steps, flow.Step{Name: name, After: []string{"first"}, Each: raw(`"${first.v}"`), Job: spec(), MaxParallel: 1})
	}
	w := newWorld(t, flow.Def{Steps: steps}, nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(1) })
	w.left = func(Name) []job.OutputFile {
		return []job.OutputFile{{Name: "v", File: job.File{Hash: cluster.Hash{1}, Size: 1}}}
	}
	w.values[cluster.Hash{1}] = string(many)
	w.begin()
	for len(w.reads) == 0 {
		if len(w.docs) > 0 {
			w.store()
		} else {
			w.endJob(0)
		}
	}
	w.read()
	if got := w.show(); !strings.Contains(got, "d failed: more than 16384 instances of all steps") {
		t.Errorf("%.2000s", got)
	}
}
