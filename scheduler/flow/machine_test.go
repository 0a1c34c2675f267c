package flow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// twelve is a workflow of twelve steps with all that there is.
func twelve() flow.Def {
	return flow.Def{
		Name: "risk",
		Params: map[string]flow.Param{
			"day": {Type: flow.TypeText, Default: raw(`"2026-11-24"`)}, "books": {Type: flow.TypeList, Default: raw(`["fx","rates","eq"]`)},
		},
		Steps: []flow.Step{
			{Name: "make", Role: flow.RoleSetup, Job: spec()},
			{Name: "prepare", Job: spec(), Outputs: map[string]string{"n": "metric:pv.n", "mean": "metric:pv.mean"}},
			{
				Name: "price", After: []string{"prepare"}, Each: raw(`"${params.books}"`), MaxParallel: 2, Job: spec(),
				Inputs:  map[string]json.RawMessage{"book": raw(`"${item}"`), "of": raw(`"${prepare.mean}"`), "text": raw(`"day ${params.day} of ${run.id}"`)},
				Outputs: map[string]string{"mean": "metric:pv.mean"}, Retry: flow.Retry{Times: 2, BackoffSeconds: 30},
			},
			{Name: "grid", Matrix: map[string]json.RawMessage{"a": raw(`[1,2]`), "b": raw(`["x","y"]`)}, Job: spec(), Inputs: map[string]json.RawMessage{"cell": raw(`"${item}"`)}},
			{Name: "report", After: []string{"price", "grid"}, Job: spec(), Inputs: map[string]json.RawMessage{"means": raw(`"${price.mean}"`)}, Outputs: map[string]string{"all": "aggregate"}},
			{Name: "check", After: []string{"prepare"}, Job: spec(), OnFailure: flow.FailureIgnore, Outputs: map[string]string{"mean": "metric:pv.mean"}},
			{Name: "alarm", AfterFailed: []string{"check"}, Job: spec()},
			{Name: "never", AfterFailed: []string{"prepare"}, Job: spec()},
			{Name: "big", After: []string{"report"}, When: `report.all.pv.mean > 100 and report.state == "completed"`, Job: spec()},
			{Name: "small", After: []string{"report"}, When: `params.day != "" and len(params.books) == 3 and any(price.mean, # > 5)`, Job: spec()},
			{Name: "each", After: []string{"price"}, Each: raw(`"${price.mean}"`), Job: spec(), Inputs: map[string]json.RawMessage{"v": raw(`{"twice": ["${item}", "${item}"]}`)}},
			{Name: "clean", Role: flow.RoleTeardown, Job: spec()},
		},
	}
}

// ofTwelve is how its jobs end: one price fails twice, check for good.
func ofTwelve(n Name) (job.State, *job.Result) {
	switch {
	case n.Step == "price" && n.Index == 1 && n.Try < 3, n.Step == "check":
		return job.Failed, nil
	}
	return job.Completed, metric(float64(len(n.Step) + n.Index))
}

const wantTwelve = `run partial
make completed
  0 completed #1 
prepare completed
  0 completed #1  mean=7 n=1
price completed
  0 completed #1  mean=5
  1 completed #3  mean=6
  2 completed #1  mean=7
grid completed
  0 completed #1 
  1 completed #1 
  2 completed #1 
  3 completed #1 
report completed
  0 completed #1  all={"pv":{"max":6,"mean":6,"min":6,"n":1,"se":0,"std":0}}
check failed
  0 failed #1 
alarm completed
  0 completed #1 
never skipped: step prepare did not fail
big skipped
small completed
  0 completed #1 
each completed
  0 completed #1 
  1 completed #1 
  2 completed #1 
clean completed
  0 completed #1 `

func TestRun(t *testing.T) {
	w := newWorld(t, twelve(), nil, ofTwelve)
	w.toEnd(nil)
	if got := w.show(); got != wantTwelve {
		t.Errorf("got\n%s\nwant\n%s\n%s", got, wantTwelve, w.history())
	}
	if w.now < time.Minute {
		t.Errorf("two tries of 30 s between them took %s", w.now)
	}
	var docs []string
	for d := range w.stored {
		docs = append(docs, d)
	}
	slices.Sort(docs)
	for _, want := range []string{
		`{"inputs":{"means":[5,6,7]},"params":{"books":["fx","rates","eq"],"day":"2026-11-24"}}`,
		`{"inputs":{"v":{"twice":[7,7]}},"item":7,"params":{"books":["fx","rates","eq"],"day":"2026-11-24"}}`,
		`{"inputs":{"cell":{"a":2,"b":"x"}},"item":{"a":2,"b":"x"},"params":{"books":["fx","rates","eq"],"day":"2026-11-24"}}`,
		`{"inputs":{"book":"rates","of":7,"text":"day 2026-11-24 of ` + string(w.run) + `"},"item":"rates","params":{"books":["fx","rates","eq"],"day":"2026-11-24"}}`,
	} {
		if !slices.Contains(docs, want) {
			t.Errorf("no document %s among\n%s", want, strings.Join(docs, "\n"))
		}
	}
}

