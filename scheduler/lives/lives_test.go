package lives

import (
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestLifeOfWorkers: a worker that is back within 10 s was not away, and one that
// comes and goes is down once in 30 s.
func TestLifeOfWorkers(t *testing.T) {
	ls := New(StartsAuto)
	e := event.WorkerUp{Worker: "a", Slots: 2, Owner: "node:a"}
	at := time.Hour
	if !ls.Up(e) || ls.Up(e) {
		t.Error("up is told not once")
	}
	ls.Lost("a", "closed", at)
	if got := ls.Due(at + downAfter - 1); len(got) != 0 || ls.Up(e) {
		t.Errorf("back in time: %v", got)
	}
	e.Slots = 4
	if !ls.Up(e) {
		t.Error("another size is not told")
	}
	downs := 0
	for s := range 120 { // away for 15 s of each 20
		now := at + time.Duration(s)*time.Second
		switch s % 20 {
		case 0:
			ls.Up(e)
		case 5:
			ls.Lost("a", "lost", now)
		}
		for _, d := range ls.Due(now) {
			if downs++; d != (event.WorkerDown{Worker: "a", Reason: "lost"}) {
				t.Errorf("%+v", d)
			}
		}
	}
	if downs != 3 {
		t.Errorf("down %d times in 2 minutes", downs)
	}
	ls.Up(e)
	if got := ls.Left(func(cluster.NodeID) bool { return false }); len(got) != 1 || len(ls.by) != 0 {
		t.Errorf("left: %v", got)
	}
	ls.Lost("a", "lost", at) // a late word of it
}

// TestStartsAreGathered: what runs for a second is told once, and all at once.
func TestStartsAreGathered(t *testing.T) {
	status := func(seconds float64, chunks ...int) (st stream.Status) {
		for _, c := range chunks {
			st.Progress = append(st.Progress, stream.Progress{Attempt: job.Attempt{Job: "j", Chunk: c, Number: 1}, Seconds: seconds})
		}
		return st
	}
	for mode, want := range map[string][]int{StartsAuto: {1, 2, 4}, StartsAlways: {1, 2, 3, 4}, StartsNever: nil} {
		ls := New(mode)
		ls.Up(event.WorkerUp{Worker: "a"})
		ls.Running("stranger", status(5, 9))
		ls.Running("a", status(1, 1, 2))
		ls.Running("a", status(3, 1, 2))
		ls.Running("a", status(0.5, 3))
		ls.Running("a", status(1, 4))
		var got []int
		for _, e := range ls.Begun(time.Hour) {
			for _, s := range e.Starts {
				got = append(got, s.Chunk)
			}
		}
		if !slices.Equal(got, want) || len(ls.Begun(2*time.Hour)) != 0 {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
		ls.Running("a", status(1, 5))
		if len(ls.Begun(time.Hour+startsEvery/2)) != 0 {
			t.Errorf("%s: told twice within a second", mode)
		}
	}
	ls := New(StartsAlways)
	ls.Up(event.WorkerUp{Worker: "a"})
	ls.Running("a", status(1, make([]int, 3*maxStarts)...))
	if n := len(ls.Begun(time.Hour)); n != maxStarts/maxEntries {
		t.Errorf("%d events of very many starts", n)
	}
}
