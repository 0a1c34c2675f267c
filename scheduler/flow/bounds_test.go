package flow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/condition"
	"github.com/skein-project/skein/scheduler/flow/template"
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
			}, "step b: failed: inputs: config document of more than 1048576 bytes",
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

// TestDocumentsThatAreNamedOften: a document that would be huge is refused before it is made.
func TestDocumentsThatAreNamedOften(t *testing.T) {
	large := make([]any, 40_000)
	for i := range large {
		large[i] = strings.Repeat("x", 1000)
	}
	many := make([]any, 20_000)
	for i := range many {
		many[i] = large
	}
	if _, err := encode(map[string]any{"inputs": many}); err == nil || !strings.Contains(err.Error(), "config document of more than") {
		t.Error(err)
	}
	small := map[string]any{"a": []any{json.Number("1"), "x", nil, true, map[string]any{"b": 1.5}}}
	b, err := encode(small)
	if err != nil || template.Larger(small, len(b)) || !template.Larger(small, len(b)/2) {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

// TestExpressionsThatAreTooMuch: nobody can interrupt the holder while it evaluates one.
func TestExpressionsThatAreTooMuch(t *testing.T) {
	list, _ := json.Marshal(make([]int, 20_000))
	text, _ := json.Marshal(strings.Repeat("x", 30_000))
	d := func(when string) flow.Def {
		return flow.Def{
			Params: map[string]flow.Param{"l": {Type: flow.TypeList, Default: list}, "t": {Type: flow.TypeText, Default: text}, "s": {Type: flow.TypeList, Default: raw(`[1,2,3]`)}},
			Steps:  []flow.Step{{Name: "a", Job: spec(), When: when}},
		}
	}
	for when, want := range map[string]string{
		`all(params.l, # < 7) and any(params.l, # == 0) and len(params.t) > 7`: "",
		`any(params.s, let1(#))`: "step a: when: ",
		`all(params.s, all(params.s, # >= 1 or any(params.s, # > 2)))`: "",
		`params.t + "y" != params.t`:                                   "",
		`all(params.l, any(params.l, # == 1))`:                         "too much work",
		`all(params.l, params.t == params.t)`:                          "too much work",
		`all(params.l, params.t matches "y+")`:                         "too much work",
		`all(params.l, # in params.l)`:                                 "too much work",
		`any([params.t + params.t], any([#+#+#], any([#+#+#+#], any([#+#+#+#+#+#+#+#], #+#+#+#+# == "x"))))`: "too much work",
		`any(1..99999, # == 7)`:                                "a .. b is not allowed",
		`let run = params.t + params.t; run == "x"`:            "neither let",
		`params.t == "x"; true`:                                "neither let",
		`len(map(params.s, # + 1)) > 1`:                        "map: no function",
		`reduce(params.s, #acc + #) > 1`:                       "reduce: no function",
		`params.l[0:9] == params.l[5:14] and params.s[1] == 2`: "",
	} {
		g, err := Compile(d(when), nil)
		if err == nil {
			_, err = g.nodes[0].when.Evaluate(map[string]any{rootParams: condition.Plain(g.params)})
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", when, err, want)
		}
	}
}
