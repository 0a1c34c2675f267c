package plan

import (
	"testing"
	"time"

	"github.com/skein-project/skein/scheduler/plan/step"
)

// TestFarWorkersHaveLonger: a worker that came back without an attempt has as much longer to
// send what came of it as its messages take.
func TestFarWorkersHaveLonger(t *testing.T) {
	for _, trip := range []time.Duration{0, 800 * time.Millisecond} {
		b := newBench(t)
		b.up("a", 1)
		b.job("j", 1, 4)
		b.do(step.RoundTrip{Worker: "a", Time: trip})
		b.do(step.WorkerDisconnected{Worker: "a"})
		b.up("a", 1) // and it does not have the attempt any more
		b.now += 2*time.Second + trip - time.Millisecond
		b.want(b.do(step.Tick{}))
		b.now += time.Millisecond
		if got := text(b.do(step.Tick{})); got == "" {
			t.Errorf("%s away: nothing is done about the attempt after %s", trip, 2*time.Second+trip)
		}
	}
}
