package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/workerlist"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// TestManyWorkersFitAMessage: however many workers there are, the list of them
// fits what hosts send each other, and says what it leaves out.
func TestManyWorkersFitAMessage(t *testing.T) {
	all := make([]plan.WorkerView, 10_000)
	for i := range all {
		all[i] = plan.WorkerView{
			Worker: cluster.NodeID(fmt.Sprintf("a-worker-with-a-name-of-forty-bytes-%05d", i)), Connected: true, Health: cluster.Suspect, Slots: 4096, Tries: 1 << 16, Backlog: 1 << 62,
			Drain: time.Duration(1<<62 + i), Rate: 1.2345678901234567e100, Window: 1 << 16, Draining: true, Verdict: vital.VerdictInvestigate, Until: 1 << 62,
		}
	}
	out := firstOf("n1", 1<<60, workerlist.Of(all, 1))
	b, err := json.Marshal(map[string]any{forward.Workers.Key: out})
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > forward.MaxMessage/2 || len(out.Workers) != api.MaxWorkers || out.Omitted != 10_000-api.MaxWorkers {
		t.Errorf("%d bytes for %d workers, %d omitted", len(b), len(out.Workers), out.Omitted)
	}
}

// recorded are the events that were written.
type recorded []string

func (r *recorded) Record(_ context.Context, kind event.Kind, body any) {
	*r = append(*r, fmt.Sprintf("%s %+v", kind, body))
}

// TestDrainIsLogged: the log says who drained a worker and who undid it, once every
// member that lives understands it.
func TestDrainIsLogged(t *testing.T) {
	var log recorded
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		{Member: cluster.Member{Node: "n1"}, Health: cluster.Alive, Heard: true, Level: event.Level},
		{Member: cluster.Member{Node: "n2"}, Health: cluster.Alive, Heard: true, Level: 3},
	}}
	w := &workers{self: "n1", worker: fakeWorker{}, view: func() *coord.View { return v }, record: &log, logger: zerolog.Nop()}
	if _, err := w.Drain(t.Context(), "uid:0", api.DrainRequest{}); err != nil || len(log) != 0 {
		t.Fatalf("beside an older member %v, %v", log, err)
	}
	v.Members[1].Level = event.Level
	if out, err := w.Drain(t.Context(), "uid:0", api.DrainRequest{Node: "n1"}); err != nil || !out.Worker.Draining {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := w.drainFor(t.Context(), forward.Asker{Actor: "uid:7@n2"}, api.DrainRequest{Node: "n1", Undo: true}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"worker_drained {Drained:true Actor:uid:0@n1}", "worker_drained {Drained:false Actor:uid:7@n2}"}; !slices.Equal(log, want) {
		t.Errorf("in the log %q, want %q", log, want)
	}
}
