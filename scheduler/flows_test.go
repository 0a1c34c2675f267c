package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/stream"
)

// flowRig is a rig that stores documents, and whose worker fails the job of a step called
// bad, the second chunk in the first try at one called shaky and in the first round at one
// called half, and the provider of the first try at one called total. Providers leave a
// list.
type flowRig struct {
	*rig
	mu   sync.Mutex
	docs map[cluster.Hash]string
}

func newFlowRig(t *testing.T) *flowRig { return newFlowRigOn(t, newMemLog("a")) }

// newFlowRigOn has a log, and a worker that knows nothing of what it says.
func newFlowRigOn(t *testing.T, log *memLog) *flowRig {
	w := newFakeWorker("a", 4)
	w.answer = func(r job.Attempt, n uint64) []stream.Frame {
		key, first, round := "", true, 0
		log.View(func(st *state.State) {
			j, _ := st.Job(r.Job)
			key = j.Spec.Key
			for _, run := range st.Flows().Runs() {
				run, _ = st.Flows().Run(run.Run)
				round = max(round, run.Round)
				first = first && !slices.ContainsFunc(run.Tries, func(t flows.Try) bool { return t.Step == "shaky" && t.End != nil })
			}
		})
		if strings.Contains(key, "/bad[") || strings.Contains(key, "/shaky[") && first && r.Chunk == 1 || strings.Contains(key, "/half[") && round == 0 && r.Chunk == 1 || strings.Contains(key, "/total[") && strings.HasSuffix(key, "#1/provider") {
			return []stream.Frame{failure(r, "exit 3")}
		}
		out := goodResult(r, n)
		if strings.HasSuffix(key, "/provider") {
			out.Result.Result.Outputs = job.Files{"list": {Hash: providedList, Size: 5}}
		}
		return []stream.Frame{out}
	}
	f := &flowRig{rig: newRig(t, log, w), docs: map[cluster.Hash]string{}}
	f.s.o.Read = func(_ context.Context, file job.OutputFile) ([]byte, error) {
		if file.Hash != providedList {
			return nil, errDown
		}
		return []byte("[4, 2]"), nil
	}
	f.s.o.Keep = func(_ context.Context, doc []byte) (cluster.Hash, error) {
		h := cluster.Hash(sha256.Sum256(doc))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.docs[h] = string(doc)
		return h, nil
	}
	return f
}

var providedList = cluster.Hash{8}

// close ends the workers.
func (f *flowRig) close() {
	for _, w := range f.workers {
		w.kill()
	}
}

func flowStep(name string, after ...string) flow.Step {
	return flow.Step{
		Name: name, After: after, Outputs: map[string]string{"x": "metric:x.mean"},
		Job: job.Spec{Artefact: cluster.Hash{1}, Iterations: 20, Chunk: 10, TimeoutSeconds: 30, Attempts: 1},
	}
}

func flowDef() flow.Def {
	shaky, bad, many, sum, clean := flowStep("shaky"), flowStep("bad"), flowStep("many", "shaky"), flowStep("sum", "many"), flowStep("clean")
	shaky.Retry = flow.Retry{Times: 2, BackoffSeconds: 3}
	bad.OnFailure = flow.FailureIgnore
	many.Each = json.RawMessage("[1,2,3]")
	many.Inputs = map[string]json.RawMessage{"item": json.RawMessage(`"${item}"`), "x": json.RawMessage(`"${shaky.x}"`)}
	sum.Inputs = map[string]json.RawMessage{"all": json.RawMessage(`"${many.x}"`)}
	clean.Role = flow.RoleTeardown
	return flow.Def{Name: "w", Steps: []flow.Step{shaky, bad, many, sum, clean}}
}

