package scheduler

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/stops"
	"github.com/skein-project/skein/scheduler/stream"
)

// in runs f on fake time with a scheduler and workers a, b, c.
func in(t *testing.T, f func(t *testing.T, r *rig, a, b, c *fakeWorker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newFakeWorker("a", 2), newFakeWorker("b", 2), newFakeWorker("c", 2)
		r := newRig(t, newMemLog("a"), a, b, c)
		f(t, r, a, b, c)
		for _, w := range r.workers {
			w.kill()
		}
	})
}

func wantDone(t *testing.T, j state.Job) {
	t.Helper()
	if j.State != job.Completed || j.Counts.Accepted != j.Chunks || j.Iterations != j.Spec.Iterations || j.Disputed != 0 {
		t.Fatalf("job %+v, want it completed", j)
	}
}

func TestRunsAJob(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 60)
		j := r.ended(id, 15*time.Second)
		wantDone(t, j)
		if len(j.Workers) != 3 || slices.ContainsFunc(j.Workers, func(w job.WorkShare) bool { return w.Chunks < 18 || w.Chunks > 22 }) {
			t.Errorf("shares %+v, want about 20 chunks each", j.Workers)
		}
		if a := j.Aggregates[0]; a.Name != "x" || a.N != 600 || a.Mean != 29.5 {
			t.Errorf("aggregate %+v", a)
		}
		r.until(time.Second, "results forgotten", func() bool { return a.keeps()+b.keeps()+c.keeps() == 0 })
		if n := r.log.accepted(); n != 60 {
			t.Errorf("%d accepts logged, want 60", n)
		}
		end := r.log.last(event.KindJobDone)
		var done event.JobDone
		if err := json.Unmarshal(end.Body, &done); err != nil || done.Result == nil || done.Result.Accepted != 60 ||
			!slices.Equal(done.Result.Workers, j.Workers) || done.Result.Metrics["x"].Mean != 29.5 {
			t.Errorf("the end tells %s", end.Body)
		}
		if v := r.s.Workers(); len(v) != 3 || !v[0].Connected || v[0].Rate == 0 {
			t.Errorf("workers %+v", v)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if r.s.Workers() != nil || r.metric("skein_worker_streams") != 0 {
			t.Error("the ended term left something behind")
		}
	})
}

func TestSubmitIsIdempotent(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		ctx := t.Context()
		if _, err := r.s.Submit(ctx, testSpec("k", 5), "uid:1", WaitStable, false); !errors.Is(err, ErrNotHolder) {
			t.Fatalf("without a term: %v", err)
		}
		stop := r.run(1)
		first, err := r.s.Submit(ctx, testSpec("k", 5), "uid:1", WaitStable, false)
		if err != nil || !first.Created || first.Voters != 3 || first.Job != job.NewID("uid:1", "k") {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := r.s.Submit(ctx, testSpec("k", 5), "uid:1", WaitLocal, false)
		if err != nil || again.Created || again.Job != first.Job || again.Voters != 1 {
			t.Fatalf("%+v, %v", again, err)
		}
		if _, err := r.s.Submit(ctx, testSpec("k", 6), "uid:1", WaitStable, false); !errors.Is(err, ErrKeyReused) {
			t.Fatalf("another spec: %v", err)
		}
		if other, err := r.s.Submit(ctx, testSpec("k", 6), "uid:2", WaitStable, false); err != nil || !other.Created {
			t.Fatalf("another owner: %v", err)
		}
		r.ended(first.Job, time.Minute)
		_ = stop() // the next holder knows the key too
		stop = r.run(2)
		if again, err := r.s.Submit(ctx, testSpec("k", 5), "uid:1", WaitStable, false); err != nil || again.Created || again.Job != first.Job {
			t.Fatalf("next term: %+v, %v", again, err)
		}
		if n := r.log.count(event.KindJobSubmitted); n != 2 {
			t.Errorf("%d submissions logged, want 2", n)
		}
		_ = stop()
	})
}

