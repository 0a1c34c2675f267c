package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// The end of a job waits for the answer to the latest order, or for a list that
// is late enough to be one.
func TestStopsWaitForTheLatestOrder(t *testing.T) {
	ss := make(stops)
	ss.hold(step.Finish{Job: "j"}, []cluster.NodeID{"a", "b", "a"}, 0)
	ss.ordered("j", "a", 1, 0)
	ss.ordered("j", "a", 2, time.Second)
	ss.ordered("other", "a", 3, time.Second)
	if ss.stopped("a", stream.Stopped{Job: "j", Seq: 1}) || ss.stopped("c", stream.Stopped{Job: "j", Seq: 2}) || len(ss["j"].waits) != 2 {
		t.Error("an answer to a former order counts")
	}
	if ss.stopped("a", stream.Stopped{Job: "j", Seq: 2}) || len(ss["j"].waits) != 1 {
		t.Error("the answer of the first of two is not taken, or ends the job")
	}
	if over, _ := ss.runs("b", nil, false, time.Hour); len(over) != 0 {
		t.Error("a list counts before the order was sent")
	}
	ss.ordered("j", "b", 4, time.Hour)
	if over, _ := ss.runs("b", nil, false, time.Hour+stopSettles-1); len(over) != 0 {
		t.Error("a list counts that may have crossed the order")
	}
	running := []job.Attempt{{Job: "j", Chunk: 0, Number: 1}}
	if over, again := ss.runs("b", running, true, time.Hour); len(over) != 0 || len(again) != 1 {
		t.Errorf("%v end, %v are stopped again: it still runs after a new stream", over, again)
	}
	if over, again := ss.runs("b", nil, false, time.Hour+stopSettles); len(over) != 1 || len(again) != 0 {
		t.Errorf("%v end, %v are stopped again", over, again)
	}
	if f := ss.take("j"); f.Job != "j" || len(ss) != 0 {
		t.Errorf("took %v", f)
	}
}

// Nobody waits for workers that may not run it any more, nor longer than they may
// go on without a holder.
func TestStopsLapse(t *testing.T) {
	ss := make(stops)
	ss.hold(step.Finish{Job: "j"}, []cluster.NodeID{"a", "b", "dead"}, 0)
	mayRun := func(n cluster.NodeID) bool { return n != "dead" }
	connected := func(n cluster.NodeID) bool { return n == "b" }
	silent, again := ss["j"].tend(stopAgain, mayRun, connected)
	if len(silent) != 1 || silent[0] != "dead" || len(again) != 1 || again[0] != "b" {
		t.Errorf("silent %v, again %v", silent, again)
	}
	silent, again = ss["j"].tend(stopLapse, mayRun, connected)
	if len(silent) != 2 || len(again) != 0 || len(ss["j"].waits) != 0 {
		t.Errorf("silent %v, again %v after a minute", silent, again)
	}
}

// appends is a log that takes so many appends.
type appends struct {
	left  int
	kinds [][]event.Kind
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
func (l *appends) View(f func(*state.State))                       { f(state.New()) }

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
