package rates

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/pace"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a job of chunks of 600 iterations, of which that many are accepted, the last
// of them some seconds after the start.
func at(accepted int, last float64, assigned int) state.Job {
	j := state.Job{ID: "j", State: job.Running, Chunks: 100, Spec: job.Spec{Iterations: 60000, Chunk: 600}.WithDefaults()}
	j.Started = cluster.NewHLC(start, 0)
	j.Iterations = uint64(accepted) * 600
	j.Counts.Accepted, j.Counts.Assigned, j.Counts.Pending = accepted, assigned, 100-accepted-assigned
	if accepted > 0 {
		j.Progress = cluster.NewHLC(start.Add(time.Duration(last*float64(time.Second))), 0)
	}
	return j
}

// Where a chunk takes a minute there is a rate all the same, whoever is asked and
// how often: by what runs, or by the whole life of the job.
func TestLongChunks(t *testing.T) {
	for _, c := range []struct {
		what   string
		job    state.Job
		run    Running
		asked  float64 // seconds after the start
		lo, hi float64
	}{
		{"nothing known", at(0, 0, 4), Running{}, 30, 0, 0},
		{"the first ones run", at(0, 0, 4), Running{Attempts: 2, Done: 600, Rate: 20}, 30, 20, 20},
		{"between two results, elsewhere", at(4, 120, 4), Running{}, 160, 20, 20},
		{"between two results, at the holder", at(4, 120, 4), Running{Attempts: 2, Done: 100, Rate: 22}, 160, 22, 22},
		{"it stands still", at(4, 120, 4), Running{}, 120 + 30*4*patience + 1, 0, 0},
		{"nothing is assigned", at(4, 120, 0), Running{}, 131, 0, 0},
	} {
		var tr Tracker
		now := start.Add(time.Duration(c.asked * float64(time.Second)))
		for s := range 12 { // a watcher asks each second
			got := tr.Rate(c.job, c.run, now.Add(time.Duration(s-11)*time.Second))
			if s == 11 && (got < c.lo || got > c.hi) {
				t.Errorf("%s: %g iterations per second, want %g to %g", c.what, got, c.lo, c.hi)
			}
		}
	}
}

// One result of a minute's work that falls into the last seconds is no rate.
func TestOneResultIsNoRate(t *testing.T) {
	var tr Tracker
	tr.Rate(at(3, 90, 4), Running{}, start.Add(115*time.Second))
	if got := tr.Rate(at(4, 120, 4), Running{}, start.Add(120*time.Second)); got != 20 {
		t.Errorf("%g iterations per second, want 20", got)
	}
}

// Many results tell how fast a job is now, not how fast it was.
func TestShortChunks(t *testing.T) {
	var tr Tracker
	for s := range 21 {
		n := 10
		if s > 10 {
			n += 2 * (s - 10)
		}
		got := tr.Rate(at(n, 100+float64(s), 4), Running{}, start.Add(time.Duration(100+s)*time.Second))
		if s == 20 && (got < 1100 || got > 1300) {
			t.Errorf("%g iterations per second, want 1200", got)
		}
	}
}

// Attempts that began a moment ago do as the others.
func TestOf(t *testing.T) {
	got := Of([]plan.WorkerView{
		{Running: []pace.Running{{Job: "j", Attempts: 2, Measured: 1, Done: 30, Rate: 10}, {Job: "k", Attempts: 1}}},
		{Running: []pace.Running{{Job: "j", Attempts: 2, Measured: 2, Done: 50, Rate: 20}}},
	})
	if want := (Running{Attempts: 4, Done: 80, Rate: 40}); got["j"] != want || got["k"] != (Running{Attempts: 1}) {
		t.Errorf("%+v", got)
	}
}

// A job with long chunks that becomes faster is soon said to be.
func TestFaster(t *testing.T) {
	var tr Tracker
	done, got := 0, 0.0
	for s := range 1200 { // four chunks a minute, from the middle on eight
		if each := 60; s%each == 0 && s > 0 {
			if done += 4; s > 600 {
				done += 4
			}
		}
		last := float64(s - s%60)
		got = tr.Rate(at(done, last, 8), Running{}, start.Add(time.Duration(s)*time.Second))
		if s == 590 && (got < 38 || got > 46) {
			t.Errorf("%g iterations per second at first, want 40", got)
		}
	}
	if got < 76 || got > 84 {
		t.Errorf("%g iterations per second, want 80", got)
	}
}
