package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// TestCompileRefuses: what makes no sense is refused, and the refusal names it.
func TestCompileRefuses(t *testing.T) {
	step := func(name string, after ...string) flow.Step {
		return flow.Step{Name: name, After: after, Job: spec(), Outputs: map[string]string{"m": "metric:pv.mean"}}
	}
	with := func(s flow.Step, f func(*flow.Step)) flow.Step { f(&s); return s }
	def := func(steps ...flow.Step) flow.Def {
		return flow.Def{Steps: steps, Params: map[string]flow.Param{"n": {Type: "int", Default: raw("3")}, "l": {Type: "list", Default: raw("[1]")}}}
	}
	many := func(n int, f func(i int) flow.Step) flow.Def {
		var list []flow.Step
		for i := range n {
			list = append(list, f(i))
		}
		return def(list...)
	}
	items := func(n int) json.RawMessage { b, _ := json.Marshal(make([]int, n)); return b }
	for name, c := range map[string]struct {
		d      flow.Def
		params map[string]json.RawMessage
		want   string
	}{
		"no steps":       {flow.Def{}, nil, "no steps"},
		"cycle":          {def(step("a", "b"), step("b", "a")), nil, "a -> b -> a"},
		"cycle of one":   {def(step("a", "a")), nil, "a -> a"},
		"cycle below":    {def(step("x"), step("a", "x", "c"), step("b", "a"), step("c", "b"), step("d", "c")), nil, "a -> b -> c -> a"},
		"unknown step":   {def(step("a", "nix")), nil, `step a: it waits for "nix", and there is no such step`},
		"two of a name":  {def(step("a"), step("a")), nil, "two steps are called a"},
		"bad name":       {def(step("A b")), nil, `step "A b"`},
		"reserved":       {def(step("params")), nil, "means something else"},
		"257 steps":      {many(257, func(i int) flow.Step { return step(fmt.Sprint("s", i)) }), nil, "257 steps, at most 256"},
		"4097 instances": {def(with(step("a"), func(s *flow.Step) { s.Each = items(4097) })), nil, "4097 items, at most 4096"},
		"16385 of all": {many(5, func(i int) flow.Step {
			return with(step(fmt.Sprint("s", i)), func(s *flow.Step) { s.Each = items(3277) })
		}), nil, "16385 instances"},
		"matrix": {def(with(step("a"), func(s *flow.Step) { s.Matrix = map[string]json.RawMessage{"x": items(100), "y": items(41)} })), nil, "4100 items"},
		"matrix of many lists": {def(with(step("a"), func(s *flow.Step) {
			s.Matrix = map[string]json.RawMessage{}
			for i := range 17 {
				s.Matrix[fmt.Sprint("x", i)] = items(1)
			}
		})), nil, "matrix of 17 lists, at most 16"},
		"2049 edges": {many(66, func(i int) flow.Step {
			s := step(fmt.Sprint("s", i))
			for k := range min(i, 2049-i*(i-1)/2) {
				s.After = append(s.After, fmt.Sprint("s", k))
			}
			return s
		}), nil, "2049 edges, at most 2048"},
		"missing param":     {flow.Def{Params: map[string]flow.Param{"p": {Type: "text"}}, Steps: []flow.Step{step("a")}}, nil, "param p is missing"},
		"unknown param":     {def(step("a")), map[string]json.RawMessage{"q": raw("1")}, `unknown param "q", have: l, n`},
		"mistyped param":    {def(step("a")), map[string]json.RawMessage{"n": raw("1.5")}, "param n: 1.5 is not of type int"},
		"param of no type":  {flow.Def{Params: map[string]flow.Param{"p": {Type: "blob", Default: raw("1")}}, Steps: []flow.Step{step("a")}}, nil, "unknown type"},
		"unknown output":    {def(step("a"), with(step("b", "a"), func(s *flow.Step) { s.Inputs = map[string]json.RawMessage{"x": raw(`"${a.nix}"`)} })), nil, `step b: input x: ${a.nix}: step a has no output "nix"`},
		"no ancestor":       {def(step("a"), with(step("b"), func(s *flow.Step) { s.Inputs = map[string]json.RawMessage{"x": raw(`"${a.m}"`)} })), nil, "step a does not come before b"},
		"no item":           {def(with(step("b"), func(s *flow.Step) { s.Inputs = map[string]json.RawMessage{"x": raw(`"${item}"`)} })), nil, "neither each nor matrix"},
		"open reference":    {def(with(step("b"), func(s *flow.Step) { s.Inputs = map[string]json.RawMessage{"x": raw(`"${params.n"`)} })), nil, "${ without }"},
		"each is no list":   {def(with(step("b"), func(s *flow.Step) { s.Each = raw("3") })), nil, "each: 3 is no list"},
		"each is no list 2": {def(with(step("b"), func(s *flow.Step) { s.Each = raw(`"${params.n}"`) })), nil, "each: 3 is no list"},
		"when of nothing":   {def(with(step("b"), func(s *flow.Step) { s.When = "nix.m > 1" })), nil, `there is no "nix"`},
		"when of no output": {def(step("a"), with(step("b", "a"), func(s *flow.Step) { s.When = "a.nix > 1" })), nil, `step a has no output "nix"`},
		"when in a map":     {def(step("a"), with(step("b", "a"), func(s *flow.Step) { s.When = `a["n" + "ix"] == 1` })), nil, "say the name itself"},
		"when of a param":   {def(with(step("b"), func(s *flow.Step) { s.When = "params.nix == 1" })), nil, `there is no param "nix"`},
		"when not boolean":  {def(with(step("b"), func(s *flow.Step) { s.When = "1 + 2" })), nil, "step b: when: "},
		"when too deep":     {def(with(step("b"), func(s *flow.Step) { s.When = strings.Repeat("1 + ", 200) + "1 == 2" })), nil, "step b: when: "},
		"when calls":        {def(with(step("b"), func(s *flow.Step) { s.When = "now() != nil" })), nil, "step b: when: "},
		"source":            {def(with(step("b"), func(s *flow.Step) { s.Outputs = map[string]string{"x": "disk:a"} })), nil, "want aggregate, skipped, metric:NAME.STATISTIC, file:NAME"},
		"statistic":         {def(with(step("b"), func(s *flow.Step) { s.Outputs = map[string]string{"x": "metric:a.median"} })), nil, `unknown statistic "median"`},
		"key":               {def(with(step("b"), func(s *flow.Step) { s.Job.Key = "k" })), nil, "step b: job: key is set"},
		"job":               {def(with(step("b"), func(s *flow.Step) { s.Job = job.Spec{} })), nil, "step b: job: artefact is missing"},
		"config and inputs": {def(with(step("b"), func(s *flow.Step) {
			s.Job.Config = cluster.Hash{1}
			s.Inputs = map[string]json.RawMessage{"x": raw("1")}
		})), nil, "exclude each other"},
		"role":              {def(with(step("b"), func(s *flow.Step) { s.Role = "x" })), nil, "unknown role"},
		"on failure":        {def(with(step("b"), func(s *flow.Step) { s.OnFailure = "x" })), nil, "on_failure"},
		"retry on":          {def(with(step("b"), func(s *flow.Step) { s.Retry.On = []string{"cancelled"} })), nil, "retry.on"},
		"after a teardown":  {def(with(step("t"), func(s *flow.Step) { s.Role = "teardown" }), step("b", "t")), nil, "which is a teardown"},
		"setup after plain": {def(step("a"), with(step("b", "a"), func(s *flow.Step) { s.Role = "setup" })), nil, "which is no setup"},
		"timeout":           {flow.Def{TimeoutSeconds: -1, Steps: []flow.Step{step("a")}}, nil, "timeout_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(c.d, c.params)
			if !errors.Is(err, flow.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := Compile(twelve(), nil); err != nil {
		t.Error(err)
	}
}

// TestDecodeRefuses: a definition is bounded, and says nothing that is not known.
func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"step":[],"nix":1}`: "unknown field",
		`{"step":[]} {}`:      "more than one",
		`[`:                   "unexpected",
		`{"name":"` + strings.Repeat("x", flow.MaxDefBytes) + `"}`: "at most 262144",
	} {
		if _, err := flow.Decode([]byte(text)); !errors.Is(err, flow.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// FuzzCompile: no definition makes Compile panic, and what it takes can be run.
func FuzzCompile(f *testing.F) {
	b, err := twelve().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := flow.Decode(b)
		if err != nil {
			return
		}
		if _, err := Compile(d, nil); err != nil && !errors.Is(err, flow.ErrInvalid) {
			t.Errorf("%v is not ErrInvalid", err)
		}
	})
}

// BenchmarkEnds is how many ends of jobs a Machine takes in a second, of a run with as
// many instances as there may be.
func BenchmarkEnds(b *testing.B) {
	const each = flow.MaxInstances
	items, _ := json.Marshal(make([]int, each))
	d := flow.Def{}
	for i := range flow.MaxAllInstances / each {
		d.Steps = append(d.Steps, flow.Step{
			Name: fmt.Sprint("s", i), Each: items, MaxParallel: each, Job: spec(), Outputs: map[string]string{"m": "metric:pv.mean"},
		})
	}
	tick := Tick{}
	fresh := func() (*Machine, []Name) {
		w := newWorld(b, d, nil, nil)
		m := New(w.g, w.state(), 0, began)
		var names []Name
		var e Event = Begin{}
		for before := -1; before < len(names); e = Event(tick) {
			before = len(names)
			for _, a := range m.Step(e, 0) {
				names = append(names, a.(Start).Name)
			}
		}
		if len(names) != flow.MaxAllInstances {
			b.Fatalf("%d instances run", len(names))
		}
		return m, names
	}
	m, names := fresh()
	result := metric(1)
	b.ResetTimer()
	for i := range b.N {
		if i%len(names) == 0 && i > 0 {
			b.StopTimer()
			m, names = fresh()
			b.StartTimer()
		}
		m.Step(JobEnded{Name: names[i%len(names)], State: job.Completed, Result: result}, 0)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ends/s")
}
