package flow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// provided is a workflow whose second step has an instance for each of what the provider of
// the first leaves.
func provided(f func(*flow.Step)) flow.Def {
	first := flow.Step{
		Name: "sum", Job: spec(), Provider: new(spec()), Outputs: map[string]string{"mean": "metric:pv.mean", "list": "provider:list"},
		Inputs: map[string]json.RawMessage{"x": raw("1")}, Retry: flow.Retry{Times: 2},
	}
	first.Job.Outputs = []string{"rows"}
	if f != nil {
		f(&first)
	}
	return flow.Def{Steps: []flow.Step{first, {Name: "each", After: []string{"sum"}, Each: raw(`"${sum.list}"`), Job: spec()}}}
}

// left is what jobs leave: the step's own a file, its provider a list.
func left(size int64) func(Name) []job.OutputFile {
	return func(n Name) []job.OutputFile {
		switch {
		case n.Provider:
			return []job.OutputFile{{Name: "list", File: job.File{Hash: cluster.Hash{9}, Size: size}}}
		case n.Step == "sum":
			return []job.OutputFile{{Name: "rows", File: job.File{Hash: cluster.Hash{7}, Size: 3}}}
		}
		return nil
	}
}

// TestProvider: it is given what came out of the step's own job, and the next step has an
// instance for each of what it leaves.
func TestProvider(t *testing.T) {
	w := newWorld(t, provided(nil), nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(5) })
	w.left = left(6)
	w.values[cluster.Hash{9}] = ` [ "a" , 2 ]`
	w.toEnd(nil)
	want := "run completed\nsum completed\n  0 completed #1  list=[\"a\",2] mean=5\neach completed\n  0 completed #1 \n  1 completed #1 "
	if got := w.show(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	doc := `{"aggregate":{"pv":{"max":5,"mean":5,"min":5,"n":1,"se":0,"std":0}},"inputs":{"x":1},` +
		`"outputs":[{"chunk":0,"hash":"07` + strings.Repeat("0", 62) + `","name":"rows","size":3}],"params":{},"skipped":[]}`
	if _, ok := w.stored[doc]; !ok {
		t.Errorf("no document %s among %v", doc, w.stored)
	}
	if w.starts[Name{Step: "sum", Try: 1, Provider: true}] != 1 {
		t.Errorf("%v", w.starts)
	}
}

// TestProviderFails: alone it is tried again; what it leaves and nobody can read is not.
func TestProviderFails(t *testing.T) {
	for _, c := range []struct {
		name, value string
		size        int64
		fails       int // providers
		lost        int // looks at what one left
		want        string
		own         int // jobs of the step itself
	}{
		{name: "once", value: "[1]", fails: 1, want: "completed #2", own: 1},
		{name: "always", value: "[1]", fails: 9, want: "failed #3 provider: failed", own: 1},
		{name: "no JSON", value: "nix", want: "failed #1 provider: list is no JSON", own: 1},
		{name: "two values", value: "1 2", want: "failed #1 provider: list is no JSON: more than one value", own: 1},
		{name: "too large", value: "[1]", size: flow.MaxGivenBytes + 1, want: "failed #1 provider: list has 1048577 bytes", own: 1},
		{name: "large", value: `["` + strings.Repeat("x", flow.MaxGivenBytes-100) + `"]`, size: flow.MaxGivenBytes, want: "completed #1", own: 1},
		{name: "too large with the others", value: `"` + strings.Repeat("x", flow.MaxGivenBytes-3) + `"`, want: "failed #1 provider: the outputs have 1048", own: 1},
		{name: "no list", value: "7", want: "each: 7 is no list", own: 1},
		{name: "lost", value: "[1]", lost: 2, want: "completed #3", own: 1},
		{name: "lost for good", value: "[1]", lost: 99, want: "failed #6 input_lost", own: 1},
	} {
		w := newWorld(t, provided(nil), nil, func(n Name) (job.State, *job.Result) {
			if n.Provider && n.Try <= c.fails {
				return job.Failed, nil
			}
			return job.Completed, metric(5)
		})
		w.left = left(c.size)
		w.values[cluster.Hash{9}] = c.value
		w.lost = func(cluster.Hash) bool { c.lost--; return c.lost >= 0 }
		w.toEnd(nil)
		if got := w.show(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %s", c.name, got, c.want)
		}
		own := 0
		for n, times := range w.starts {
			if n.Step == "sum" && !n.Provider {
				own += times
			}
		}
		if own != c.own {
			t.Errorf("%s: the step's own job was submitted %d times, want %d", c.name, own, c.own)
		}
	}
}