func TestSubmitRefusesAndLogsNothing(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		for name, c := range map[string]struct {
			change func(*job.Spec)
			want   error
		}{
			"no artefact":  {func(s *job.Spec) { s.Artefact = cluster.Hash{} }, job.ErrSpec},
			"iterations 0": {func(s *job.Spec) { s.Iterations = 0 }, job.ErrSpec},
			"negative":     {func(s *job.Spec) { s.Iterations = ^uint64(4) }, job.ErrSpec},
			"chunk":        {func(s *job.Spec) { s.Chunk = s.Iterations + 1 }, job.ErrSpec},
			"executor":     {func(s *job.Spec) { s.Executor = "shell" }, job.ErrSpec},
		} {
			spec := testSpec("k", 5)
			c.change(&spec)
			if _, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if _, err := r.s.Submit(t.Context(), testSpec("k", 5), "", WaitStable, false); !errors.Is(err, job.ErrSpec) {
			t.Errorf("no owner: %v", err)
		}
		if _, err := r.s.Submit(t.Context(), testSpec("k", 5), "uid:1", "soon", false); !errors.Is(err, job.ErrSpec) {
			t.Errorf("wait: %v", err)
		}
		if n := r.log.len() - r.log.count(event.KindWorkerUp); n != 0 {
			t.Errorf("%d events logged", n)
		}
		_ = stop()
	})
}

func TestSubmitOutcomeUnknown(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		r.log.hold(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := r.s.Submit(ctx, testSpec("k", 5), "uid:1", WaitStable, false); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("not stable: %v", err)
		}
		r.log.hold(false)
		if got, err := r.s.Submit(t.Context(), testSpec("k", 5), "uid:1", WaitStable, false); err != nil || got.Created {
			t.Fatalf("retry: %+v, %v", got, err)
		}
		_ = stop()
	})
}

func TestBusy(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		// A term whose loop does not get to its requests.
		r.s.term = &term{inbox: inbox{requests: make(chan request, 1)}}
		r.s.term.inbox.requests <- request{}
		if _, err := r.s.Submit(t.Context(), testSpec("k", 5), "uid:1", WaitLocal, false); !errors.Is(err, ErrBusy) {
			t.Fatalf("%v, want ErrBusy", err)
		}
		if r.metric("skein_scheduler_busy_total") != 1 {
			t.Error("not counted")
		}
		r.s.term = nil
	})
}

func TestWorkerCrash(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, b, _ *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 30)
		r.until(5*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 6 })
		b.kill()
		start := time.Now()
		j := r.ended(id, 20*time.Second)
		wantDone(t, j)
		// The rest is 24 chunks on 4 slots: 6 s, and what b had is copied at the end.
		if d := time.Since(start); d > 9*time.Second {
			t.Errorf("took %s after the crash: the killed host stalled the job", d)
		}
		_ = stop()
	})
}

func TestDuplicatesAndLateResultsCountOnce(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		for _, w := range r.workers {
			w.answer = func(ref job.Attempt, n uint64) []stream.Frame {
				f := goodResult(ref, n)
				return []stream.Frame{f, f, f}
			}
		}
		stop := r.run(1)
		id := r.submit("k", 30)
		for i := 0; !r.job(id).State.Final(); i++ {
			if i > 1000 {
				t.Fatal("job hangs")
			}
			// Not in step with anything: a chunk could be lost with every dispatch.
			time.Sleep(time.Duration(300+i) * time.Millisecond)
			[]*fakeWorker{a, b, c}[i%3].cut() // kept results come again with every stream
		}
		wantDone(t, r.job(id))
		if n := r.log.accepted(); n != 30 {
			t.Errorf("%d accepts logged, want 30", n)
		}
		_ = stop()
	})
}

