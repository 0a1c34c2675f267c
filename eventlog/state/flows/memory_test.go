package flows

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
)

// TestMemoryOfAnInstance: the fold keeps at most 1.5 KiB of each instance of a run that has
// as many as there may be, each of which was tried twice and has an output.
func TestMemoryOfAnInstance(t *testing.T) {
	const most, batch = 1536, 512
	seq := uint64(0)
	next := func(kind event.Kind, body any) *event.Event {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		return &event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: seq, HLC: cluster.NewHLC(time.Unix(1e9+int64(seq), 0), 0), Term: 1, Kind: kind, Body: b}
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	f := New()
	f.Apply(next(event.KindFlowSubmitted, event.WorkflowSubmitted{Run: runID(0), Owner: "uid:1", Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`)}))
	for at := 0; at < flow.MaxAllInstances; at += batch {
		for try := 1; try <= 2; try++ {
			var starts []event.StepStart
			var ends []event.StepEnd
			for k := range batch {
				step, index := fmt.Sprint("price", (at+k)/flow.MaxInstances), (at+k)%flow.MaxInstances
				starts = append(starts, event.StepStart{Step: step, Index: index, Try: try, Job: flow.JobOf("uid:1", runID(0), step, index, try)})
				e := event.StepEnd{Step: step, Index: index, Try: try, State: flow.Failed, Reason: "1 of 10 chunks given up, the last at chunk 3: exit 3"}
				if try == 2 {
					e.State, e.Reason, e.Outputs = flow.Completed, "", map[string]json.RawMessage{"mean": json.RawMessage("3.141592653589793")}
				}
				ends = append(ends, e)
			}
			f.Apply(next(event.KindStepsStarted, event.StepsStarted{Run: runID(0), Starts: starts}))
			f.Apply(next(event.KindStepsEnded, event.StepsEnded{Run: runID(0), Ends: ends}))
		}
	}
	each := (heap() - before) / flow.MaxAllInstances
	t.Logf("%d bytes an instance", each)
	if each > most {
		t.Errorf("%d bytes an instance, at most %d are allowed", each, most)
	}
	if run, ok := f.Run(runID(0)); !ok || len(run.Tries) != 2*flow.MaxAllInstances {
		t.Errorf("%d tries", len(run.Tries))
	}
}
