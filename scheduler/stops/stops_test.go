package stops

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// The end of a job waits for the answer to the latest order, or for a list that
// is late enough to be one.
func TestStopsWaitForTheLatestOrder(t *testing.T) {
	ss := make(Jobs)
	ss.Hold(step.Finish{Job: "j"}, []cluster.NodeID{"a", "b", "a"}, 0)
	ss.Ordered("j", "a", 1, 0)
	ss.Ordered("j", "a", 2, time.Second)
	ss.Ordered("other", "a", 3, time.Second)
	if ss.Stopped("a", stream.Stopped{Job: "j", Seq: 1}) || ss.Stopped("c", stream.Stopped{Job: "j", Seq: 2}) || len(ss["j"].waits) != 2 {
		t.Error("an answer to a former order counts")
	}
	if ss.Stopped("a", stream.Stopped{Job: "j", Seq: 2}) || len(ss["j"].waits) != 1 {
		t.Error("the answer of the first of two is not taken, or ends the job")
	}
	if over, _ := ss.Runs("b", nil, false, time.Hour); len(over) != 0 {
		t.Error("a list counts before the order was sent")
	}
	ss.Ordered("j", "b", 4, time.Hour)
	if over, _ := ss.Runs("b", nil, false, time.Hour+Settles-1); len(over) != 0 {
		t.Error("a list counts that may have crossed the order")
	}
	running := []job.Attempt{{Job: "j", Chunk: 0, Number: 1}}
	if over, again := ss.Runs("b", running, true, time.Hour); len(over) != 0 || len(again) != 1 {
		t.Errorf("%v end, %v are stopped again: it still runs after a new stream", over, again)
	}
	if over, again := ss.Runs("b", nil, false, time.Hour+Settles); len(over) != 1 || len(again) != 0 {
		t.Errorf("%v end, %v are stopped again", over, again)
	}
	if f := ss.Take("j"); f.Job != "j" || len(ss) != 0 {
		t.Errorf("took %v", f)
	}
}

// Nobody waits for workers that may not run it any more, nor longer than they may
// go on without a holder.
func TestStopsLapse(t *testing.T) {
	ss := make(Jobs)
	ss.Hold(step.Finish{Job: "j"}, []cluster.NodeID{"a", "b", "dead"}, 0)
	mayRun := func(n cluster.NodeID) bool { return n != "dead" }
	connected := func(n cluster.NodeID) bool { return n == "b" }
	silent, again := ss["j"].Tend(Again, mayRun, connected)
	if len(silent) != 1 || silent[0] != "dead" || len(again) != 1 || again[0] != "b" {
		t.Errorf("silent %v, again %v", silent, again)
	}
	silent, again = ss["j"].Tend(Lapse, mayRun, connected)
	if len(silent) != 2 || len(again) != 0 || len(ss["j"].waits) != 0 {
		t.Errorf("silent %v, again %v after a minute", silent, again)
	}
}
