package flow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
)

const owner = "uid:1000"

var began = time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)

// world is a log, the jobs that were submitted, and the Machine of one run, which is lost
// whenever the holder dies.
type world struct {
	t    testing.TB
	run  flow.RunID
	g    *Graph
	fold *flows.Fold
	m    *Machine
	now  time.Duration
	seq  uint64

	jobs    map[job.ID]*simJob
	order   []job.ID // of jobs that run
	docs    []Assemble
	looks   []Locate
	reads   []Read
	values  map[cluster.Hash]string     // what is in files that providers leave
	left    func(Name) []job.OutputFile // what a job leaves; nil: nothing
	lose    map[cluster.Hash]bool       // files that are lost when a first try has left them
	gone    map[cluster.Hash]bool
	lost    func(cluster.Hash) bool // as well, if there is one
	noLook  func() bool             // nobody can look just now
	stored  map[string]cluster.Hash
	outcome func(Name) (job.State, *job.Result)
	cut     int // appends until the holder dies; below 0: never
	deaths  int
	orphans bool            // jobs that were submitted and not logged as started end while nobody holds
	refuse  func() bool     // a submission
	forget  func(Name) bool // the job with which a try is to go on
	starts  map[Name]int
	log     []string
}

type simJob struct {
	Name
	id     job.ID
	spec   job.Spec
	state  job.State
	held   job.State // what it would end as; it waits for a decision
	kept   int       // how often it went on
	part   *job.Span // that it computes; nil: all
	result *job.Result
	left   []job.OutputFile
}

// metric is the result of a job with one metric.
func metric(v float64) *job.Result {
	return &job.Result{Accepted: 1, Metrics: map[string]job.Metric{"pv": {N: 1, Mean: v, Min: v, Max: v}}}
}

func newWorld(t testing.TB, d flow.Def, params map[string]json.RawMessage, outcome func(Name) (job.State, *job.Result)) *world {
	t.Helper()
	return newWorldThat(t, true, d, params, outcome)
}

// newWorldThat says whether the run was submitted while all knew that tries go on with the
// jobs of others.
func newWorldThat(t testing.TB, keeps bool, d flow.Def, params map[string]json.RawMessage, outcome func(Name) (job.State, *job.Result)) *world {
	t.Helper()
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	given, _ := json.Marshal(params)
	if params == nil {
		given = []byte("{}")
	}
	w := &world{
		t: t, run: flow.NewRunID(owner, "k"), fold: flows.New(), jobs: map[job.ID]*simJob{}, stored: map[string]cluster.Hash{},
		left: func(Name) []job.OutputFile { return nil }, values: map[cluster.Hash]string{}, gone: map[cluster.Hash]bool{},
		outcome: outcome, cut: -1, starts: map[Name]int{}, refuse: func() bool { return false }, noLook: func() bool { return false },
	}
	if w.g, err = Compile(d, params); err != nil {
		t.Fatal(err)
	}
	w.append(event.KindFlowSubmitted, event.WorkflowSubmitted{Run: w.run, Owner: owner, Def: text, Params: given, Keeps: keeps, Holds: keeps})
	return w
}

func (w *world) append(kind event.Kind, body any) {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq++
	e := event.Event{
		Source: event.SourceID{Node: "n1", Inc: 1}, Seq: w.seq, HLC: cluster.NewHLC(began.Add(w.now), uint16(w.seq)), Term: 1, Kind: kind, Body: b,
	}
	w.log = append(w.log, fmt.Sprintf("%s %s", kind, b))
	if about, ok := w.fold.Apply(&e); !about || !ok {
		w.t.Fatalf("%s %s: folded as malformed", kind, b)
	}
}

func (w *world) state() flows.Run {
	run, ok := w.fold.Run(w.run)
	if !ok {
		w.t.Fatal("no run")
	}
	return run
}

