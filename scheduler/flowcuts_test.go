package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/runs"
)

// twelveSteps is a workflow with all that there is: setup, fan-out over a list, a matrix
// and the outputs of another step, a retry in the same job, a provider that fails at first,
// a failure that is ignored, conditions and a teardown; and two steps more.
func twelveSteps() flow.Def {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	with := func(s flow.Step, f func(*flow.Step)) flow.Step { f(&s); return s }
	in := func(s *flow.Step, name, value string) {
		if s.Inputs == nil {
			s.Inputs = map[string]json.RawMessage{}
		}
		s.Inputs[name] = raw(value)
	}
	return flow.Def{Name: "twelve", Params: map[string]flow.Param{"books": {Type: flow.TypeList, Default: raw(`["fx","eq"]`)}}, Steps: []flow.Step{
		with(flowStep("make"), func(s *flow.Step) { s.Role = flow.RoleSetup }),
		flowStep("prepare"),
		with(flowStep("shaky", "prepare"), func(s *flow.Step) { s.Retry = flow.Retry{Times: 2, BackoffSeconds: 3} }),
		with(flowStep("price", "prepare"), func(s *flow.Step) { s.Each, s.MaxParallel = raw(`"${params.books}"`), 1; in(s, "book", `"${item}"`) }),
		with(flowStep("grid"), func(s *flow.Step) {
			s.Matrix = map[string]json.RawMessage{"a": raw(`[1,2]`), "b": raw(`["x"]`)}
			in(s, "cell", `"${item}"`)
		}),
		with(flowStep("again", "price"), func(s *flow.Step) { s.Each = raw(`"${price.x}"`); in(s, "of", `"${item}"`) }),
		with(flowStep("report", "price", "grid", "shaky"), func(s *flow.Step) { in(s, "all", `"${price.x}"`) }),
		with(flowStep("total", "price"), func(s *flow.Step) {
			s.Outputs["list"], s.Retry.Times = "provider:list", 1
			s.Provider = &job.Spec{Artefact: cluster.Hash{2}, Iterations: 1, Attempts: 1, TimeoutSeconds: 30}
		}),
		with(flowStep("spread", "total"), func(s *flow.Step) { s.Each = raw(`"${total.list}"`); in(s, "of", `"${item}"`) }),
		with(flowStep("bad", "prepare"), func(s *flow.Step) { s.OnFailure = flow.FailureIgnore }),
		with(flowStep("alarm"), func(s *flow.Step) { s.AfterFailed = []string{"bad"} }),
		with(flowStep("big", "report"), func(s *flow.Step) { s.When = "report.x > 100" }),
		with(flowStep("small", "report"), func(s *flow.Step) { s.When = `report.x < 100 and all(price.x, # < 9)` }),
		with(flowStep("clean"), func(s *flow.Step) { s.Role = flow.RoleTeardown }),
	}}
}

// accepts are the results that count: of which chunk of which step's job, and what they
// are. One that counts twice is told as such.
func (l *memLog) accepts(t *testing.T) map[string]string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	keys, out := map[job.ID]string{}, map[string]string{}
	for _, e := range l.events {
		switch e.Kind {
		case event.KindJobSubmitted:
			var b event.JobSubmitted
			if err := json.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			if _, twice := keys[b.Job]; twice {
				t.Errorf("%s was submitted twice", b.Spec.Key)
			}
			keys[b.Job] = b.Spec.Key
		case event.KindChunksAccepted:
			var b event.ChunksAccepted
			if err := json.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			for _, a := range b.Accepts {
				out[fmt.Sprintf("%s %d", keys[b.Job], a.Chunk)] += a.Result.Hash().String()
			}
		}
	}
	return out
}

// starts counts how often the log says that a try began.
func (l *memLog) starts(t *testing.T) map[string]int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for _, e := range l.events {
		var b event.StepsStarted
		if e.Kind != event.KindStepsStarted {
			continue
		}
		if err := json.Unmarshal(e.Body, &b); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Starts {
			out[fmt.Sprintf("%s[%d]#%d %t", s.Step, s.Index, s.Try, s.Provider)]++
		}
	}
	return out
}

