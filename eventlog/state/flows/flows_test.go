package flows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

func runID(n int) flow.RunID { return flow.NewRunID("uid:1", fmt.Sprint(n)) }

// history is what a few holders said of a few runs; what they say contradicts itself now
// and then, and a run is forgotten and submitted anew.
func history(rng *rand.Rand, n int) (out []event.Event) {
	for i := range n {
		id, round := runID(rng.IntN(3)), rng.IntN(2)
		step, index, try := fmt.Sprint("s", rng.IntN(2)), rng.IntN(2), 1+rng.IntN(2)
		var kind event.Kind
		var body any
		switch rng.IntN(9) {
		case 0, 1:
			kind, body = event.KindFlowSubmitted, event.WorkflowSubmitted{
				Run: id, Owner: fmt.Sprint("uid:", i), Name: "n", Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`),
			}
		case 2, 3:
			kind, body = event.KindStepsStarted, event.StepsStarted{Run: id, Starts: []event.StepStart{{Step: step, Index: index, Round: round, Try: try, Job: job.ID(fmt.Sprint("j", i))}}}
		case 4, 5:
			kind, body = event.KindStepsEnded, event.StepsEnded{Run: id, Ends: []event.StepEnd{{
				Step: step, Index: index, Round: round, Try: try, State: flow.Completed, Outputs: map[string]json.RawMessage{"v": json.RawMessage(fmt.Sprint(i))},
			}}}
		case 6:
			kind, body = event.KindFlowStopped, event.WorkflowStopped{Run: id, Round: round, Actor: fmt.Sprint(i), Now: rng.IntN(2) == 0}
		case 7:
			kind, body = event.KindFlowDone, event.WorkflowDone{Run: id, Round: round, State: flow.Failed, Reason: fmt.Sprint(i)}
			if rng.IntN(2) == 0 {
				kind, body = event.KindFlowRetried, event.WorkflowRetried{Run: id, Round: 1, From: step, Actor: fmt.Sprint(i)}
			}
		default:
			if rng.IntN(3) > 0 {
				continue
			}
			kind, body = event.KindFlowsForgotten, event.WorkflowsForgotten{Runs: []flow.RunID{id}}
		}
		b, _ := json.Marshal(body)
		out = append(out, event.Event{
			Source: event.SourceID{Node: cluster.NodeID([]string{"a", "b"}[rng.IntN(2)]), Inc: 1}, Seq: uint64(i + 1),
			HLC: cluster.NewHLC(time.Unix(int64(1e9+i), 0), 0), Term: 1, Kind: kind, Body: b,
		})
	}
	return out
}

func written(f *Fold) []byte {
	w := canon.NewWriter(nil)
	f.Write(w)
	return w.Written()
}

func apply(t *testing.T, f *Fold, e event.Event) {
	t.Helper()
	if about, ok := f.Apply(&e); !about || !ok {
		t.Fatalf("%s %s: %t %t", e.Kind, e.Body, about, ok)
	}
}

// TestOrderDoesNotMatter folds histories in several orders, and reads again what was
// written.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := history(rng, 5+rng.IntN(60))
		var want []byte
		var said string
		for range 4 {
			f := New()
			for _, e := range all {
				apply(t, f, e)
				if rng.IntN(8) == 0 {
					apply(t, f, e) // once more changes nothing
				}
			}
			got, view := written(f), shown(f)
			if want == nil {
				want, said = got, view
			}
			if !bytes.Equal(got, want) || view != said {
				t.Fatalf("seed %d: another order gives another state\n%s\n%s", seed, view, said)
			}
			again, in := New(), canon.NewReader(want)
			again.Read(in)
			if in.Err() != nil || in.Len() != 0 || !bytes.Equal(written(again), want) || shown(again) != said {
				t.Fatalf("seed %d: %v, or not the same when it is read again", seed, in.Err())
			}
			copied := f.Clone()
			for _, e := range history(rng, 20) {
				e.Source.Inc = 2
				apply(t, f, e)
			}
			if !bytes.Equal(written(copied), want) || shown(copied) != said {
				t.Fatalf("seed %d: a copy changes with what it is a copy of", seed)
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// shown is all that readers are told.
func shown(f *Fold) string {
	out := ""
	for _, r := range f.Runs() {
		r, _ = f.Run(r.Run)
		b, _ := json.Marshal(r)
		out += string(b) + "\n"
	}
	return out
}

// TestFirstCounts: of two submissions, starts or ends the first counts, whichever came
// first.
func TestFirstCounts(t *testing.T) {
	at := func(n int64, kind event.Kind, body any) event.Event {
		b, _ := json.Marshal(body)
		return event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: uint64(n), HLC: cluster.NewHLC(time.Unix(n, 0), 0), Term: 1, Kind: kind, Body: b}
	}
	id := runID(1)
	sub := func(owner string) event.WorkflowSubmitted {
		return event.WorkflowSubmitted{Run: id, Owner: owner, Def: json.RawMessage("{}"), Params: json.RawMessage("{}")}
	}
	start := func(j job.ID) event.StepsStarted {
		return event.StepsStarted{Run: id, Starts: []event.StepStart{{Step: "s", Try: 1, Job: j}}}
	}
	f := New()
	apply(t, f, at(9, event.KindStepsStarted, start("j2")))
	if len(f.Runs()) != 0 || f.Empty() {
		t.Error("a run is shown that was not submitted, or what waits for it is not kept")
	}
	apply(t, f, at(8, event.KindFlowSubmitted, sub("uid:2")))
	apply(t, f, at(3, event.KindStepsStarted, start("j1")))
	apply(t, f, at(2, event.KindFlowSubmitted, sub("uid:1")))
	r, ok := f.Run(id)
	if !ok || r.Owner != "uid:1" || len(r.Tries) != 1 || r.Tries[0].Job != "j1" || !r.Open() {
		t.Errorf("%+v", r)
	}
	apply(t, f, at(7, event.KindFlowsForgotten, event.WorkflowsForgotten{Runs: []flow.RunID{id}}))
	if r, ok = f.Run(id); !ok || r.Owner != "uid:2" || r.Tries[0].Job != "j2" || !f.Forgotten(id) {
		t.Errorf("what was submitted after it was forgotten: %+v", r)
	}
	apply(t, f, at(5, event.KindFlowDone, event.WorkflowDone{Run: id, State: flow.Failed}))
	if r, _ = f.Run(id); !r.Open() {
		t.Error("what lies before its end of memory ends it")
	}
}

// TestMalformed: what cannot be what it says is refused.
func TestMalformed(t *testing.T) {
	id := string(runID(1))
	for kind, bodies := range map[event.Kind][]string{
		event.KindFlowSubmitted:  {`{`, `{"run":"w1","owner":"o","def":{},"params":{}}`, `{"run":"` + id + `","def":{},"params":{}}`, `{"run":"` + id + `","owner":"o","params":{}}`},
		event.KindStepsStarted:   {`{"run":"` + id + `","starts":[{"step":"","try":1,"job":"j"}]}`, `{"run":"` + id + `","starts":[{"step":"s","try":0,"job":"j"}]}`, `{"run":"` + id + `","starts":[{"step":"s","try":1,"index":4096,"job":"j"}]}`},
		event.KindStepsEnded:     {`{"run":"` + id + `","ends":[{"step":"s","try":1,"state":"running"}]}`, `{"run":"` + id + `","ends":[{"step":"s","try":1,"state":"failed","round":-1}]}`},
		event.KindFlowStopped:    {`{"run":"` + id + `","cause":"bored"}`},
		event.KindFlowRetried:    {`{"run":"` + id + `","round":0}`},
		event.KindFlowDone:       {`{"run":"` + id + `","state":"stopping"}`},
		event.KindFlowsForgotten: {`{"runs":["x"]}`},
	} {
		for _, b := range bodies {
			f := New()
			if about, ok := f.Apply(&event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: 1, HLC: 1, Kind: kind, Body: []byte(b)}); !about || ok || !f.Empty() {
				t.Errorf("%s %s: taken", kind, b)
			}
		}
	}
}

// TestQueue: of a group as many go on as may, in the order in which they were submitted or
// begun again; other groups and other owners are not counted.
func TestQueue(t *testing.T) {
	f, n := New(), int64(0)
	say := func(kind event.Kind, body any) {
		n++
		b, _ := json.Marshal(body)
		apply(t, f, event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: uint64(n), HLC: cluster.NewHLC(time.Unix(n, 0), 0), Term: 1, Kind: kind, Body: b})
	}
	submit := func(id int, owner, group string) {
		say(event.KindFlowSubmitted, event.WorkflowSubmitted{Run: runID(id), Owner: owner, Def: json.RawMessage("{}"), Params: json.RawMessage("{}"), Group: group, Limit: 2})
	}
	check := func(want string) {
		t.Helper()
		got := ""
		for i := range 6 {
			r, _ := f.Run(runID(i))
			got += fmt.Sprintf("%.1s", r.State)
			if r.Place > 0 {
				got += fmt.Sprint(r.Place)
			}
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	submit(0, "uid:1", "g")
	submit(1, "uid:1", "g")
	submit(2, "uid:1", "g")
	submit(3, "uid:2", "g")
	submit(4, "uid:1", "")
	submit(5, "uid:1", "g")
	check("rrq1rrq2")
	say(event.KindFlowDone, event.WorkflowDone{Run: runID(0), State: flow.Failed})
	check("frrrrq1")
	say(event.KindFlowRetried, event.WorkflowRetried{Run: runID(0), Round: 1})
	check("q2rrrrq1")
	say(event.KindFlowStopped, event.WorkflowStopped{Run: runID(5)})
	check("q1rrrrs")
	say(event.KindFlowDone, event.WorkflowDone{Run: runID(5), State: flow.Cancelled})
	say(event.KindFlowDone, event.WorkflowDone{Run: runID(2), State: flow.Completed})
	check("rrcrrc")
}

// TestDisputed: of two ends of a try the first counts, and that there is another which
// differs is told, in whichever order they come.
func TestDisputed(t *testing.T) {
	end := func(at int, value string, disputed bool) *event.Event {
		b, _ := json.Marshal(event.StepsEnded{Run: runID(0), Ends: []event.StepEnd{{
			Step: "s", Try: 1, State: flow.Completed, Outputs: map[string]json.RawMessage{"v": json.RawMessage(value)}, Disputed: disputed,
		}}})
		return &event.Event{
			Source: event.SourceID{Node: cluster.NodeID([]string{"a", "b"}[at%2]), Inc: 1}, Seq: uint64(at + 1),
			HLC: cluster.NewHLC(time.Unix(int64(1e9+at), 0), 0), Term: 1, Kind: event.KindStepsEnded, Body: b,
		}
	}
	sub, _ := json.Marshal(event.WorkflowSubmitted{Run: runID(0), Owner: "uid:1", Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`)})
	for _, c := range []struct {
		name string
		ends []*event.Event
		want bool
	}{
		{"one", []*event.Event{end(1, "1", false)}, false},
		{"the same", []*event.Event{end(1, "1", false), end(2, "1", false)}, false},
		{"another", []*event.Event{end(1, "1", false), end(2, "2", false)}, true},
		{"another, told first", []*event.Event{end(2, "2", false), end(1, "1", false)}, true},
		{"results of its job", []*event.Event{end(1, "1", true)}, true},
	} {
		f := New()
		f.Apply(&event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: 1, HLC: cluster.NewHLC(time.Unix(1e9, 0), 0), Term: 1, Kind: event.KindFlowSubmitted, Body: sub})
		for _, e := range c.ends {
			f.Apply(e)
		}
		run, _ := f.Run(runID(0))
		if len(run.Tries) != 1 || run.Tries[0].Disputed != c.want || string(run.Tries[0].End.Outputs["v"]) != "1" {
			t.Errorf("%s: %+v", c.name, run.Tries)
		}
	}
}