// TestHolderDiesAtEveryEvent cuts the log behind each event, and behind the end of each
// job: the end, the outputs and what was computed are the same, and no job was submitted
// twice.
func TestHolderDiesAtEveryEvent(t *testing.T) {
	for _, orphans := range []bool{false, true} {
		diesEverywhere(t, orphans)
	}
}

func diesEverywhere(t *testing.T, orphans bool) {
	t.Helper()
	jobs := 0
	for cut := -1; ; cut++ {
		w := newWorld(t, twelve(), nil, ofTwelve)
		w.cut, w.orphans = cut, orphans
		w.toEnd(nil)
		if cut >= 0 && w.deaths == 0 {
			if cut < 80 {
				t.Errorf("only %d places to die at", cut)
			}
			t.Logf("the holder died at %d places", cut)
			return
		}
		if got := w.show(); got != wantTwelve {
			t.Fatalf("the holder died at %d: got\n%s\nwant\n%s\n%s", cut, got, wantTwelve, w.history())
		}
		if cut < 0 {
			jobs = len(w.jobs)
		}
		if len(w.jobs) != jobs {
			t.Fatalf("the holder died at %d: %d jobs, want %d", cut, len(w.jobs), jobs)
		}
		for n, times := range w.starts {
			if times != 1 {
				t.Fatalf("the holder died at %d: %s was submitted %d times", cut, n, times)
			}
		}
	}
}

// stopRun has somebody stop a run.
func (w *world) stopRun(now bool) {
	run := w.state()
	w.append(event.KindFlowStopped, event.WorkflowStopped{Run: w.run, Round: run.Round, Actor: "uid:1@n1", Reason: "enough", Now: now})
	w.step(Stopped{Now: now, Reason: "enough"})
}

func (w *world) retryRun(from string) {
	w.append(event.KindFlowRetried, event.WorkflowRetried{Run: w.run, Round: w.state().Round + 1, From: from, Actor: "uid:1@n1"})
	w.begin()
}

// TestStopAndRetry: what runs is stopped, the teardown runs all the same; a retry begins
// what is not completed, and with from what is.
func TestStopAndRetry(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for _, now := range []bool{false, true} {
			w := newWorld(t, twelve(), nil, func(n Name) (job.State, *job.Result) { return job.Completed, metric(6) })
			w.begin()
			w.endJob(0) // make
			for len(w.docs) > 0 {
				w.store()
			}
			w.endJob(0) // prepare or one of the grid
			if crash {
				w.cut = 1
			}
			w.stopRun(now)
			w.toEnd(nil)
			run := w.state()
			cleaned := w.starts[Name{Step: "clean", Index: 0, Try: 1}] == 1
			if run.State != flow.Cancelled || run.Reason != "enough" || cleaned == now {
				t.Fatalf("crash %t, now %t: %s, cleaned %t\n%s", crash, now, w.show(), cleaned, w.history())
			}
			before := len(w.jobs)
			w.retryRun("")
			w.toEnd(nil)
			if run := w.state(); run.State != flow.Completed || run.Round != 1 || w.starts[Name{Step: "make", Index: 0, Try: 2}] != 0 {
				t.Fatalf("retry: %s", w.show())
			}
			after := len(w.jobs)
			if after <= before {
				t.Error("nothing was computed in the retry")
			}
			w.retryRun("report")
			w.toEnd(nil)
			again := len(w.jobs) - after
			if run := w.state(); run.State != flow.Completed || run.Round != 2 || again != 3 { // report, small, clean
				t.Fatalf("retry from report computed %d again: %s\n%s", again, w.show(), w.history())
			}
		}
	}
}