// observed counts what a histogram has.
func (f *flowRig) observed(name string) uint64 {
	f.t.Helper()
	all, err := f.reg.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == name {
			return m.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

func (f *flowRig) submitFlow(d flow.Def) flow.RunID {
	f.t.Helper()
	text, err := d.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	b := event.WorkflowSubmitted{Run: flow.NewRunID("uid:1", "k"), Owner: "uid:1", Def: text, Params: json.RawMessage("{}")}
	a, err := f.ask(runs.Request{Submit: &b})
	if err != nil || !a.Created {
		f.t.Fatalf("%+v %v", a, err)
	}
	return b.Run
}

func (f *flowRig) ask(q runs.Request) (runs.Answer, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	return f.s.Flow(ctx, q)
}

func (f *flowRig) flowRun(id flow.RunID) (r flows.Run) {
	f.log.View(func(st *state.State) { r, _ = st.Flows().Run(id) })
	return r
}

// said is what came of a run.
func said(r flows.Run) string {
	out := string(r.State)
	for _, t := range r.Tries {
		if t.End == nil {
			out += fmt.Sprintf(" %s[%d]#%d", t.Step, t.Index, t.Try)
			continue
		}
		out += fmt.Sprintf(" %s[%d]#%d:%s%s", t.Step, t.Index, t.Try, t.End.State, t.End.Outputs["x"])
	}
	return out
}

const wantFlow = "partial bad[0]#1:failed clean[0]#1:completed0.5 many[0]#1:completed0.5 many[1]#1:completed0.5 many[2]#1:completed0.5 " +
	"shaky[0]#1:partial shaky[0]#2:completed0.5 sum[0]#1:completed0.5"

// TestFlow: a workflow runs to its end, its data goes from step to step, its jobs are
// submitted once each.
func TestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		id := f.submitFlow(flowDef())
		f.until(time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
		if got := said(f.flowRun(id)); got != wantFlow {
			t.Errorf("got\n%s\nwant\n%s", got, wantFlow)
		}
		// many[0..2], sum and clean wait for others, and shaky for nothing but its time.
		if n := f.observed("skein_workflow_release_seconds"); n != 5 {
			t.Errorf("%d steps were released, want 5", n)
		}
		docs := map[string]bool{}
		for _, d := range f.docs {
			docs[d] = true
		}
		for _, want := range []string{`{"inputs":{"item":2,"x":0.5},"item":2,"params":{}}`, `{"inputs":{"all":[0.5,0.5,0.5]},"params":{}}`} {
			if !docs[want] {
				t.Errorf("no document %s among %v", want, docs)
			}
		}
		// The key of a step's job is nobody else's to use.
		if _, err := f.s.Submit(t.Context(), testSpec("wf:x", 1), "uid:1", WaitLocal, false); !errors.Is(err, job.ErrSpec) {
			t.Errorf("key of a workflow: %v", err)
		}
		b := f.flowRun(id).WorkflowSubmitted
		if a, err := f.ask(runs.Request{Submit: &b}); err != nil || a.Created {
			t.Errorf("submitted again: %+v %v", a, err)
		}
		b.Params = json.RawMessage(`{"p":1}`)
		if _, err := f.ask(runs.Request{Submit: &b}); !errors.Is(err, runs.ErrKeyReused) {
			t.Errorf("another under the same key: %v", err)
		}
		if _, err := f.ask(runs.Request{Stop: &event.WorkflowStopped{Run: id}}); !errors.Is(err, runs.ErrOver) {
			t.Errorf("stopped after its end: %v", err)
		}
		if _, err := f.ask(runs.Request{Stop: &event.WorkflowStopped{Run: "w1"}}); !errors.Is(err, runs.ErrUnknown) {
			t.Errorf("stopped what there is not: %v", err)
		}
		if _, err := f.ask(runs.Request{Retry: &event.WorkflowRetried{Run: id, From: "nix"}}); !errors.Is(err, runs.ErrNoStep) {
			t.Errorf("retried from no step: %v", err)
		}
		before := f.log.count(event.KindJobSubmitted)
		if a, err := f.ask(runs.Request{Retry: &event.WorkflowRetried{Run: id, From: "sum"}}); err != nil || a.Round != 1 {
			t.Fatalf("%+v %v", a, err)
		}
		f.until(time.Minute, "end of the second round", func() bool { r := f.flowRun(id); return !r.Open() })
		if n := f.log.count(event.KindJobSubmitted) - before; n != 3 { // sum, clean, and bad, which had failed
			t.Errorf("%d jobs in the second round", n)
		}
		f.unaware.Store(new(cluster.NodeID("old")))
		if _, err := f.ask(runs.Request{Submit: &b}); err == nil {
			t.Error("a workflow is submitted while a member does not know what that is")
		}
		// After a week it is forgotten, of which nobody holds the lease.
		_ = stop()
		time.Sleep(8 * 24 * time.Hour)
		stop = f.run(2)
		time.Sleep(time.Minute)
		f.log.View(func(st *state.State) {
			if _, ok := st.Flows().Run(id); ok || !st.Flows().Forgotten(id) {
				t.Error("it is not forgotten")
			}
		})
	})
}

