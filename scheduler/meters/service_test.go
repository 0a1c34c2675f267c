package meters

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

func TestService(t *testing.T) {
	s := NewService()
	at := time.Unix(1000, 0)
	s.Begin(step.JobAdded{Job: "a", Age: time.Minute}, at)
	s.Begin(step.JobAdded{Job: "b"}, at)
	s.Look([]plan.WorkerView{{Verdict: vital.VerdictRoute, Drain: time.Second}, {Verdict: vital.VerdictEvict, Drain: 3 * time.Second}}, at)
	want := func(what string, m prometheus.Metric, v float64) {
		t.Helper()
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		have := d.GetGauge().GetValue() + d.GetCounter().GetValue() + d.GetHistogram().GetSampleSum()
		if have != v {
			t.Errorf("%s is %g, want %g", what, have, v)
		}
	}
	want("oldest", s.oldest, 60)
	want("mean drain", s.drain.WithLabelValues("mean"), 2)
	want("highest drain", s.drain.WithLabelValues("highest"), 3)
	want("evicted", s.workers.WithLabelValues("evict"), 1)
	zone := eligible.Explanation{Workers: 3, Reasons: []eligible.Obstacle{{Reason: eligible.LacksZone}, {Reason: eligible.Gone}}}
	held := eligible.Explanation{Job: eligible.Obstacle{Reason: eligible.Held}}
	s.Waiting([]plan.Waiting{{Why: zone}, {Why: held}, {Why: zone}, {}})
	want("waiting for a zone", s.waiting.WithLabelValues("zone"), 2)
	want("held", s.waiting.WithLabelValues("held"), 1)
	want("waiting for nothing", s.waiting.WithLabelValues("none"), 1)
	s.Waiting(nil)
	want("waiting for a zone", s.waiting.WithLabelValues("zone"), 0)
	s.Acted(step.Assign{Job: "a"}, at, at.Add(time.Second))
	s.Acted(step.Assign{Job: "a"}, at, at.Add(time.Second)) // its wait is over
	want("queue", s.queued, 61)
	want("assign", s.assign, 2)
	s.Released("c", at)
	s.Released("d", at)
	s.Acted(step.Finish{Job: "d"}, at, at)
	s.Acted(step.Assign{Job: "c"}, at, at.Add(3*time.Second))
	s.Acted(step.Assign{Job: "c"}, at, at.Add(9*time.Second))
	s.Acted(step.Assign{Job: "d"}, at, at.Add(9*time.Second))
	want("release", s.release, 3)
	s.Flows(3, 2, 1)
	want("waiting", s.flows.WithLabelValues("queued"), 3)
	want("running", s.flows.WithLabelValues("running"), 2)
	want("stopping", s.flows.WithLabelValues("stopping"), 1)
	s.Acted(step.Finish{Job: "b"}, at, at)
	s.Look(nil, at.Add(time.Hour))
	want("oldest", s.oldest, 0)
	s.Acted(step.Fail{Reason: "invalid result: n is 0"}, at, at)
	s.Acted(step.Fail{Reason: "exit code 1"}, at, at)
	s.Acted(step.Offence{}, at, at)
	want("invalid", s.refused.WithLabelValues("invalid"), 1)
	want("misplaced", s.refused.WithLabelValues("misplaced"), 1)
	want("closed", s.refused.WithLabelValues("closed"), 0)
}