func TestNextHolderGoesOn(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 40)
		r.until(10*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 12 })
		r.log.hold(true) // what it accepts from now on is not stable: workers keep it
		r.until(10*time.Second, "more progress", func() bool { return r.job(id).Counts.Accepted >= 18 })
		_ = stop()
		if kept := a.keeps() + b.keeps() + c.keeps(); kept < 6 {
			t.Errorf("workers keep %d results that were never stable, want at least 6", kept)
		}
		r.log.hold(false)
		stop = r.run(2)
		wantDone(t, r.ended(id, 30*time.Second))
		if n := r.log.accepted(); n != 40 {
			t.Errorf("%d accepts logged, want 40", n)
		}
		for _, w := range r.workers {
			w.mu.Lock()
			for ref, n := range w.ran {
				if n > 1 {
					t.Errorf("%s ran %v %d times", w.node, ref, n)
				}
			}
			if w.term != 2 {
				t.Errorf("%s serves term %d, want 2", w.node, w.term)
			}
			w.mu.Unlock()
		}
		r.until(time.Second, "results forgotten", func() bool { return a.keeps()+b.keeps()+c.keeps() == 0 })
		_ = stop()
	})
}

func TestStableBeforeForgotten(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 12)
		r.log.hold(true)
		r.ended(id, time.Minute)
		time.Sleep(time.Minute)
		if kept := a.keeps() + b.keeps() + c.keeps(); kept != 12 {
			t.Errorf("workers keep %d results before they are stable, want 12", kept)
		}
		r.log.hold(false)
		r.until(time.Second, "results forgotten", func() bool { return a.keeps()+b.keeps()+c.keeps() == 0 })
		_ = stop()
	})
}

func TestStop(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 1000)
		r.until(10*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 12 })
		if err := r.s.Stop(t.Context(), id, "uid:7", ""); err != nil {
			t.Fatal(err)
		}
		r.until(time.Second, "word of all workers", func() bool { return r.job(id).State.Final() })
		j := r.job(id)
		if j.State != job.Cancelled || j.Reason != "stopped by uid:7" || j.StoppedBy != "uid:7" {
			t.Fatalf("job %+v", j)
		}
		synctest.Wait()
		for _, w := range []*fakeWorker{a, b, c} {
			w.mu.Lock()
			if len(w.queue) > 0 {
				t.Errorf("%s still has %v", w.node, w.queue)
			}
			w.mu.Unlock()
		}
		if err := r.s.Stop(t.Context(), id, "uid:7", ""); !errors.Is(err, ErrJobOver) || !strings.Contains(err.Error(), "it is cancelled") {
			t.Errorf("again: %v", err)
		}
		if err := r.s.Stop(t.Context(), "j-none", "uid:7", ""); !errors.Is(err, ErrUnknownJob) {
			t.Errorf("unknown: %v", err)
		}
		_ = stop()
	})
}

func TestFailuresAreVisible(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		for _, w := range r.workers {
			w.answer = func(ref job.Attempt, n uint64) []stream.Frame {
				if ref.Chunk == 3 {
					return []stream.Frame{failure(ref, "exit status 3: out of luck")}
				}
				if ref.Chunk == 5 && ref.Number < 3 {
					return []stream.Frame{goodResult(ref, n+1)}
				}
				return []stream.Frame{goodResult(ref, n)}
			}
		}
		stop := r.run(1)
		j := r.ended(r.submit("k", 20), time.Minute)
		if j.State != job.Partial || j.Counts.Failed != 1 || j.Counts.Accepted != 19 || j.Failures != 4+2 ||
			!strings.Contains(j.Reason, "chunk 3: exit status 3: out of luck") {
			t.Errorf("job %+v", j)
		}
		found := false
		for _, f := range j.LastFailures {
			found = found || f.Chunk == 5 && strings.Contains(f.Reason, "11 iterations, the chunk has 10")
		}
		if !found {
			t.Errorf("failures %+v", j.LastFailures)
		}
		for _, w := range r.workers {
			w.answer = func(ref job.Attempt, _ uint64) []stream.Frame { return []stream.Frame{failure(ref, "no such module")} }
		}
		j = r.ended(r.submit("l", 500), time.Minute)
		if j.State != job.Failed || j.Failures > 20 || !strings.Contains(j.Reason, "no such module") {
			t.Errorf("job %+v", j)
		}
		_ = stop()
	})
}

