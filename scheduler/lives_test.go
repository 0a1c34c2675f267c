package scheduler

import (
	"encoding/json"
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
	ls := newLives(StartsAuto)
	e := event.WorkerUp{Worker: "a", Slots: 2, Owner: "node:a"}
	at := time.Hour
	if !ls.up(e) || ls.up(e) {
		t.Error("up is told not once")
	}
	ls.lost("a", "closed", at)
	if got := ls.due(at + downAfter - 1); len(got) != 0 || ls.up(e) {
		t.Errorf("back in time: %v", got)
	}
	e.Slots = 4
	if !ls.up(e) {
		t.Error("another size is not told")
	}
	downs := 0
	for s := range 120 { // away for 15 s of each 20
		now := at + time.Duration(s)*time.Second
		switch s % 20 {
		case 0:
			ls.up(e)
		case 5:
			ls.lost("a", "lost", now)
		}
		for _, d := range ls.due(now) {
			if downs++; d != (event.WorkerDown{Worker: "a", Reason: "lost"}) {
				t.Errorf("%+v", d)
			}
		}
	}
	if downs != 3 {
		t.Errorf("down %d times in 2 minutes", downs)
	}
	ls.up(e)
	if got := ls.left(func(cluster.NodeID) bool { return false }); len(got) != 1 || len(ls.by) != 0 {
		t.Errorf("left: %v", got)
	}
	ls.lost("a", "lost", at) // a late word of it
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
		ls := newLives(mode)
		ls.up(event.WorkerUp{Worker: "a"})
		ls.running("stranger", status(5, 9))
		ls.running("a", status(1, 1, 2))
		ls.running("a", status(3, 1, 2))
		ls.running("a", status(0.5, 3))
		ls.running("a", status(1, 4))
		var got []int
		for _, e := range ls.begun(time.Hour) {
			for _, s := range e.Starts {
				got = append(got, s.Chunk)
			}
		}
		if !slices.Equal(got, want) || len(ls.begun(2*time.Hour)) != 0 {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
		ls.running("a", status(1, 5))
		if len(ls.begun(time.Hour+startsEvery/2)) != 0 {
			t.Errorf("%s: told twice within a second", mode)
		}
	}
	ls := newLives(StartsAlways)
	ls.up(event.WorkerUp{Worker: "a"})
	ls.running("a", status(1, make([]int, 3*maxStarts)...))
	if n := len(ls.begun(time.Hour)); n != maxStarts/maxEntries {
		t.Errorf("%d events of very many starts", n)
	}
}

// TestLogHearsOfWorkers: who comes, what runs for long and who is lost is in the
// log; while nothing happens nothing is written, and not where a member would not
// understand it.
func TestLogHearsOfWorkers(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		defer func() { _ = stop() }()
		time.Sleep(5 * time.Second)
		if n := r.log.count(event.KindWorkerUp); n != 3 {
			t.Errorf("%d workers are up", n)
		}
		before := r.log.len()
		time.Sleep(10 * time.Minute)
		if n := r.log.len(); n != before {
			t.Errorf("%d events while nothing happened", n-before)
		}
		b.kill()
		time.Sleep(30 * time.Second)
		if n := r.log.count(event.KindWorkerDown); n != 1 {
			t.Fatalf("%d workers are down", n)
		}
		var down event.WorkerDown
		if e := r.log.last(event.KindWorkerDown); e.Term != 0 || json.Unmarshal(e.Body, &down) != nil || down.Worker != "b" {
			t.Errorf("%+v", e)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		c.kill()
		time.Sleep(time.Minute)
		if n := r.log.count(event.KindWorkerDown); n != 1 {
			t.Errorf("%d workers are down by a log that not all understand", n)
		}
	})
}
