package backend

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
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
	out := listWorkers("n1", 1<<60, all, 1)
	b, err := json.Marshal(map[string]any{forward.Workers.Key: out})
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > forward.MaxMessage/2 || len(out.Workers) != api.MaxWorkers || out.Omitted != 10_000-api.MaxWorkers {
		t.Errorf("%d bytes for %d workers, %d omitted", len(b), len(out.Workers), out.Omitted)
	}
}