// begin makes a Machine of the log, as a new holder does.
func (w *world) begin() {
	run := w.state()
	w.docs, w.looks, w.reads, w.order = nil, nil, nil, nil
	w.m = nil
	if !run.Open() {
		return
	}
	w.m = New(w.g, run, w.now, began.Add(w.now))
	w.step(Begin{})
	for _, t := range run.Tries {
		if w.m == nil {
			return
		}
		if t.End != nil || t.Round != run.Round {
			continue
		}
		if j := w.jobs[t.Job]; j == nil {
			w.t.Fatalf("job of %s[%d]#%d was started and never submitted", t.Step, t.Index, t.Try)
		} else if j.Name = (Name{Step: t.Step, Index: t.Index, Try: t.Try}); j.state != "" {
			w.step(JobEnded{Name: j.Name, State: j.state, Result: j.result, Left: j.left})
		} else if j.held != "" {
			w.step(JobHeld{Name: j.Name, State: j.held})
		} else if !slices.Contains(w.order, t.Job) {
			w.order = append(w.order, t.Job)
		}
	}
}

// die reports whether the holder dies at this point.
func (w *world) die() bool {
	if w.cut < 0 {
		return false
	}
	if w.cut--; w.cut >= 0 {
		return false
	}
	w.cut = -1
	w.deaths++
	return true
}

// endOrphans lets jobs run to their end that were submitted and not logged as started.
func (w *world) endOrphans(submit []*simJob) {
	for _, j := range submit {
		if w.jobs[j.id] == j && j.held == "" {
			w.ends(j)
		}
	}
}

// ends has a job end, which leaves its files.
func (w *world) ends(j *simJob) {
	if j.state, j.result = w.outcome(j.Name); j.spec.OnPartial == job.PartialWait && (j.state == job.Partial || j.state == job.Failed) {
		j.held, j.state = j.state, ""
	}
	if j.state != job.Completed {
		return
	}
	j.left = slices.DeleteFunc(w.left(j.Name), func(f job.OutputFile) bool {
		return j.part != nil && (f.Chunk < j.part.First || f.Chunk > j.part.Last)
	})
	for i := range j.left {
		if j.part != nil {
			j.left[i].Chunk -= j.part.First
		}
	}
	for _, f := range j.left {
		delete(w.gone, f.Hash)
		if j.Try == 1 && w.lose[f.Hash] {
			w.gone[f.Hash] = true
		}
	}
}

// look answers which files are lost.
func (w *world) look() {
	l := w.looks[0]
	w.looks = w.looks[1:]
	if w.noLook() {
		w.step(Refused{Name: l.Name, After: time.Second})
		return
	}
	e := Located{Name: l.Name}
	if w.m != nil && l.Fresh && len(l.Files) == 0 {
		w.t.Fatal("it looks for nothing")
	}
	for _, h := range l.Files {
		if w.gone[h] || w.lost != nil && w.lost(h) {
			e.Lost = append(e.Lost, h)
		}
	}
	w.step(e)
}

