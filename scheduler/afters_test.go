package scheduler

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/stream"
)

// afterSpec is a job that waits for others.
func afterSpec(key string, after ...string) job.Spec {
	s := testSpec(key, 2)
	s.After, s.Attempts = after, 1
	return s
}

// afterRig is a rig whose worker fails the jobs whose keys begin with bad.
func afterRig(t *testing.T, slots int) *rig {
	log := newMemLog("a")
	w := newFakeWorker("a", slots)
	w.answer = func(r job.Attempt, n uint64) []stream.Frame {
		if r.Job == job.NewID("uid:1", "bad") {
			return []stream.Frame{failure(r, "exit 3")}
		}
		return []stream.Frame{goodResult(r, n)}
	}
	return newRig(t, log, w)
}

func (r *rig) submitSpec(s job.Spec) job.ID {
	r.t.Helper()
	sub, err := r.s.Submit(r.t.Context(), s, "uid:1", WaitLocal, true)
	if err != nil {
		r.t.Fatal(err)
	}
	return sub.Job
}

// TestAfter: a job begins when those that it waits for have ended as it wants, and is
// skipped when one has ended otherwise; so are those behind it.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := afterRig(t, 4)
		defer r.workers["a"].kill()
		stop := r.run(1)
		defer func() { _ = stop() }()
		long := testSpec("long", 1)
		long.Zones = []string{"mars"} // waits for ever
		first := r.submitSpec(long)
		bad := testSpec("bad", 1)
		bad.Attempts = 1
		failed := r.submitSpec(bad)
		good := r.submitSpec(testSpec("good", 1))
		r.ended(failed, time.Minute)
		r.ended(good, time.Minute)
		for _, c := range []struct {
			key, want string
			after     []string
		}{
			{"a", "completed", []string{string(good), string(failed) + ":failed"}},
			{"b", "completed", []string{string(failed) + ":done"}},
			{"c", "skipped", []string{string(failed)}},
			{"d", "skipped", []string{string(good) + ":failed"}},
		} {
			id := r.submitSpec(afterSpec(c.key, c.after...))
			if j := r.ended(id, time.Minute); string(j.State) != c.want {
				t.Errorf("%s after %v: %s %s", c.key, c.after, j.State, j.Reason)
			}
		}
		waits := r.submitSpec(afterSpec("waits", string(first), string(good)))
		behind := r.submitSpec(afterSpec("behind", string(waits)))
		whatever := r.submitSpec(afterSpec("whatever", string(waits)+":done"))
		deadline := afterSpec("deadline", string(first))
		deadline.DeadlineSeconds = 20
		late := r.submitSpec(deadline)
		time.Sleep(2 * time.Second)
		for _, id := range []job.ID{waits, behind, whatever, late} {
			if j := r.job(id); j.State != job.Queued || !strings.Contains(j.Queued, "waits for job") {
				t.Errorf("job %s is %s: %s", id, j.State, j.Queued)
			}
		}
		why, err := r.s.Explain(t.Context(), waits)
		if err != nil || why.Why.Main() != eligible.After || !strings.Contains(why.Why.Job.Text, string(first)) || time.Since(why.Since) > 4*time.Second {
			t.Errorf("%+v %v", why, err)
		}
		shown := 0
		for _, w := range r.s.Waiting() {
			if w.Why.Main() == eligible.After {
				shown++
			}
		}
		if shown != 4 {
			t.Errorf("%d jobs are shown to wait for others", shown)
		}
		if j := r.ended(late, time.Minute); j.State != job.TimedOut {
			t.Errorf("at its deadline it is %s", j.State)
		}
		if err := r.s.Stop(t.Context(), first, "uid:1", "enough"); err != nil {
			t.Fatal(err)
		}
		if j := r.ended(waits, time.Minute); j.State != job.Skipped || !strings.Contains(j.Reason, "is cancelled") {
			t.Errorf("%s %s", j.State, j.Reason)
		}
		if j := r.ended(behind, time.Minute); j.State != job.Skipped || !strings.Contains(j.Reason, "is skipped") {
			t.Errorf("%s %s", j.State, j.Reason)
		}
		if j := r.ended(whatever, time.Minute); j.State != job.Completed {
			t.Errorf("%s %s", j.State, j.Reason)
		}
		if _, err := r.s.Submit(t.Context(), afterSpec("x", string(job.NewID("uid:1", "nix"))), "uid:1", WaitLocal, true); !errors.Is(err, job.ErrSpec) {
			t.Errorf("after a job that there is not: %v", err)
		}
	})
}