// prefix is a log that has the first n events of another.
func prefix(events []event.Event, n int) *memLog {
	l := newMemLog("a")
	for _, e := range events[:n] {
		if l.st.Apply(e) {
			panic("rebuild")
		}
		l.events = append(l.events, e)
	}
	return l
}

// TestFlowHolderDiesAtEveryEvent runs a workflow of twelve steps, then cuts the log behind
// each of its events, which need not be the end of an append, and has another holder go on
// from what is left while no host has anything of it: the end, the outputs and the results
// that count are the same, each job is submitted and each try begins once. The suite cuts
// at every third event, SKEIN_PROVE=1 at each.
func TestFlowHolderDiesAtEveryEvent(t *testing.T) {
	var whole []event.Event
	var want string
	var accepts map[string]string
	var id flow.RunID
	first := 0
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		id = f.submitFlow(twelveSteps())
		f.until(2*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
		want, accepts, whole = said(f.flowRun(id)), f.log.accepts(t), slices.Clone(f.log.events)
		first = 1 + slices.IndexFunc(whole, func(e event.Event) bool { return e.Kind == event.KindFlowSubmitted })
	})
	t.Logf("%d events: %s", len(whole), want)
	for _, part := range []string{"shaky[0]#1:partial shaky[0]#2:completed", "total[0]#1:failed total[0]#2:completed", "spread[1]#1:completed"} {
		if !strings.Contains(want, part) {
			t.Errorf("there is no %s", part)
		}
	}
	if len(accepts) < 26 {
		t.Fatalf("only %d results count", len(accepts))
	}
	every := 3
	if os.Getenv("SKEIN_PROVE") == "1" {
		every = 1
	}
	for cut := first; cut < len(whole); cut += every {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(whole[cut-1].HLC.Time()) + time.Second)
			f := newFlowRigOn(t, prefix(whole, cut))
			defer f.close()
			stop := f.run(2)
			defer func() { _ = stop() }()
			f.until(10*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
			if got := said(f.flowRun(id)); got != want {
				t.Errorf("cut behind event %d, %s: got\n%s\nwant\n%s", cut, whole[cut-1].Kind, got, want)
			}
			if got := f.log.accepts(t); !maps.Equal(got, accepts) {
				t.Errorf("cut behind event %d, %s: other results count:\n%v\nwant\n%v", cut, whole[cut-1].Kind, got, accepts)
			}
			for try, n := range f.log.starts(t) {
				if n != 1 {
					t.Errorf("cut behind event %d, %s: %s began %d times", cut, whole[cut-1].Kind, try, n)
				}
			}
		})
	}
}

// TestFlowsOfAnOwner: as many runs are open as may be; one that begins again is one more.
func TestFlowsOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		submit := func(owner, key string) (flow.RunID, error) {
			text, err := flow.Def{Steps: []flow.Step{flowStep("bad")}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			b := event.WorkflowSubmitted{Run: flow.NewRunID(owner, key), Owner: owner, Def: text, Params: json.RawMessage("{}")}
			_, err = f.ask(runs.Request{Submit: &b})
			return b.Run, err
		}
		first, err := submit("uid:1", "first")
		if err != nil {
			t.Fatal(err)
		}
		f.until(time.Minute, "end of the first", func() bool { r := f.flowRun(first); return !r.Open() })
		for i := range runs.MaxOwnerOpen {
			if _, err := submit("uid:1", fmt.Sprint(i)); err != nil {
				t.Fatalf("run %d: %v", i, err)
			}
		}
		if _, err := submit("uid:1", "more"); !errors.Is(err, runs.ErrMany) {
			t.Errorf("one more: %v", err)
		}
		if _, err := f.ask(runs.Request{Retry: &event.WorkflowRetried{Run: first}}); !errors.Is(err, runs.ErrMany) {
			t.Errorf("one that begins again: %v", err)
		}
		if _, err := submit("uid:2", "k"); err != nil {
			t.Errorf("of another owner: %v", err)
		}
		f.until(5*time.Minute, "end of all", func() bool {
			open := 0
			f.log.View(func(st *state.State) { open = len(st.Flows().Open()) })
			return open == 0
		})
		if _, err := f.ask(runs.Request{Retry: &event.WorkflowRetried{Run: first}}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