// TestFailures: what the failure of a step means for the run and for the other steps.
func TestFailures(t *testing.T) {
	bad := func(n Name) (job.State, *job.Result) {
		switch n.Step {
		case "bad":
			return job.Failed, nil
		case "half":
			return job.Partial, metric(1)
		case "late":
			return job.TimedOut, nil
		}
		return job.Completed, metric(1)
	}
	step := func(name string, after ...string) flow.Step { return flow.Step{Name: name, After: after, Job: spec()} }
	with := func(s flow.Step, f func(*flow.Step)) flow.Step { f(&s); return s }
	for name, c := range map[string]struct {
		steps []flow.Step
		want  string
	}{
		"fail":   {[]flow.Step{step("bad"), step("b", "bad"), step("c", "b"), step("d")}, "run failed bad:failed b:skipped c:skipped d:completed"},
		"ignore": {[]flow.Step{with(step("bad"), func(s *flow.Step) { s.OnFailure = "ignore" }), step("b", "bad")}, "run partial bad:failed b:completed"},
		"stop": {
			[]flow.Step{with(step("bad"), func(s *flow.Step) { s.OnFailure = "stop" }), step("z"), step("d", "z"), with(step("t"), func(s *flow.Step) { s.Role = "teardown" })},
			"run failed bad:failed z:cancelled d:cancelled t:completed",
		},
		"partial":  {[]flow.Step{step("half"), step("b", "half")}, "run failed half:partial b:skipped"},
		"accepted": {[]flow.Step{with(step("half"), func(s *flow.Step) { s.AcceptPartial = true }), step("b", "half")}, "run completed half:partial b:completed"},
		"timeout":  {[]flow.Step{step("late"), step("b", "late")}, "run failed late:timeout b:skipped"},
		"after done": {
			[]flow.Step{step("bad"), with(step("b"), func(s *flow.Step) { s.AfterDone = []string{"bad"} }), with(step("c"), func(s *flow.Step) { s.AfterFailed = []string{"bad"} })},
			"run failed bad:failed b:completed c:completed",
		},
		"setup":   {[]flow.Step{with(step("bad"), func(s *flow.Step) { s.Role = "setup" }), step("b"), with(step("t"), func(s *flow.Step) { s.Role = "teardown" })}, "run failed bad:failed b:skipped t:completed"},
		"nothing": {[]flow.Step{with(step("a"), func(s *flow.Step) { s.Each = raw("[]") }), step("b", "a")}, "run completed a:completed b:completed"},
		"no metric": {
			[]flow.Step{with(step("a"), func(s *flow.Step) { s.Outputs = map[string]string{"x": "metric:nix.mean"}; s.Retry.Times = 3 }), step("b", "a")},
			"run failed a:failed b:skipped",
		},
		"null in when": {
			[]flow.Step{
				with(step("bad"), func(s *flow.Step) { s.OnFailure = "ignore"; s.Outputs = map[string]string{"x": "metric:pv.mean"} }),
				with(step("b", "bad"), func(s *flow.Step) { s.When = "bad.x > 3" }), step("c", "b"),
			}, "run failed bad:failed b:failed c:skipped",
		},
		"no list": {
			[]flow.Step{with(step("a"), func(s *flow.Step) { s.Outputs = map[string]string{"x": "metric:pv.mean"} }), with(step("b", "a"), func(s *flow.Step) { s.Each = raw(`"${a.x}"`) })},
			"run failed a:completed b:failed",
		},
		"when is false": {[]flow.Step{with(step("a"), func(s *flow.Step) { s.When = "1 > 2" }), step("b", "a")}, "run completed a:skipped b:completed"},
	} {
		t.Run(name, func(t *testing.T) {
			for cut := -1; cut < 30; cut++ {
				w := newWorld(t, flow.Def{Steps: c.steps}, nil, bad)
				w.cut = cut
				w.toEnd(nil)
				if got := w.line(); got != c.want {
					t.Fatalf("cut %d: got  %s\nwant %s\n%s", cut, got, c.want, w.history())
				}
			}
		})
	}
}

// line says in one line how the steps are.
func (w *world) line() string {
	m := New(w.g, w.state(), w.now, began.Add(w.now))
	m.Step(Begin{}, w.now)
	out := "run " + string(w.state().State)
	for _, s := range m.View() {
		out += fmt.Sprintf(" %s:%s", s.Def.Name, s.State)
	}
	return out
}