// step gives the Machine an event and makes what follows durable. If the holder dies, of
// one append the beginning may be there, and the next one goes on from the log.
func (w *world) step(e Event) {
	if w.m == nil {
		return
	}
	var starts []event.StepStart
	var ends []event.StepEnd
	var last []func()
	var submit, goOn []*simJob
	var over, waited []job.ID
	for todo := []Event{e}; len(todo) > 0; todo = todo[1:] {
		for _, a := range w.m.Step(todo[0], w.now) {
			switch a := a.(type) {
			case Locate:
				w.looks = append(w.looks, a)
			case Assemble:
				w.docs = append(w.docs, a)
			case Read:
				w.reads = append(w.reads, a)
			case Await:
				waited = append(waited, a.Job)
			case GoOn:
				j := w.jobs[a.Job]
				if j.state != "" && j.state != job.Completed && (j.state != job.Partial || !a.Partial) || w.forget != nil && w.forget(a.Name) {
					todo = append(todo, Gone{a.Name})
					continue
				}
				goOn = append(goOn, j)
				starts = append(starts, event.StepStart{Step: a.Step, Index: a.Index, Round: a.Round, Try: a.Try, Job: a.Job})
			case Conclude:
				if j := w.jobs[a.Job]; j.held != "" {
					j.state, j.held = j.held, ""
					over = append(over, a.Job)
				}
			case Start:
				if w.refuse() {
					todo = append(todo, Refused{Name: a.Name, After: time.Second})
					continue
				}
				id := job.NewID(owner, a.Spec.Key)
				if want := flow.JobOf(owner, w.run, a.Step, a.Index, a.Try); a.Provider == (id == want) && a.Part == nil {
					w.t.Fatalf("%s has key %s", a, a.Spec.Key)
				}
				var part *job.Span
				if a.Part != nil {
					if w.forget != nil && w.forget(a.Name) {
						todo = append(todo, Gone{a.Name})
						continue
					}
					part = &a.Part.Span
				}
				if have := w.jobs[id]; have == nil {
					submit = append(submit, &simJob{Name: a.Name, id: id, spec: a.Spec, part: part})
				} else if have.spec.Config != a.Spec.Config {
					w.t.Fatalf("%s: another job under the same key", a)
				}
				starts = append(starts, event.StepStart{Step: a.Step, Index: a.Index, Round: a.Round, Try: a.Try, Job: id, Provider: a.Provider, Part: part})
			case StopJob:
				if j := w.jobs[a.Job]; j != nil && j.state == "" {
					j.state, j.held = job.Cancelled, ""
					over = append(over, a.Job)
				}
			case End:
				ends = append(ends, event.StepEnd{
					Step: a.Step, Index: a.Index, Round: a.Round, Try: a.Try, State: a.State, Reason: a.Reason, Final: a.Final, Lost: a.Lost, Kept: a.Kept, Disputed: a.Disputed, Outputs: a.Outputs,
				})
			case Stop:
				last = append(last, func() {
					w.append(event.KindFlowStopped, event.WorkflowStopped{Run: w.run, Round: a.Round, Actor: "holder", Cause: a.Cause, Reason: a.Reason, Now: a.Now})
				})
			case Finish:
				last = append(last, func() {
					w.append(event.KindFlowDone, event.WorkflowDone{Run: w.run, Round: a.Round, State: a.State, Reason: a.Reason})
				})
			}
		}
	}
	w.check()
	if len(starts)+len(ends)+len(last) > 0 {
		var events []func()
		for _, j := range submit {
			events = append(events, func() { w.jobs[j.id] = j; w.starts[j.Name]++ })
		}
		for _, j := range goOn {
			events = append(events, func() { j.held, j.kept = "", j.kept+1 })
		}
		if len(ends) > 0 {
			events = append(events, func() { w.append(event.KindStepsEnded, event.StepsEnded{Run: w.run, Ends: ends}) })
		}
		if len(starts) > 0 {
			events = append(events, func() { w.append(event.KindStepsStarted, event.StepsStarted{Run: w.run, Starts: starts}) })
		}
		for _, f := range append(events, last...) {
			if w.die() { // before the append, or it is torn
				if w.orphans {
					w.endOrphans(submit)
				}
				w.begin()
				return
			}
			f()
		}
		for _, s := range starts {
			j := w.jobs[s.Job]
			j.Name = Name{Step: s.Step, Index: s.Index, Try: s.Try, Provider: s.Provider}
			if j.state == "" && j.held == "" {
				w.order = append(w.order, s.Job)
			}
		}
	}
	if _, over := w.m.Ends(); over {
		w.m = nil
		return
	}
	if w.die() { // behind the append
		w.begin()
		return
	}
	for _, id := range over {
		w.drop(id)
		w.step(JobEnded{Name: w.jobs[id].Name, State: w.jobs[id].state, Result: w.jobs[id].result, Left: w.jobs[id].left})
	}
	for _, id := range waited {
		starts = append(starts, event.StepStart{Job: id})
		if w.jobs[id].state == "" && w.m != nil {
			w.order = append(w.order, id)
		}
	}
	for _, s := range starts {
		if j := w.jobs[s.Job]; j.state != "" && w.m != nil {
			w.step(JobEnded{Name: j.Name, State: j.state, Result: j.result, Left: j.left})
		} else if j.held != "" {
			w.step(JobHeld{Name: j.Name, State: j.held})
		}
	}
}

