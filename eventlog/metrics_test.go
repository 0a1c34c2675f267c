package eventlog

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// gathered returns a metric of reg: a counter's or gauge's value, a histogram's
// number of samples, the sum over its labels; -1 if there is none.
func gathered(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "skein_eventlog_"+name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				sum += m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				sum += m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				sum += float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
	return -1
}

// TestMetricsMove lets two voters and a third host do what their metrics tell
// of.
func TestMetricsMove(t *testing.T) {
	nw := newNetwork(t)
	logs, regs := map[cluster.NodeID]*Log{}, map[cluster.NodeID]*prometheus.Registry{}
	for _, id := range []cluster.NodeID{"a", "b", "c"} {
		o := testOptions(t.TempDir(), id)
		regs[id] = prometheus.NewRegistry()
		o.Registerer = regs[id]
		logs[id] = nw.join(t, o)
		logs[id].SetVoters(voters("a", "b"))
	}
	a, b, c := logs["a"], logs["b"], logs["c"]
	above := func(id cluster.NodeID, name string, least float64) {
		t.Helper()
		eventually(t, string(id)+": "+name, func() bool { return gathered(t, regs[id], name) >= least })
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// What is there when a stream begins is pulled, the rest is pushed.
	for range 2 {
		e := mustAppend(t, a, note(1), note(2), note(3))
		if _, err := a.WaitStable(ctx, e[2].Seq); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(ctx, e[0].Source, e[2].Seq); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"fsync_duration_seconds", "commit_group_records", "append_duration_seconds", "push_ack_duration_seconds"} {
		above("a", name, 1)
	}
	above("b", "propagation_seconds", 1)
	eventually(t, "b acknowledges", func() bool { return gathered(t, regs["a"], "peer_lag_events") == 0 })

	nw.setDown("b", true)
	mustAppend(t, a, note(4), note(5))
	if events, bytes := gathered(t, regs["a"], "peer_lag_events"), gathered(t, regs["a"], "peer_lag_bytes"); events != 2 || bytes < 100 || bytes > 2000 {
		t.Errorf("b lacks 2 events, the lag is %v events and %v bytes", events, bytes)
	}
	a.SetVoters(voters("a", "c"))
	eventually(t, "the lag of b is forgotten", func() bool { return gathered(t, regs["a"], "peer_lag_events") == 0 })

	drafts := make([]event.Draft, 1500)
	for i := range drafts {
		drafts[i] = note(i)
	}
	a.SetVoters(voters("a"))
	mustAppend(t, a, drafts...)
	if err := c.Sync(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	above("c", "catch_up_records_per_second", 1)
	if v := gathered(t, regs["c"], "behind_events"); v != 0 {
		t.Errorf("after a pull %v events are missing", v)
	}
	r, err := c.Verify(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := gathered(t, regs["c"], "verified_records_total"); v != float64(r.Events) {
		t.Errorf("%d events verified, the metric says %v", r.Events, v)
	}
	above("c", "verify_records_per_second", 1)
	if v := gathered(t, regs["c"], "propagation_seconds"); v < 1 {
		t.Errorf("%v arrivals counted on c", v)
	}
	if gathered(t, regs["c"], "intake_bytes") != 0 || gathered(t, regs["c"], "size_bytes") < 1500*100 {
		t.Error("bytes of queue and log are wrong")
	}
}

// TestArrivalsOfHistoryDoNotCount folds an event from before the log was
// opened.
func TestArrivalsOfHistoryDoNotCount(t *testing.T) {
	o := testOptions(t.TempDir(), "a")
	reg := prometheus.NewRegistry()
	o.Registerer = reg
	l, _ := start(t, o)
	at := func(d time.Duration, seq uint64) event.Event {
		return event.Event{Source: event.SourceID{Node: "b", Inc: 1}, Seq: seq, HLC: cluster.HLC(0).Next(l.fold.opened.Add(d))}
	}
	l.fold.arrived([]event.Event{at(-time.Hour, 1), at(-time.Second, 2)})
	if n := gathered(t, reg, "propagation_seconds"); n != 0 {
		t.Fatalf("%v arrivals counted", n)
	}
	l.fold.arrived([]event.Event{at(-time.Second, 3), at(time.Second, 4)})
	if n := gathered(t, reg, "propagation_seconds"); n != 1 {
		t.Fatalf("%v arrivals counted, want the last of the group", n)
	}
}