// TestKeptRun: a workflow says how long its runs are known, which members of older versions
// do not understand.
func TestKeptRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		d := flowDef()
		d.KeepSeconds = 60
		id := f.submitFlow(d)
		b := f.flowRun(id).WorkflowSubmitted
		if kind := (runs.Request{Submit: &b}).Kind(); kind != event.KeptRuns() || b.KeepSeconds != 60 {
			t.Errorf("submitted as %q, kept for %g s", kind, b.KeepSeconds)
		}
		f.until(time.Minute, "end of the run", func() bool { return !f.flowRun(id).Open() })
		ended := time.Now()
		f.until(2*time.Minute, "end of its time", func() (gone bool) {
			f.log.View(func(st *state.State) { gone = st.Flows().Forgotten(id) })
			return gone
		})
		if took := time.Since(ended); took < 59*time.Second {
			t.Errorf("forgotten %s after its end", took)
		}
	})
}

// TestHolderDiesInAFlow has the holder lose the lease behind each event of a run, and
// another term go on: the end and the outputs are the same, and each job is submitted
// once.
func TestHolderDiesInAFlow(t *testing.T) {
	for cut := 1; ; cut++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			var term atomicTerm
			term.set(1)
			f.mayAct = func(of cluster.Term) bool { return of > 1 || f.log.len() < cut+3 || term.get() > 1 }
			stop := f.run(1)
			text, err := flowDef().Encode()
			if err != nil {
				t.Fatal(err)
			}
			b := event.WorkflowSubmitted{Run: flow.NewRunID("uid:1", "k"), Owner: "uid:1", Def: text, Params: json.RawMessage("{}")}
			id := b.Run
			_, _ = f.ask(runs.Request{Submit: &b}) // its outcome may be unknown
			f.until(2*time.Minute, "end of the term or the run", func() bool {
				r := f.flowRun(id)
				return f.log.len() >= cut+3 || r.Owner != "" && !r.Open()
			})
			_ = stop()
			if r := f.flowRun(id); r.Owner != "" && !r.Open() {
				over = true
			}
			term.set(2)
			stop = f.run(2)
			defer func() { _ = stop() }()
			if f.flowRun(id).Owner == "" {
				f.submitFlow(flowDef())
			}
			f.until(3*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
			if got := said(f.flowRun(id)); got != wantFlow {
				t.Fatalf("cut %d: got\n%s\nwant\n%s", cut, got, wantFlow)
			}
			if n := f.log.count(event.KindJobSubmitted); n != 7 {
				t.Fatalf("cut %d: %d jobs were submitted, want 7", cut, n)
			}
		})
		if over {
			if cut < 20 {
				t.Errorf("only %d places to die at", cut)
			}
			return
		}
	}
}

type atomicTerm struct {
	mu sync.Mutex
	n  int
}

func (a *atomicTerm) set(n int) { a.mu.Lock(); defer a.mu.Unlock(); a.n = n }
func (a *atomicTerm) get() int  { a.mu.Lock(); defer a.mu.Unlock(); return a.n }

// TestStopFlow: what runs ends, the teardown runs.
func TestStopFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		id := f.submitFlow(flowDef())
		time.Sleep(300 * time.Millisecond)
		if _, err := f.ask(runs.Request{Stop: &event.WorkflowStopped{Run: id, Actor: "uid:1@a", Reason: "enough"}}); err != nil {
			t.Fatal(err)
		}
		f.until(2*time.Minute, "end of the run", func() bool { r := f.flowRun(id); return !r.Open() })
		r := f.flowRun(id)
		if got := said(r); r.State != flow.Cancelled || r.Reason != "enough" || !strings.Contains(got, "clean[0]#1:completed") || strings.Contains(got, "many") {
			t.Errorf("%s %s", r.Reason, got)
		}
	})
}