// TestQuorum: a run ends as completed once as many steps have completed as must, which
// stops the others, and as failed when no longer so many can; also where the holder dies.
func TestQuorum(t *testing.T) {
	slow := func(s string) flow.Step { return flow.Step{Name: s, OnFailure: flow.FailureIgnore, Job: spec()} }
	ends := func(bad ...string) func(Name) (job.State, *job.Result) {
		return func(n Name) (job.State, *job.Result) {
			if slices.Contains(bad, n.Step) {
				return job.Failed, nil
			}
			return job.Completed, metric(1)
		}
	}
	for name, c := range map[string]struct {
		ends []string // in this order
		bad  []string
		want string
	}{
		"two of three":           {[]string{"a", "b"}, nil, "run completed a:completed b:completed c:cancelled t:completed"},
		"one fails, two succeed": {[]string{"c", "a", "b"}, []string{"c"}, "run completed a:completed b:completed c:failed t:completed"},
		"two fail":               {[]string{"c", "a"}, []string{"a", "c"}, "run failed a:failed b:cancelled c:failed t:completed"},
	} {
		for _, crash := range []bool{false, true} {
			d := flow.Def{Quorum: 2, Steps: []flow.Step{slow("a"), slow("b"), slow("c"), {Name: "t", Role: flow.RoleTeardown, Job: spec()}}}
			w := newWorld(t, d, nil, ends(c.bad...))
			w.begin()
			for _, step := range c.ends {
				i := slices.IndexFunc(w.order, func(id job.ID) bool { return w.jobs[id].Step == step })
				if i < 0 {
					t.Fatalf("%s: step %s does not run\n%s", name, step, w.history())
				}
				w.endJob(i)
				if crash {
					w.begin()
				}
			}
			w.toEnd(nil)
			if got := w.line(); got != c.want {
				t.Errorf("%s, crash %t: %s\nwant %s\n%s", name, crash, got, c.want, w.history())
			}
			if run := w.state(); strings.HasPrefix(c.want, "run failed") && !strings.Contains(run.Reason, "0 steps have completed, and 2 must") {
				t.Errorf("%s: reason %q", name, run.Reason)
			}
		}
	}
	for _, q := range []int{-1, 3} {
		if _, err := Compile(flow.Def{Quorum: q, Steps: []flow.Step{slow("a"), slow("b"), {Name: "t", Role: flow.RoleTeardown, Job: spec()}}}, nil); err == nil {
			t.Errorf("quorum %d of two steps is taken", q)
		}
	}
}

// TestTimes: a run that takes too long is stopped, and so is its teardown.
func TestTimes(t *testing.T) {
	d := flow.Def{TimeoutSeconds: 60, TeardownSeconds: 30, Steps: []flow.Step{{Name: "a", Job: spec()}, {Name: "t", Role: "teardown", Job: spec()}}}
	for _, crash := range []bool{false, true} {
		w := newWorld(t, d, nil, ofTwelve)
		w.begin()
		wait := func(want time.Duration) {
			t.Helper()
			at, ok := w.m.Next(w.now)
			if !ok || at != want {
				t.Fatalf("crash %t: due at %s, want %s", crash, at, want)
			}
			w.now = at
			if crash {
				w.begin()
			}
			w.step(Tick{})
		}
		wait(60 * time.Second)
		if run := w.state(); run.Stop == nil || run.Stop.Cause != flow.StopTimeout || len(w.order) != 1 {
			t.Fatalf("crash %t: %s", crash, w.history())
		}
		wait(90 * time.Second)
		if got := w.line(); got != "run timeout a:cancelled t:cancelled" {
			t.Errorf("crash %t: %s\n%s", crash, got, w.history())
		}
	}
}

// TestRefusedSubmissionsWait: a job that is refused is submitted later, and costs no try.
func TestRefusedSubmissionsWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(t, twelve(), nil, ofTwelve)
	w.refuse = func() bool { return rng.IntN(2) == 0 }
	w.toEnd(rng)
	if got := w.show(); got != wantTwelve {
		t.Errorf("got\n%s", got)
	}
}

// TestReasonsThatAreLong: what is cut of the words of others is read back as it was written,
// or the log would not take it.
func TestReasonsThatAreLong(t *testing.T) {
	for shift := range 4 {
		w := newWorld(t, flow.Def{Steps: []flow.Step{{Name: "a", Job: spec()}}}, nil, nil)
		w.begin()
		j := w.jobs[w.order[0]]
		j.state = job.Failed
		w.step(JobEnded{Name: j.Name, State: job.Failed, Reason: strings.Repeat("x", shift) + strings.Repeat("\U0001f9f6", 400)})
		if run := w.state(); run.State != flow.Failed || len(run.Reason) < 1000 {
			t.Errorf("run %s: %q", run.State, run.Reason)
		}
	}
}