func TestSilentWorker(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, _ *fakeWorker) {
		b.answer = func(job.Attempt, uint64) []stream.Frame { return nil } // takes everything, answers nothing
		stop := r.run(1)
		wantDone(t, r.ended(r.submit("k", 30), time.Minute)) // what it has is copied long before its time is up
		_, _ = a, stop()
	})
}

// A host that hangs with its streams open says nothing, not even a status.
func TestHungHost(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, b, _ *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 30)
		r.until(5*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 6 })
		b.mu.Lock()
		b.thaw = make(chan struct{})
		b.mu.Unlock()
		start := time.Now()
		wantDone(t, r.ended(id, time.Minute))
		// 24 chunks on 4 slots, and b's are copied once its silence was noticed.
		if d := time.Since(start); d > link.Silence+4*time.Second {
			t.Errorf("took %s after the host hung", d)
		}
		close(b.thaw)
		_ = stop()
	})
}

func TestGarbageFromAWorker(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, b, c *fakeWorker) {
		b.raw = binary.BigEndian.AppendUint32(nil, 1<<31)
		c.answer = func(ref job.Attempt, n uint64) []stream.Frame {
			ref.Chunk += 1000
			return []stream.Frame{goodResult(ref, n)}
		}
		stop := r.run(1)
		wantDone(t, r.ended(r.submit("k", 10), 10*time.Minute))
		if r.metric("skein_worker_offences_total") == 0 {
			t.Error("no offence counted")
		}
		_ = stop()
	})
}

func TestLeaseLost(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		may := make(chan struct{}) // closed: the lease is gone
		r.mayAct = func(cluster.Term) bool {
			select {
			case <-may:
				return false
			default:
				return true
			}
		}
		ctx := t.Context()
		done := make(chan error, 1)
		go func() { done <- r.s.Run(ctx, 1) }()
		synctest.Wait()
		id := r.submit("k", 1000)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		close(may)
		before := r.log.len()
		if err := <-done; !errors.Is(err, ErrLeaseLost) {
			t.Fatalf("%v, want ErrLeaseLost", err)
		}
		if n := r.log.len(); n != before {
			t.Errorf("%d events logged without the lease", n-before)
		}
		if r.metric("skein_fenced_actions_total") != 1 || r.job(id).State != job.Running {
			t.Error("not counted, or the job ended")
		}
		if _, err := r.s.Submit(ctx, testSpec("l", 5), "uid:1", WaitLocal, false); !errors.Is(err, ErrNotHolder) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestLogRefuses(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		done := make(chan error, 1)
		go func() { done <- r.s.Run(t.Context(), 1) }()
		synctest.Wait()
		disk := errors.New("disk full")
		r.log.mu.Lock()
		r.log.refuse = disk
		r.log.mu.Unlock()
		if _, err := r.s.Submit(t.Context(), testSpec("k", 5), "uid:1", WaitStable, false); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, disk) {
			t.Errorf("submit: %v", err)
		}
		if err := <-done; !errors.Is(err, disk) {
			t.Errorf("run: %v", err)
		}
	})
}

// TestStopAwaitsWord has a worker that does not confirm that it stopped: the job
// stays cancelling until the worker is fenced off, through a change of the
// holder too, and then the end names it.
func TestStopAwaitsWord(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		b.deaf, b.delay = true, time.Hour
		stop := r.run(1)
		id := r.submit("k", 1000)
		r.until(10*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 12 })
		for range 2 {
			if err := r.s.Stop(t.Context(), id, "uid:7", "enough"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(stops.Lapse / 2)
		if j := r.job(id); j.State != job.Cancelling || j.StopReason != "enough" || r.log.count(event.KindJobStopped) != 1 {
			t.Fatalf("job %s, stopped %d times: %q", j.State, r.log.count(event.KindJobStopped), j.StopReason)
		}
		_ = stop()
		stop = r.run(2)
		time.Sleep(stops.Lapse / 2)
		if j := r.job(id); j.State != job.Cancelling {
			t.Fatalf("under the next holder: %s", j.State)
		}
		r.until(stops.Lapse, "the lapse", func() bool { return r.job(id).State.Final() })
		if j := r.job(id); j.State != job.Cancelled || !strings.HasSuffix(j.Reason, "; not confirmed by b") {
			t.Errorf("job %s: %q", j.State, j.Reason)
		}
		_ = stop()
	})
}

