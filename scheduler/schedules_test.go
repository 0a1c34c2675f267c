package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/eventlog/state/schedules"
	"github.com/skein-project/skein/scheduler/runs"
)

// scheduleOf makes a schedule of a workflow of one step; its job waits for ever if no
// worker may run it.
func scheduleOf(t *testing.T, waits bool, change func(*event.ScheduleSet, *flow.Def)) event.ScheduleSet {
	t.Helper()
	step := flowStep("a")
	if waits {
		step.Job.Zones = []string{"mars"}
	}
	d := flow.Def{Steps: []flow.Step{step}}
	b := event.ScheduleSet{
		Schedule: flow.NewScheduleID("uid:1", "n"), Owner: "uid:1", Name: "n", Cron: "*/10 * * * *", Missed: flow.MissedLast, MissedSeconds: flow.DefaultMissed,
		Overlap: flow.OverlapSkip, Params: json.RawMessage("{}"), Actor: "uid:1@a",
	}
	if change != nil {
		change(&b, &d)
	}
	var err error
	if b.Def, err = d.Encode(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (f *flowRig) set(b event.ScheduleSet) {
	f.t.Helper()
	if _, err := f.ask(runs.Request{Set: &b}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flowRig) change(what, key string) (runs.Answer, error) {
	return f.ask(runs.Request{Change: &runs.Change{Schedule: flow.NewScheduleID("uid:1", "n"), What: what, Key: key, Actor: "uid:1@a"}})
}

func (f *flowRig) schedule() (s schedules.Schedule) {
	f.log.View(func(st *state.State) { s, _ = st.Schedules().Schedule(flow.NewScheduleID("uid:1", "n")) })
	return s
}

func (f *flowRig) allRuns() (all []flows.Run) {
	f.log.View(func(st *state.State) { all = st.Flows().Runs() })
	return all
}

// fired says of each time what came of it: "02:30 run" or "02:30 skipped", and what was
// missed before.
func (f *flowRig) fired() string {
	var out []string
	for _, at := range f.schedule().Times {
		what := "run"
		if at.Run == "" {
			what = at.Skipped
		}
		if at.Missed > 0 {
			what += fmt.Sprintf(" (%d missed)", at.Missed)
		}
		out = append(out, time.Unix(at.At, 0).UTC().Format("15:04")+" "+what)
	}
	return strings.Join(out, ", ")
}

// TestSchedule: a schedule begins a run at each of its times, once, until it is paused or
// removed; by hand as well.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		f.set(scheduleOf(t, false, nil))
		time.Sleep(35 * time.Minute)
		if got, want := f.fired(), "00:10 run, 00:20 run, 00:30 run"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, r := range f.allRuns() {
			if late := r.Submitted.Time().Sub(time.Unix(r.At, 0)); r.State != flow.Completed || r.Owner != "uid:1" || late > 1200*time.Millisecond {
				t.Errorf("run %+v, %s late", r, late)
			}
		}
		for range 2 {
			if _, err := f.change(runs.Pause, ""); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Minute)
		a, err := f.change(runs.RunNow, "k")
		if again, err := f.change(runs.RunNow, "k"); err != nil || again.Created || again.Run != a.Run {
			t.Errorf("the same key again: %+v %v", again, err)
		}
		if err != nil || !a.Created || len(f.allRuns()) != 4 {
			t.Errorf("a run by hand: %+v %v", a, err)
		}
		if _, err := f.change(runs.Resume, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got, want := f.fired(), "00:10 run, 00:20 run, 00:30 run, 01:00 run"; got != want { // not what was due meanwhile
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := f.change(runs.Remove, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := len(f.allRuns()); n != 5 || f.log.count(event.KindScheduleFired) != 4 {
			t.Errorf("%d runs after it was removed", n)
		}
		if _, err := f.change(runs.Pause, ""); !errors.Is(err, runs.ErrNoSchedule) {
			t.Errorf("changed after it was removed: %v", err)
		}
		f.unaware.Store(new(cluster.NodeID("old")))
		b := scheduleOf(t, false, nil)
		if _, err := f.ask(runs.Request{Set: &b}); err == nil {
			t.Error("a schedule is made while a member does not know what that is")
		}
	})
}

// TestScheduleInAZone: on both days on which the clocks change the run begins once.
func TestScheduleInAZone(t *testing.T) {
	for day, want := range map[string][2]string{
		"2026-03-29T00:00:00Z": {"01:00 run", "00:30 run, 01:30 run, 02:30 run"},
		"2026-10-25T00:00:00Z": {"00:30 run", "00:30 run, 01:30 run, 02:30 run"},
	} {
		for i, cron := range []string{"30 2 * * *", "30 * * * *"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFlowRig(t)
				defer f.close()
				begin, err := time.Parse(time.RFC3339, day)
				if err != nil {
					t.Fatal(err)
				}
				ahead := time.Until(begin)
				f.s.o.Wall = func() time.Time { return time.Now().Add(ahead) }
				stop := f.run(1)
				defer func() { _ = stop() }()
				f.set(scheduleOf(t, false, func(b *event.ScheduleSet, _ *flow.Def) { b.Cron, b.Zone = cron, "Europe/Berlin" }))
				time.Sleep(3 * time.Hour)
				if got := f.fired(); got != want[i] {
					t.Errorf("%s on %s: got %s, want %s", cron, day, got, want[i])
				}
			})
		}
	}
}

// TestMissed: what nobody kept is made up for as the schedule has it.
func TestMissed(t *testing.T) {
	for missed, want := range map[flow.Missed]string{
		flow.MissedSkip: "00:10 run, 03:20 missed (19 missed), 03:30 run",
		flow.MissedLast: "00:10 run, 03:20 run (18 missed), 03:30 run",
		flow.MissedAll: "01:00 run, 01:10 run, 01:20 run, 01:30 run, 01:40 run, 01:50 run, 02:00 run, 02:10 run, 02:20 run, 02:30 run, " +
			"02:40 run, 02:50 run, 03:00 run, 03:10 run, 03:20 run, 03:30 run", // the latest sixteen
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			stop := f.run(1)
			f.set(scheduleOf(t, false, func(b *event.ScheduleSet, _ *flow.Def) { b.Missed, b.Overlap = missed, flow.OverlapAllow }))
			time.Sleep(15 * time.Minute)
			_ = stop()
			time.Sleep(190 * time.Minute)
			defer func(stop func() error) { _ = stop() }(f.run(2))
			time.Sleep(10 * time.Minute)
			if got := f.fired(); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", missed, got, want)
			}
			began := map[int64]int{}
			for _, r := range f.allRuns() {
				began[r.At]++
			}
			for at, n := range began {
				if n != 1 {
					t.Errorf("%s: %d runs for %s", missed, n, time.Unix(at, 0).UTC())
				}
			}
			if n := len(f.allRuns()); missed == flow.MissedAll && n != 21 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// TestOverlap: what becomes of a run while the one before goes on.
func TestOverlap(t *testing.T) {
	states := func(f *flowRig) string {
		out := ""
		for _, r := range f.allRuns() {
			out += " " + string(r.State)
		}
		return strings.TrimPrefix(out, " ")
	}
	skip := ", 00:%d0 " + "other runs have not ended"
	skipped := func(from, to int) (out string) {
		for i := from; i <= to; i++ {
			out += fmt.Sprintf(skip, i)
		}
		return out
	}
	for overlap, want := range map[flow.Overlap][2]string{
		flow.OverlapSkip:     {"running", "00:10 run" + skipped(2, 4)},
		flow.OverlapQueueOne: {"running queued", "00:10 run, 00:20 run" + skipped(3, 4)},
		flow.OverlapQueue:    {"running queued queued queued", "00:10 run, 00:20 run, 00:30 run, 00:40 run"},
		flow.OverlapReplace:  {"cancelled cancelled cancelled running", "00:10 run, 00:20 run, 00:30 run, 00:40 run"},
		flow.OverlapAllow:    {"running running running running", "00:10 run, 00:20 run, 00:30 run, 00:40 run"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			stop := f.run(1)
			f.set(scheduleOf(t, true, func(b *event.ScheduleSet, _ *flow.Def) { b.Overlap = overlap }))
			time.Sleep(45 * time.Minute)
			if got := states(f); got != want[0] || f.fired() != want[1] {
				t.Fatalf("%s: got\n%s: %s\nwant\n%s: %s", overlap, got, f.fired(), want[0], want[1])
			}
			if overlap != flow.OverlapQueue {
				_ = stop()
				return
			}
			// Only the first has a job. The next holder says the same; one that waits can be
			// stopped, and when the first is stopped another has its place.
			if n := f.log.count(event.KindJobSubmitted); n != 1 {
				t.Errorf("%d jobs though three runs wait", n)
			}
			_ = stop()
			defer func(stop func() error) { _ = stop() }(f.run(2))
			time.Sleep(time.Second)
			all := f.allRuns()
			for _, i := range []int{1, 0} {
				if _, err := f.ask(runs.Request{Stop: &event.WorkflowStopped{Run: all[i].Run, Actor: "uid:1@a", Reason: "enough"}}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Second)
			if got, want := states(f), "cancelled cancelled running queued"; got != want || f.log.count(event.KindJobSubmitted) != 2 {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestGroup: runs of a group share its places, those by hand as those of a schedule.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		stop := f.run(1)
		defer func() { _ = stop() }()
		f.set(scheduleOf(t, true, func(b *event.ScheduleSet, d *flow.Def) { d.Concurrency = flow.Concurrency{Group: "g", Limit: 2} }))
		time.Sleep(11 * time.Minute)
		submit := func(key string, overlap flow.Overlap) error {
			d := flow.Def{Steps: []flow.Step{flowStep("b")}, Concurrency: flow.Concurrency{Group: "g", Limit: 2, Overlap: overlap}}
			d.Steps[0].Job.Zones = []string{"mars"}
			text, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s := d.Sharing()
			_, err = f.ask(runs.Request{Overlap: s.Overlap, Submit: &event.WorkflowSubmitted{
				Run: flow.NewRunID("uid:1", key), Owner: "uid:1", Def: text, Params: json.RawMessage("{}"), Group: s.Group, Limit: s.Limit,
			}})
			return err
		}
		if err := submit("k1", flow.OverlapSkip); err != nil {
			t.Error(err)
		}
		if err := submit("k2", flow.OverlapSkip); !errors.Is(err, runs.ErrOverlap) {
			t.Errorf("above the limit: %v", err)
		}
		if err := submit("k3", ""); err != nil {
			t.Error(err)
		}
		if r := f.flowRun(flow.NewRunID("uid:1", "k3")); r.State != flow.Queued {
			t.Errorf("it is %s", r.State)
		}
		time.Sleep(10 * time.Minute)
		if got := f.fired(); !strings.HasSuffix(got, "00:20 other runs have not ended") {
			t.Errorf("the schedule: %s", got)
		}
	})
}

// TestHolderDiesAtATime has the holder lose the lease behind each event about a schedule
// and its runs, and another term go on: each time begins one run.
func TestHolderDiesAtATime(t *testing.T) {
	for cut := 1; cut <= 40; cut++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			f := newFlowRig(t)
			defer f.close()
			var term atomicTerm
			term.set(1)
			f.mayAct = func(of cluster.Term) bool { return of > 1 || f.log.len() < cut || term.get() > 1 }
			stop := f.run(1)
			b := scheduleOf(t, false, func(b *event.ScheduleSet, _ *flow.Def) { b.Missed = flow.MissedAll })
			_, _ = f.ask(runs.Request{Set: &b}) // its outcome may be unknown
			deadline := time.Now().Add(25 * time.Minute)
			for f.log.len() < cut && time.Now().Before(deadline) {
				time.Sleep(time.Second)
			}
			over = f.log.len() < cut
			_ = stop()
			term.set(2)
			stop = f.run(2)
			defer func() { _ = stop() }()
			if f.schedule().Name == "" {
				f.set(b)
			}
			time.Sleep(time.Until(deadline.Add(9 * time.Minute)))
			if got, want := f.fired(), "00:10 run, 00:20 run, 00:30 run"; got != want {
				t.Fatalf("cut %d: got %s, want %s", cut, got, want)
			}
			if n := f.log.count(event.KindJobSubmitted); n != 3 || len(f.allRuns()) != 3 {
				t.Fatalf("cut %d: %d jobs, %d runs", cut, n, len(f.allRuns()))
			}
		})
		if over {
			if cut < 15 {
				t.Errorf("only %d places to die at", cut)
			}
			return
		}
	}
}

// TestManySchedules: a thousand and no more, many of which are due at once.
func TestManySchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlowRig(t)
		defer f.close()
		of := func(i int) event.ScheduleSet {
			return scheduleOf(t, true, func(b *event.ScheduleSet, _ *flow.Def) {
				b.Owner, b.Name, b.Cron = fmt.Sprint("uid:", i%20), fmt.Sprint("n", i), "0 5 * * *"
				if b.Since = time.Now().Unix(); i < 100 {
					b.Cron = "1 0 * * *"
				}
				b.Schedule = flow.NewScheduleID(b.Owner, b.Name)
			})
		}
		var all []event.Draft
		for i := range flow.MaxSchedules {
			all = append(all, event.Draft{Term: 1, Kind: event.KindScheduleSet, Body: of(i)})
		}
		if _, err := f.log.Append(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		stop := f.run(1)
		defer func() { _ = stop() }()
		b := of(flow.MaxSchedules)
		if _, err := f.ask(runs.Request{Set: &b}); !errors.Is(err, runs.ErrManySchedules) {
			t.Errorf("one more: %v", err)
		}
		b = of(0)
		f.set(b)
		time.Sleep(time.Minute + 20*time.Second)
		if n := f.log.count(event.KindScheduleFired); n != 100 {
			t.Errorf("%d of 100 began", n)
		}
	})
}