// TestProviderOfLaterRound: a run that is retried goes on with the job of a step whose
// provider failed; with --from that begins again.
func TestProviderOfLaterRound(t *testing.T) {
	for _, from := range []string{"", "sum"} {
		broken := true
		w := newWorld(t, provided(func(s *flow.Step) { s.Retry.Times = 0 }), nil, func(n Name) (job.State, *job.Result) {
			if n.Provider && broken {
				return job.Failed, nil
			}
			return job.Completed, metric(5)
		})
		w.left = left(3)
		w.values[cluster.Hash{9}] = "[1]"
		w.toEnd(nil)
		broken = false
		w.retryRun(from)
		w.toEnd(nil)
		if got := w.show(); !strings.Contains(got, "run completed\nsum completed\n  0 completed #2") {
			t.Errorf("from %q: %s", from, got)
		}
		if n := w.starts[Name{Step: "sum", Try: 2}]; (n == 0) != (from == "") {
			t.Errorf("from %q: the step's own job was submitted %d times again", from, n)
		}
	}
}

// TestLargeValues: a run that older members know has values of 16 KiB, and those of one that
// they do not are bounded all together.
func TestLargeValues(t *testing.T) {
	d := provided(func(s *flow.Step) { s.Each, s.Retry.Times, s.MaxParallel = raw(`[1,2,3,4,5,6,7,8,9]`), 0, 1 })
	d.Steps[1].Each = raw("[1]")
	for keeps, want := range map[bool]string{
		true:  "  8 failed #1 provider: the outputs have 1048507 bytes, and those above 16384 of the whole run at most 8388608",
		false: "  0 failed #1 provider: list has 1048576 bytes, at most 16384 are allowed",
	} {
		for _, cut := range []int{-1, 40} {
			w := newWorldThat(t, keeps, d, nil, func(Name) (job.State, *job.Result) { return job.Completed, metric(5) })
			w.left = left(flow.MaxGivenBytes)
			w.values[cluster.Hash{9}] = `"` + strings.Repeat("x", flow.MaxGivenBytes-80) + `"`
			w.cut = cut
			w.toEnd(nil)
			found := ""
			for line := range strings.Lines(w.show()) {
				if strings.Contains(line, "failed #1") {
					found = strings.TrimSpace(line)
					break
				}
			}
			if found != strings.TrimSpace(want) {
				t.Errorf("holds %t, the holder dies at %d: got %.200s, want %s", keeps, cut, found, want)
			}
		}
	}
}

// TestHeldJob: a try that fails in part leaves its job for a retry of the run, wherever the
// holder dies; one that has no result, is above so many, was stopped or begins again from its
// step does not.
func TestHeldJob(t *testing.T) {
	step := flow.Step{Name: "a", Job: spec(), Retry: flow.Retry{Times: 1, BackoffSeconds: 60}, Outputs: map[string]string{"mean": "metric:pv.mean"}}
	for _, c := range []struct {
		name  string
		state job.State
		from  string
		each  int
		stop  bool // between its tries
		want  string
		jobs  int
	}{
		{"in part", job.Partial, "", 1, false, "run completed\na completed\n  0 completed #3  mean=5", 1},
		{"whole", job.Failed, "", 1, false, "run completed\na completed\n  0 completed #3  mean=5", 2},
		{"from it", job.Partial, "a", 1, false, "run completed\na completed\n  0 completed #3  mean=5", 2},
		{"stopped", job.Partial, "", 1, true, "run completed\na completed\n  0 completed #2  mean=5", 2},
		{"many", job.Partial, "", maxHeld + 3, false, "run completed\na completed\n  0 completed #3  mean=5", maxHeld + 6},
	} {
		for cut := -1; cut < 12; cut++ {
			good := false
			s := step
			if c.each > 1 {
				s.Each, _ = json.Marshal(make([]int, c.each))
			}
			w := newWorld(t, flow.Def{Steps: []flow.Step{s}}, nil, func(Name) (job.State, *job.Result) {
				if good {
					return job.Completed, metric(5)
				}
				return c.state, metric(4)
			})
			if !c.stop {
				w.cut = cut
			}
			w.begin()
			if c.stop {
				for w.m != nil && (len(w.order) > 0 || len(w.state().Tries) == 0) {
					w.endJob(0)
				}
				if w.m == nil {
					t.Fatalf("%s, the holder died at %d: it is over\n%s", c.name, cut, w.show())
				}
				if cut == 0 { // nobody did what follows from it
					w.append(event.KindFlowStopped, event.WorkflowStopped{Run: w.run, Actor: "uid:1@n1", Reason: "enough"})
					w.begin()
				} else {
					w.cut = cut
					w.stopRun(false)
				}
			}
			w.toEnd(nil)
			open := 0
			for _, j := range w.jobs {
				if j.state == "" {
					open++
				}
			}
			if want := map[bool]int{true: min(c.each, maxHeld)}[c.state == job.Partial && !c.stop]; open != want {
				t.Fatalf("%s, the holder died at %d: %d jobs wait for a retry, want %d\n%s", c.name, cut, open, want, w.show())
			}
			good = true
			w.retryRun(c.from)
			w.toEnd(nil)
			if got := w.show(); !strings.HasPrefix(got, c.want) || len(w.jobs) != c.jobs {
				t.Fatalf("%s, the holder died at %d: %d jobs, want %d, got\n%s\nwant\n%s\n%s", c.name, cut, len(w.jobs), c.jobs, got, c.want, w.history())
			}
			for _, j := range w.jobs {
				if j.state == "" {
					t.Fatalf("%s, the holder died at %d: the job of %s is open", c.name, cut, j.Name)
				}
			}
		}
	}
}