// TestForget lets an ended job outlive its time: it is forgotten by an event, and
// its key is free again.
func TestForget(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		spec := testSpec("k", 3)
		spec.KeepSeconds = 120
		first, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false)
		if err != nil {
			t.Fatal(err)
		}
		id := first.Job
		r.ended(id, time.Minute)
		time.Sleep(110 * time.Second)
		if j := r.job(id); !j.State.Final() {
			t.Fatalf("%s before its time is over", j.State)
		}
		r.until(30*time.Second, "the job is forgotten", func() bool { return r.job(id).ID == "" })
		sub, err := r.s.Submit(t.Context(), testSpec("k", 3), "uid:1", WaitStable, false)
		if err != nil || !sub.Created || sub.Job != id {
			t.Errorf("submitted again: %+v, %v", sub, err)
		}
		_ = stop()
	})
}

// TestKept: a job that may not be forgotten is kept beyond its time, though not for ever.
func TestKept(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		spec := testSpec("k", 3)
		spec.KeepSeconds = 120
		first, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false)
		if err != nil {
			t.Fatal(err)
		}
		r.ended(first.Job, time.Minute)
		_ = stop()
		time.Sleep(time.Second) // it may have ended just now
		over := time.Now().Add(2 * time.Minute)
		for _, c := range []struct {
			wall time.Time
			may  bool
			want int
		}{{over.Add(-time.Minute), true, 0}, {over, true, 1}, {over, false, 0}, {over.Add(forgetLatest - time.Minute), false, 0}, {over.Add(forgetLatest), false, 1}} {
			got := newJobs(r.log, nil).expire(time.Hour, c.wall, func(id job.ID) bool { return c.may && id == first.Job })
			if len(got) != c.want {
				t.Errorf("%s after its end, may be forgotten: %v: %v are", c.wall.Sub(over)+2*time.Minute, c.may, got)
			}
		}
	})
}

