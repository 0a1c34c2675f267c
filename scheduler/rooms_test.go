package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

// appends is a log that takes so many appends.
type appends struct {
	left  int
	kinds [][]event.Kind
	state *state.State // nil: nothing is known
}

func (l *appends) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	if l.left--; l.left < 0 {
		return nil, errors.New("full")
	}
	var kinds []event.Kind
	for _, d := range drafts {
		kinds = append(kinds, d.Kind)
	}
	l.kinds = append(l.kinds, kinds)
	return make([]event.Event, len(drafts)), nil
}

func (l *appends) TakesWork() bool                                 { return true }
func (l *appends) WaitStable(context.Context, uint64) (int, error) { return 1, nil }

func (l *appends) View(f func(*state.State)) {
	if l.state == nil {
		l.state = state.New()
	}
	f(l.state)
}

// The end of a job tells its result, so all before it is folded first.
func TestTheEndOfAJobBeginsAnAppend(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	drafts := []event.Draft{
		{Kind: event.KindChunksAccepted, Body: event.ChunksAccepted{Job: "a"}},
		{Kind: event.KindJobDone, Body: event.JobDone{Job: "a"}},
		{Kind: event.KindJobDone, Body: event.JobDone{Job: "b"}},
		{Kind: event.KindJobStopped, Body: event.JobStopped{Job: "c"}},
	}
	log := &appends{left: 2}
	a := &appender{to: log, m: m, log: zerolog.Nop()}
	if err := a.write(t.Context(), drafts); err != nil {
		t.Fatal(err)
	}
	if len(log.kinds) != 2 || len(log.kinds[0]) != 1 || len(log.kinds[1]) != 3 {
		t.Errorf("appended %v", log.kinds)
	}
	if err := a.write(t.Context(), drafts); err == nil {
		t.Error("an append that failed is hidden")
	}
}

// TestGivenUpIsToldToWhoKnowsIt: the end of a job says on which workers chunks were given up,
// unless a member that lives would fold another job of it.
func TestGivenUpIsToldToWhoKnowsIt(t *testing.T) {
	st := state.New()
	for i, e := range []struct {
		kind event.Kind
		body any
	}{
		{event.KindTermStart, json.RawMessage(`{"term":1,"profile":"lan"}`)},
		{event.KindJobSubmitted, event.JobSubmitted{Job: "a", Owner: "uid:1", Chunks: 2, Spec: job.Spec{
			Key: "k", Executor: job.ExecutorExec, Program: "p", Iterations: 2, Chunk: 1,
		}.WithDefaults()}},
		{event.KindChunkFailed, event.ChunkFailed{Job: "a", Chunk: 1, Attempt: 1, Worker: "n2", Reason: "exit 1", Final: true}},
	} {
		body, err := json.Marshal(e.body)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: uint64(1 + i), Term: 1, Kind: e.kind, Body: body})
	}
	for _, old := range []bool{false, true} {
		a := &appender{to: &appends{state: st}, log: zerolog.Nop(), unaware: func(k event.Kind) []cluster.NodeID {
			if old && k == event.FailedOfWorkers() {
				return []cluster.NodeID{"n3"}
			}
			return nil
		}}
		want := []job.FailShare{{Worker: "n2", Chunks: 1}}
		if old {
			want = nil
		}
		if b := a.withResult(event.JobDone{Job: "a", State: job.Failed}); b.Result == nil || b.Result.Failed != 1 || !slices.Equal(b.Result.GivenUp, want) {
			t.Errorf("with an old member %t: %+v", old, b.Result)
		}
	}
}