// TestKeptJob: another try goes on with the job of the one before, as often as there are
// tries; then that waits for a retry of the run. It is stopped where nothing goes on any more.
func TestKeptJob(t *testing.T) {
	s := flow.Step{Name: "a", Job: spec(), Retry: flow.Retry{Times: 2, BackoffSeconds: 60}, Outputs: map[string]string{"mean": "metric:pv.mean"}}
	d := flow.Def{Steps: []flow.Step{s}}
	run := func(good int, keeps bool) *world {
		return newWorldThat(t, keeps, d, nil, func(n Name) (job.State, *job.Result) {
			if n.Try < good {
				return job.Partial, metric(4)
			}
			return job.Completed, metric(5)
		})
	}
	for good, want := range map[int]string{2: "completed #2  mean=5", 9: "partial #3 "} {
		w := run(good, true)
		w.toEnd(nil)
		if got := w.show(); !strings.Contains(got, want) || len(w.jobs) != 1 {
			t.Errorf("good with try %d: %d jobs\n%s", good, len(w.jobs), got)
		}
	}
	w := run(9, true)
	w.begin()
	w.endJob(0)
	w.stopRun(false)
	for _, j := range w.jobs {
		if j.state != job.Cancelled || w.m != nil {
			t.Errorf("the job of a run that was stopped is %q", j.state)
		}
	}
	// A run of before goes on as it did.
	w = run(2, false)
	w.toEnd(nil)
	if got := w.show(); !strings.Contains(got, "completed #2  mean=5") || len(w.jobs) != 2 {
		t.Errorf("%d jobs\n%s", len(w.jobs), got)
	}
}

func TestCompileRefusesProviders(t *testing.T) {
	for want, f := range map[string]func(*flow.Step){
		"and there is no provider":    func(s *flow.Step) { s.Provider = nil },
		"no output is provider:NAME":  func(s *flow.Step) { delete(s.Outputs, "list") },
		"iterations is 2, it has one": func(s *flow.Step) { s.Provider.Iterations = 2 },
		"are not its to say":          func(s *flow.Step) { s.Provider.Key = "k" },
		"and no metrics":              func(s *flow.Step) { s.Provider.Outputs = []string{"x"} },
		"provider: program: ":         func(s *flow.Step) { s.Provider.Program = "" },
		"is not the name of a file":   func(s *flow.Step) { s.Outputs["list"] = "provider:../x" },
	} {
		if _, err := Compile(provided(f), nil); !errors.Is(err, flow.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	d := provided(nil)
	d.Steps[1].Files = map[string]string{"x": "sum.list"}
	if _, err := Compile(d, nil); err == nil || !strings.Contains(err.Error(), "sum.list is no file") {
		t.Error(err)
	}
}

// TestDisputedResults: where results of a job differ, that is told of the instance, by
// another holder as well.
func TestDisputedResults(t *testing.T) {
	steps := []flow.Step{{Name: "a", Job: spec()}, {Name: "b", Job: spec(), Provider: new(spec()), Outputs: map[string]string{"v": "provider:v"}}, {Name: "c", Job: spec()}}
	w := newWorld(t, flow.Def{Steps: steps}, nil, func(n Name) (job.State, *job.Result) {
		r := metric(1)
		if n.Step != "c" && !n.Provider {
			r.Disputed = 1
		}
		return job.Completed, r
	})
	w.left = func(Name) []job.OutputFile {
		return []job.OutputFile{{Name: "v", File: job.File{Hash: cluster.Hash{1}, Size: 1}}}
	}
	w.values[cluster.Hash{1}] = "1"
	w.toEnd(nil)
	m := New(w.g, w.state(), w.now, began.Add(w.now))
	m.Step(Begin{}, w.now)
	for _, s := range m.View() {
		if in := s.Instances[0]; in.Disputed != (s.Def.Name != "c") || in.State != flow.Completed {
			t.Errorf("%s: %+v", s.Def.Name, in)
		}
	}
}