// TestFullLogTakesNoNewWork fills the disk in the middle of a job: what runs ends
// and counts, the job can be stopped, nothing new begins; with room again all
// goes on by itself.
func TestFullLogTakesNoNewWork(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		stop := r.run(1)
		id := r.submit("k", 100)
		other := r.submit("o", 50)
		time.Sleep(2500 * time.Millisecond)
		setFull := func(full bool) { r.log.mu.Lock(); r.log.full = full; r.log.mu.Unlock() }
		setFull(true)
		time.Sleep(time.Second)
		assigned, accepted := r.log.count(event.KindChunksAssigned), r.log.accepted()
		if _, err := r.s.Submit(t.Context(), testSpec("l", 5), "uid:1", WaitLocal, false); !errors.Is(err, ErrNoRoom) {
			t.Errorf("submit to a full log: %v, want ErrNoRoom", err)
		}
		if sub, err := r.s.Submit(t.Context(), testSpec("k", 100), "uid:1", WaitLocal, false); err != nil || sub.Created {
			t.Errorf("submit of a known job: %v", err)
		}
		group := event.GroupSet{Group: "g", Members: []string{"a", "b"}, Actor: "uid:0@n1"}
		if err := r.s.Set(t.Context(), group); !errors.Is(err, ErrNoRoom) {
			t.Errorf("group in a full log: %v, want ErrNoRoom", err)
		}
		if err := r.s.Stop(t.Context(), other, "uid:1", ""); err != nil {
			t.Errorf("stop: %v", err)
		}
		time.Sleep(20 * time.Second)
		if n := r.log.count(event.KindChunksAssigned); n != assigned {
			t.Errorf("%d assignments although the log is full", n-assigned)
		}
		if n := r.log.accepted(); n <= accepted {
			t.Error("what ran was not accepted")
		}
		if !r.job(other).State.Final() || r.job(id).State.Final() {
			t.Errorf("jobs are %s and %s", r.job(other).State, r.job(id).State)
		}
		setFull(false)
		if err := r.s.Set(t.Context(), group); err != nil {
			t.Errorf("group: %v", err)
		}
		r.log.View(func(st *state.State) {
			if g, ok := st.Group("g"); !ok || !slices.Equal(g.Members, []string{"a", "b"}) {
				t.Errorf("group %+v", g)
			}
		})
		ann := event.UserSet{Name: "ann", Role: "viewer", Actor: "uid:0@n1"}
		for _, b := range []event.Register{ann, event.HostOwnerSet{Node: "n2", Owner: "user:ann"}} {
			if err := r.s.Set(t.Context(), b); err != nil {
				t.Error(err)
			}
		}
		r.log.View(func(st *state.State) {
			if u, ok := st.User("ann"); !ok || u.Role != "viewer" || st.Owner("n2") != "user:ann" {
				t.Errorf("user %+v, owner %q", u, st.Owner("n2"))
			}
		})
		r.unaware.Store(new(cluster.NodeID("n3")))
		if old, ok := errors.AsType[*UnawareError](r.s.Set(t.Context(), ann)); !ok || old.Error() != "the skein of n3 is too old for user_set" {
			t.Errorf("a user while n3 is too old: %v", old)
		}
		if err := r.s.Set(t.Context(), event.GroupSet{Group: "G"}); !errors.Is(err, job.ErrSpec) {
			t.Errorf("group with a bad name: %v", err)
		}
		r.submit("l", 5)
		r.ended(id, 10*time.Minute)
		_ = stop()
	})
}

func TestQuiesce(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		if err := r.s.Quiesce(t.Context()); !errors.Is(err, ErrNotHolder) {
			t.Fatalf("without a term: %v", err)
		}
		stop := r.run(1)
		id := r.submit("k", 100)
		time.Sleep(3500 * time.Millisecond)
		if err := r.s.Quiesce(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := r.log.len()
		if _, err := r.s.Submit(t.Context(), testSpec("l", 5), "uid:1", WaitLocal, false); !errors.Is(err, ErrNotHolder) {
			t.Errorf("submit while quiet: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := r.log.len(); n != before {
			t.Errorf("%d events logged after quiesce", n-before)
		}
		if kept := a.keeps() + b.keeps() + c.keeps(); kept == 0 {
			t.Error("workers keep nothing for the next holder")
		}
		_ = stop()
		stop = r.run(2)
		wantDone(t, r.ended(id, time.Minute))
		_ = stop()
	})
}

func TestMembersComeAndGo(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		r.s.SetWorkers(nil) // this host alone
		stop := r.run(1)
		id := r.submit("k", 40)
		r.until(5*time.Second, "some progress", func() bool { return r.job(id).Counts.Accepted >= 4 })
		if b.dials+c.dials > 0 {
			t.Error("a host that is no member was dialled")
		}
		r.s.SetWorkers([]cluster.NodeID{"b", "c"})
		r.s.SetHealth("c", cluster.Suspect)
		r.s.SetHealth("a", cluster.Dead) // nonsense about oneself
		r.until(5*time.Second, "work for b", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.ran) > 2 })
		c.mu.Lock()
		if len(c.ran) > 0 {
			t.Error("a suspect got work")
		}
		c.mu.Unlock()
		r.s.SetWorkers([]cluster.NodeID{"c"}) // b left
		r.s.SetHealth("c", cluster.Alive)
		wantDone(t, r.ended(id, time.Minute))
		_ = stop()
	})
}