// TestStopHeld: a job that waits for others can be stopped.
func TestStopHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := afterRig(t, 4)
		defer r.workers["a"].kill()
		stop := r.run(1)
		defer func() { _ = stop() }()
		long := testSpec("long", 1)
		long.Zones = []string{"mars"}
		first := r.submitSpec(long)
		second := r.submitSpec(afterSpec("second", string(first)))
		if err := r.s.Stop(t.Context(), second, "uid:1", "enough"); err != nil {
			t.Fatal(err)
		}
		if j := r.ended(second, time.Minute); j.State != job.Cancelled || !strings.Contains(j.Reason, "enough") {
			t.Errorf("%s %s", j.State, j.Reason)
		}
	})
}

// TestHolderDiesBeforeJobsBehind has the holder lose the lease behind each event of a chain
// of jobs, and another term go on: each is completed or skipped, and none begins before
// those that it waits for.
func TestHolderDiesBeforeJobsBehind(t *testing.T) {
	for cut := 1; cut < 60; cut++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			r := afterRig(t, 4)
			defer r.workers["a"].kill()
			var term atomicTerm
			term.set(1)
			r.mayAct = func(of cluster.Term) bool { return of > 1 || r.log.len() < cut || term.get() > 1 }
			bad := testSpec("bad", 1)
			bad.Attempts = 1
			id := func(key string) job.ID { return job.NewID("uid:1", key) }
			specs := []job.Spec{
				testSpec("one", 2), bad, afterSpec("two", string(id("one"))), afterSpec("three", string(id("two")), string(id("bad"))+":failed"),
				afterSpec("four", string(id("bad"))), afterSpec("five", string(id("four"))+":done", string(id("three"))),
			}
			submit := func() {
				for _, s := range specs {
					if _, err := r.s.Submit(t.Context(), s, "uid:1", WaitLocal, true); err != nil {
						return
					}
				}
			}
			stop := r.run(1)
			submit() // their outcome may be unknown
			deadline := time.Now().Add(20 * time.Second)
			for r.log.len() < cut && time.Now().Before(deadline) {
				time.Sleep(50 * time.Millisecond)
			}
			over = r.log.len() < cut
			_ = stop()
			term.set(2)
			stop = r.run(2)
			defer func() { _ = stop() }()
			submit()
			for key, want := range map[string]job.State{
				"one": job.Completed, "bad": job.Partial, "two": job.Completed, "three": job.Completed, "four": job.Skipped, "five": job.Completed,
			} {
				if j := r.ended(id(key), 3*time.Minute); j.State != want && (key != "bad" || j.State != job.Failed) {
					t.Fatalf("cut %d: %s is %s: %s", cut, key, j.State, j.Reason)
				}
			}
			began, done := map[job.ID]int{}, map[job.ID]int{}
			for i, e := range r.log.events {
				switch e.Kind {
				case event.KindChunksAssigned:
					var b event.ChunksAssigned
					if err := json.Unmarshal(e.Body, &b); err != nil {
						t.Fatal(err)
					}
					if _, ok := began[b.Job]; !ok {
						began[b.Job] = i
					}
				case event.KindJobDone:
					var b event.JobDone
					if err := json.Unmarshal(e.Body, &b); err != nil {
						t.Fatal(err)
					}
					done[b.Job] = i
				}
			}
			for _, pair := range [][2]string{{"one", "two"}, {"two", "three"}, {"bad", "three"}, {"four", "five"}, {"three", "five"}} {
				if began[id(pair[1])] < done[id(pair[0])] {
					t.Fatalf("cut %d: %s began before %s had ended", cut, pair[1], pair[0])
				}
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