// check holds what must be true of every Machine at every moment: nothing runs whose
// dependencies are not met.
func (w *world) check() {
	for i := range w.m.steps {
		s := &w.m.steps[i]
		for _, d := range w.g.nodes[i].deps {
			met, ended := w.m.met(d)
			if w.m.ending.stopping {
				break // a new holder does not tell what was skipped from what was not to begin
			}
			if (s.running > 0 || s.inst != nil) && (!ended || !met) {
				w.t.Fatalf("step %s is %s before what it waits for\n%s", w.g.nodes[i].Name, s.state, w.history())
			}
		}
		if n := w.g.nodes[i].MaxParallel; n > 0 && s.running > n {
			w.t.Fatalf("step %s: %d instances run at once", w.g.nodes[i].Name, s.running)
		}
	}
}

func (w *world) drop(id job.ID) {
	w.order = slices.DeleteFunc(w.order, func(o job.ID) bool { return o == id })
}

// endJob ends a job that runs, durably, and then tells the Machine, if the holder lives.
func (w *world) endJob(k int) {
	id := w.order[k]
	w.drop(id)
	j := w.jobs[id]
	w.ends(j)
	if w.die() {
		w.begin()
		return
	}
	if j.held != "" {
		w.step(JobHeld{Name: j.Name, State: j.held})
		return
	}
	w.step(JobEnded{Name: j.Name, State: j.state, Result: j.result, Left: j.left})
}

// store makes a document durable.
func (w *world) store() {
	d := w.docs[0]
	w.docs = w.docs[1:]
	h := cluster.Hash{byte(len(w.stored) + 1)}
	if have, ok := w.stored[string(d.Doc)]; ok {
		h = have
	}
	w.stored[string(d.Doc)] = h
	w.step(Assembled{Name: d.Name, Config: h})
}

// read answers what a provider left.
func (w *world) read() {
	r := w.reads[0]
	w.reads = w.reads[1:]
	if w.noLook() {
		w.step(Refused{Name: r.Name, After: time.Second})
		return
	}
	e := Values{Name: r.Name, Values: map[string][]byte{}}
	for _, f := range r.Files {
		e.Lost = e.Lost || w.lost != nil && w.lost(f.Hash)
		e.Values[f.Name] = []byte(w.values[f.Hash])
	}
	w.step(e)
}

// toEnd lets the run go on until it has ended; rng, if there is one, says in which order.
func (w *world) toEnd(rng *rand.Rand) {
	w.t.Helper()
	if w.m == nil {
		w.begin()
	}
	for range 100_000 {
		if w.m == nil {
			if w.state().Open() {
				w.t.Fatalf("the Machine is over and the log does not say so\n%s", w.history())
			}
			return
		}
		switch {
		case len(w.looks) > 0:
			w.look()
		case len(w.reads) > 0:
			w.read()
		case len(w.docs) > 0:
			w.store()
		case len(w.order) > 0:
			k := 0
			if rng != nil {
				k = rng.IntN(len(w.order))
			}
			w.endJob(k)
		default:
			at, ok := w.m.Next(w.now)
			if !ok {
				w.t.Fatalf("nothing runs, nothing is due, and the run is open\n%s\n%s", w.history(), w.show())
			}
			w.now = max(w.now, at)
			w.step(Tick{})
		}
	}
	w.t.Fatalf("it does not end\n%s", w.show())
}

// show says how the steps are.
func (w *world) show() string {
	run := w.state()
	m := New(w.g, run, w.now, began.Add(w.now))
	m.Step(Begin{}, w.now)
	out := fmt.Sprintf("run %s", run.State)
	for _, s := range m.View() {
		out += fmt.Sprintf("\n%s %s", s.Def.Name, s.State)
		if s.Reason != "" {
			out += ": " + s.Reason
		}
		for _, in := range s.Instances {
			out += fmt.Sprintf("\n  %d %s #%d %s", in.Index, in.State, in.Try, in.Reason)
			for _, name := range sortedKeys(in.Outputs) {
				out += fmt.Sprintf(" %s=%s", name, in.Outputs[name])
			}
		}
	}
	return out
}

func (w *world) history() string {
	out := ""
	for _, l := range w.log {
		out += l + "\n"
	}
	return out
}

func spec() job.Spec { return job.Spec{Executor: job.ExecutorExec, Program: "p", Iterations: 1} }

func raw(s string) json.RawMessage { return json.RawMessage(s) }