// TestRemovedBetweenTwoTerms: what a host had that was removed while nobody scheduled
// goes elsewhere at once, and the host is no worker any more.
func TestRemovedBetweenTwoTerms(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, b, _ *fakeWorker) {
		b.mu.Lock()
		b.delay = time.Hour
		b.mu.Unlock()
		stop := r.run(1)
		id := r.submit("k", 40)
		r.until(5*time.Second, "work for b", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.queue) > 0 })
		_ = stop()
		reclaimed := r.job(id).Reclaims
		r.s.SetWorkers([]cluster.NodeID{"c"})
		stop = r.run(2)
		r.until(2*time.Second, "a view of the workers", func() bool { return len(r.s.Workers()) > 0 })
		for _, w := range r.s.Workers() {
			if w.Worker == "b" {
				t.Errorf("a host that was removed is a worker: %+v", w)
			}
		}
		if n := r.job(id).Reclaims; n <= reclaimed {
			t.Errorf("%d attempts were taken back of a host that was removed, %d before", n, reclaimed)
		}
		wantDone(t, r.ended(id, 20*time.Second))
		_ = stop()
	})
}

func TestOptions(t *testing.T) {
	good := newRig(t, newMemLog("a"), newFakeWorker("a", 1)).s.o
	good.Registerer = nil
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"self": func(o *Options) { o.Self = "A" }, "log": func(o *Options) { o.Log = nil },
		"lease": func(o *Options) { o.MayAct = nil }, "dial": func(o *Options) { o.Dial = nil },
		"clock": func(o *Options) { o.Now = nil }, "tick": func(o *Options) { o.Tick = -1 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestSubmitWithoutWorker: what no worker can run is refused, unless it is to
// wait for one; then the log says what it waits for.
func TestSubmitWithoutWorker(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		time.Sleep(15 * time.Second) // every host had its time
		spec := testSpec("k", 5)
		spec.Executor, spec.Program, spec.Artefact = job.ExecutorExec, "render", cluster.Hash{}
		if _, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false); !errors.Is(err, ErrNoWorker) || !strings.Contains(err.Error(), "0 of 3 workers eligible: a, b, c: program render is not allowed there") {
			t.Fatalf("%v, want ErrNoWorker", err)
		}
		if n := r.log.count(event.KindJobSubmitted); n != 0 {
			t.Fatalf("%d submissions logged", n)
		}
		sub, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, true)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false); err != nil || again.Created || again.Job != sub.Job {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		began := time.Now()
		time.Sleep(time.Second)
		w := r.s.Waiting()
		if len(w) != 1 || w[0].Job != sub.Job || !w[0].Why.Never || began.Sub(w[0].Since).Abs() > 2*time.Second {
			t.Errorf("%+v waits", w)
		}
		time.Sleep(time.Minute)
		r.log.View(func(st *state.State) {
			j, _ := st.Job(sub.Job)
			if want := "0 of 3 workers eligible: a, b, c: program render is not allowed there"; j.State != job.Queued || j.Queued != want {
				t.Errorf("%s %q, want %q", j.State, j.Queued, want)
			}
		})
		_ = stop()
	})
}

// TestLull: a scheduler with no open job looks at the time once a second, and is
// as prompt as ever when there is one.
func TestLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFakeWorker("a", 2)
		r := newRig(t, newMemLog("a"), a)
		var looks atomic.Int64
		r.s.o.Now = func() time.Duration { looks.Add(1); return time.Since(r.start) }
		stop := r.run(1)
		time.Sleep(5 * time.Second)
		before := looks.Load()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// Each tick and each status of the worker reads it a few times.
		if n := looks.Load() - before; n > 100 {
			t.Errorf("the clock was read %d times in 10 s with nothing to do", n)
		}
		began := time.Now()
		wantDone(t, r.ended(r.submit("k", 4), time.Minute))
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a job of 4 chunks took %s", took)
		}
		_ = stop()
		a.kill()
	})
}
