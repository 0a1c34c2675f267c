package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/scheduler/trials"
)

// TestSubmissionsAreLimited: what an owner submits beyond its rate is refused
// with a time to try again, and leaves nothing behind. What was taken before is
// answered again whatever the rate.
func TestSubmissionsAreLimited(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		r.s.o.Plan.Owner.Submits = bucket.Rate{PerSecond: 1, Burst: 2}
		stop := r.run(1)
		first := r.submit("a", 10)
		r.submit("b", 10)
		before := r.log.count(event.KindJobSubmitted)
		_, err := r.s.Submit(t.Context(), testSpec("c", 10), "uid:1", WaitLocal, false)
		var refused *fair.Refusal
		if !errors.Is(err, ErrBusy) || !errors.As(err, &refused) || refused.After <= 0 || refused.After > time.Second ||
			!strings.Contains(err.Error(), "submits more jobs than 1 per second, try again in") {
			t.Fatalf("third job at once: %v", err)
		}
		if n := r.log.count(event.KindJobSubmitted); n != before {
			t.Errorf("%d submissions logged, %d before", n, before)
		}
		if again := r.submit("a", 10); again != first {
			t.Errorf("the first job is %s when asked again, was %s", again, first)
		}
		time.Sleep(refused.After)
		r.submit("c", 10)
		_ = stop()
	})
}

// TestAutomaticChunks: once the work was measured, a job that leaves its chunks
// to the cluster gets those that take as long as it wants, and asks for the
// same job whatever was measured since.
func TestAutomaticChunks(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		stop := r.run(1)
		wantDone(t, r.ended(r.submit("a", 30), time.Minute)) // a second per chunk of 10
		auto := testSpec("b", 100_000)
		auto.Iterations, auto.Chunk, auto.ChunkAuto, auto.ChunkSeconds = 1_000_000, 0, true, 20
		auto.TimeoutSeconds = 600
		sub, err := r.s.Submit(t.Context(), auto, "uid:1", WaitLocal, false)
		if err != nil {
			t.Fatal(err)
		}
		if j := r.job(sub.Job); j.Spec.Chunk < 195 || j.Spec.Chunk > 205 || j.Chunks != j.Spec.Chunks() {
			t.Errorf("%d chunks of %d iterations, want 20 s of 10 per second", j.Chunks, j.Spec.Chunk)
		}
		if again, err := r.s.Submit(t.Context(), auto, "uid:1", WaitLocal, false); err != nil || again.Created || again.Job != sub.Job {
			t.Errorf("the same request: %+v, %v", again, err)
		}
		_ = stop()
	})
}

// TestTrial: work that was never measured is tried before its first job, once; a job
// that this host's worker may not run is not, and has 256 chunks.
func TestTrial(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		tried, rate := 0, 10.0
		r.s.o.Trial = func(context.Context, job.Spec) float64 { tried++; return rate }
		stop := r.run(1)
		time.Sleep(time.Second)
		submit := func(key string, created bool, change func(*job.Spec)) job.Spec {
			t.Helper()
			spec := testSpec(key, 1)
			spec.Iterations, spec.Chunk, spec.TimeoutSeconds = 100_000, 0, 600
			if change != nil {
				change(&spec)
			}
			sub, err := r.s.Submit(t.Context(), spec, "uid:1", WaitLocal, false)
			if err != nil || sub.Created != created || !sub.Spec.ChunkAuto {
				t.Fatalf("%s: %+v, %v", key, sub, err)
			}
			if logged := r.job(sub.Job).Spec; !logged.Equal(sub.Spec) {
				t.Errorf("%s: logged %+v, answered %+v", key, logged, sub.Spec)
			}
			return sub.Spec
		}
		if s := submit("a", true, nil); s.Chunk != 300 || tried != 1 {
			t.Errorf("%d iterations after %d trials, want 30 s of 10 per second after one", s.Chunk, tried)
		}
		if s := submit("a", false, nil); s.Chunk != 300 || tried != 1 {
			t.Errorf("%d iterations after %d trials of the same request", s.Chunk, tried)
		}
		other := func(s *job.Spec) { s.Artefact[0]++ }
		rate = 0
		if s := submit("b", true, other); s.Chunk != 391 || tried != 2 {
			t.Errorf("%d iterations after %d trials, want 256 chunks where it cannot tell", s.Chunk, tried)
		}
		rate = 10
		if s := submit("c", true, func(s *job.Spec) {
			other(s)
			s.Permission = job.Permission{Access: job.AccessUser, Users: []string{"node:b"}}
		}); s.Chunk != 391 || tried != 2 {
			t.Errorf("%d iterations after %d trials of what this host may not run", s.Chunk, tried)
		}
		// What was logged when 256 chunks were the default is the same request.
		submit("d", true, nil)
		old := testSpec("e", 1)
		old.Iterations, old.Chunk = 100_000, 391
		if _, err := r.s.Submit(t.Context(), old, "uid:1", WaitLocal, false); err != nil {
			t.Fatal(err)
		}
		old.Chunk = 0
		if sub, err := r.s.Submit(t.Context(), old, "uid:1", WaitLocal, false); err != nil || sub.Created || sub.Spec.Chunk != 391 {
			t.Errorf("%+v, %v", sub, err)
		}
		_ = stop()
	})
}

// TestTrialIsWithinLimits: who submits more than an owner may has nothing tried.
func TestTrialIsWithinLimits(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		r.s.o.Plan.Owner.Submits = bucket.Rate{PerSecond: 0.01, Burst: 1}
		tried := 0
		r.s.o.Trial = func(context.Context, job.Spec) float64 { tried++; return 0 }
		stop := r.run(1)
		time.Sleep(time.Second)
		for i, want := range []error{nil, ErrBusy, ErrBusy} {
			spec := testSpec(fmt.Sprint(i), 1)
			spec.Iterations, spec.Chunk, spec.Artefact = 100_000, 0, cluster.Hash{byte(i + 2)}
			if _, err := r.s.Submit(t.Context(), spec, "uid:1", WaitLocal, false); !errors.Is(err, want) || tried != 1 {
				t.Errorf("submission %d: %v after %d trials, want %v after one", i, err, tried, want)
			}
		}
		_ = stop()
	})
}

// TestTrialsAreFair: whoever submits ever new modules that take long to try, another
// owner's module is tried within some seconds. Without others a trial has its time.
func TestTrialsAreFair(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		r.s.o.Plan.Owner = fair.Limits{}
		var mu sync.Mutex
		hangs := map[byte]bool{'a': true, 'h': true}
		tried := map[string]time.Duration{} // by the key of the job: how long
		r.s.o.Trial = func(ctx context.Context, spec job.Spec) float64 {
			began, rate := time.Now(), 10.0
			if hangs[spec.Key[0]] {
				<-ctx.Done()
				rate = 0
			}
			mu.Lock()
			defer mu.Unlock()
			tried[spec.Key] = time.Since(began)
			return rate
		}
		stop := r.run(1)
		time.Sleep(time.Second)
		modules := 0
		submit := func(owner, key string) job.Spec {
			spec := testSpec(key, 1)
			mu.Lock()
			modules++
			spec.Artefact = cluster.Hash{byte(modules), byte(modules >> 8)}
			mu.Unlock()
			spec.Iterations, spec.Chunk, spec.TimeoutSeconds = 100_000, 0, 600
			sub, err := r.s.Submit(t.Context(), spec, owner, WaitLocal, false)
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
			return sub.Spec
		}
		submit("uid:2", "alone")
		if tried["alone"] != trials.Time {
			t.Errorf("a trial without others had %s", tried["alone"])
		}
		var hogs sync.WaitGroup
		for i := range 20 {
			hogs.Go(func() { submit("uid:2", fmt.Sprint("hog", i)) })
		}
		synctest.Wait()
		for i := range 5 {
			began := time.Now()
			s := submit("uid:1", fmt.Sprint("mine", i))
			if took := time.Since(began); s.Chunk != 300 || took > trials.Share+time.Second {
				t.Errorf("after %s: %d iterations, want 300, by a trial", took, s.Chunk)
			}
		}
		hogs.Wait()
		submit("uid:1", "last")
		if !r.s.trials.Idle() {
			t.Error("a trial is left behind")
		}
		_ = stop()
	})
}

// TestZonesReachThePlan: a job runs in the zones that it names.
func TestZonesReachThePlan(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		r.s.SetZones(map[cluster.NodeID]string{"a": "fra", "b": "osl"})
		stop := r.run(1)
		s := testSpec("k", 6)
		s.Zones = []string{"osl"}
		sub, err := r.s.Submit(t.Context(), s, "uid:1", WaitLocal, false)
		if err != nil {
			t.Fatal(err)
		}
		j := r.ended(sub.Job, time.Minute)
		if wantDone(t, j); len(j.Workers) != 1 || j.Workers[0].Worker != "b" {
			t.Errorf("it ran at %+v, want b alone", j.Workers)
		}
		_, _, _ = a, c, stop()
	})
}

// TestJobMoves: what has not begun of a job runs in other zones once one of its own is
// lost, what runs goes on, and the next holder knows. A job that waits for others is told
// to come again.
func TestJobMoves(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		r.s.SetZones(map[cluster.NodeID]string{"a": "fra", "b": "osl", "c": "rome"})
		stop := r.run(1)
		s := testSpec("k", 12)
		s.Zones, s.ZoneChoice = []string{"osl"}, &job.ZoneChoice{Count: 1, Among: []string{"fra", "osl"}}
		sub, err := r.s.Submit(t.Context(), s, "uid:1", WaitLocal, false)
		if err != nil {
			t.Fatal(err)
		}
		r.until(time.Minute, "something of it runs", func() bool { return len(b.runs()) > 0 })
		s.Key, s.After = "later", []string{string(sub.Job)}
		later, err := r.s.Submit(t.Context(), s, "uid:1", WaitLocal, false)
		if err != nil {
			t.Fatal(err)
		}
		move := func(id job.ID, zones ...string) error {
			return r.s.Set(t.Context(), event.JobZones{Job: id, Zones: zones, Reason: "zone osl: none of 1 hosts is alive"})
		}
		if err := move(later.Job, "fra"); err == nil {
			t.Error("a job that waits for others moves")
		}
		if err := move("nobody", "fra"); !errors.Is(err, ErrUnknownJob) {
			t.Errorf("a job that is not there: %v", err)
		}
		if err := move(sub.Job); !errors.Is(err, job.ErrSpec) {
			t.Errorf("to no zone: %v", err)
		}
		b.cut()
		if err := move(sub.Job, "fra"); err != nil {
			t.Fatal(err)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		stop = r.run(2)
		j := r.ended(sub.Job, 10*time.Minute)
		if wantDone(t, j); !slices.Equal(j.Zones, []string{"fra"}) || !slices.Equal(j.Spec.Zones, []string{"osl"}) {
			t.Errorf("zones %v of %v", j.Zones, j.Spec.Zones)
		}
		ran := map[cluster.NodeID]int{}
		for _, w := range j.Workers {
			ran[w.Worker] = w.Chunks
		}
		if ran["a"] == 0 || ran["c"] > 0 {
			t.Errorf("it ran at %v", ran)
		}
		_, _, _ = a, c, stop()
	})
}

// TestLanes: every request and every word of a worker has its lane, and a queue
// full of submissions keeps no stop out.
// TestMemory: a job goes where an attempt may have the memory that it asks for. A
// worker of an earlier version does not say how much that is, and is given what it may
// refuse; one that does not allow it is not, so that nothing of the job's budget is lost.
func TestMemory(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, b, c *fakeWorker) {
		a.memory, b.memory = 512<<20, 1<<30
		stop := r.run(1)
		time.Sleep(15 * time.Second)
		ran := func(w *fakeWorker, id job.ID) (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for ref := range w.ran {
				if ref.Job == id {
					n++
				}
			}
			return n
		}
		submit := func(key string, memory uint64) (job.ID, error) {
			spec := testSpec(key, 24)
			spec.MemoryBytes = memory
			sub, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false)
			return sub.Job, err
		}
		for key, c := range map[string]struct {
			memory uint64
			where  [3]bool
		}{
			"small": {256 << 20, [3]bool{true, true, true}}, "large": {512<<20 + 1<<16, [3]bool{false, true, true}}, "huge": {2 << 30, [3]bool{false, false, true}},
		} {
			id, err := submit(key, c.memory)
			if err != nil {
				t.Fatal(err)
			}
			j := r.ended(id, time.Minute)
			wantDone(t, j)
			for i, w := range []*fakeWorker{r.workers["a"], r.workers["b"], r.workers["c"]} {
				if (ran(w, id) > 0) != c.where[i] {
					t.Errorf("%s: %s ran %d chunks", key, w.node, ran(w, id))
				}
			}
			if j.Reclaims+j.Failures > 0 {
				t.Errorf("%s: %d lost, %d failed", key, j.Reclaims, j.Failures)
			}
		}
		// Once all hosts say, what none allows is refused.
		c.mu.Lock()
		c.memory = 1 << 30
		c.mu.Unlock()
		c.cut()
		time.Sleep(15 * time.Second)
		if _, err := submit("more", 2<<30); !errors.Is(err, ErrNoWorker) || !strings.Contains(err.Error(), "0 of 3 workers eligible: a, b, c: it allows less memory than 2048 MiB") {
			t.Errorf("%v, want ErrNoWorker", err)
		}
		_ = stop()
	})
}

// TestExplain: whoever asks is told what keeps each worker from a job, while it waits
// and while it runs.
func TestExplain(t *testing.T) {
	in(t, func(t *testing.T, r *rig, a, _, _ *fakeWorker) {
		if _, err := r.s.Explain(t.Context(), "j"); !errors.Is(err, ErrNotHolder) {
			t.Errorf("without a term: %v", err)
		}
		a.memory = 256 << 20
		r.s.SetZones(map[cluster.NodeID]string{"a": "osl", "b": "fra", "c": "osl"})
		stop := r.run(1)
		time.Sleep(15 * time.Second)
		if _, err := r.s.Explain(t.Context(), "j"); !errors.Is(err, ErrUnknownJob) {
			t.Errorf("of no job: %v", err)
		}
		spec := testSpec("k", 20)
		spec.Zones, spec.MemoryBytes = []string{"osl"}, 512<<20
		sub, err := r.s.Submit(t.Context(), spec, "uid:1", WaitStable, false)
		if err != nil {
			t.Fatal(err)
		}
		explained := func(want string) Waiting {
			t.Helper()
			w, err := r.s.Explain(t.Context(), sub.Job)
			if got := w.Why.String(); err != nil || got != want || w.Job != sub.Job {
				t.Errorf("%q %v, want %q", got, err, want)
			}
			return w
		}
		if w := explained("1 of 3 workers eligible: c: has no room; a: it allows less memory than 512 MiB; b: not in zone osl"); !w.Since.IsZero() {
			t.Errorf("it waits since %s", w.Since)
		}
		r.s.SetZones(nil)
		if n := r.log.count(event.KindJobWaits); n != 0 {
			t.Errorf("%d events of a job that ran", n)
		}
		time.Sleep(15 * time.Second)
		if w := explained("0 of 3 workers eligible: b, c: not in zone osl; a: it allows less memory than 512 MiB"); time.Since(w.Since) > 15*time.Second || w.Since.IsZero() {
			t.Errorf("it waits since %s", w.Since)
		}
		time.Sleep(10 * time.Minute)
		var told event.JobWaits
		if e := r.log.last(event.KindJobWaits); r.log.count(event.KindJobWaits) != 1 || e.Term != 0 || json.Unmarshal(e.Body, &told) != nil || told.Job != sub.Job ||
			told.Eligible != 0 || !slices.Equal(told.Reasons, []event.WaitReason{{Reason: "zone", Workers: 2}, {Reason: "memory", Workers: 1}}) {
			t.Errorf("%d events, %+v", r.log.count(event.KindJobWaits), told)
		}
		r.unaware.Store(new(cluster.NodeID("z")))
		r.s.SetHealth("c", cluster.Suspect)
		time.Sleep(10 * time.Minute)
		if n := r.log.count(event.KindJobWaits); n != 1 {
			t.Errorf("%d events in a log that not all understand", n)
		}
		r.unaware.Store(nil)
		time.Sleep(time.Minute)
		if n := r.log.count(event.KindJobWaits); n != 2 {
			t.Errorf("%d events once all do", n)
		}
		if err := r.s.Stop(t.Context(), sub.Job, "uid:1", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := r.s.Explain(t.Context(), sub.Job); !errors.Is(err, ErrJobOver) {
			t.Errorf("of a job that is over: %v", err)
		}
		_ = stop()
	})
}

func TestLanes(t *testing.T) {
	for r, want := range map[*request]overload.Lane{
		{stop: &event.JobStopped{}}: overload.Control,
		{quiesce: true}:             overload.Control,
		{submit: &submission{}}:     overload.Submit,
		{set: event.GroupSet{}}:     overload.Submit,
	} {
		if got := r.lane(); got != want {
			t.Errorf("%+v is in lane %s, want %s", r, got, want)
		}
	}
	for e, want := range map[*link.Event]overload.Lane{
		{Up: true}:                   overload.Control,
		{Down: link.ErrSlow}:         overload.Control,
		{Stopped: &stream.Stopped{}}: overload.Vital,
		{Holds: &stream.Assigned{}}:  overload.Vital,
		{Result: &stream.Result{}}:   overload.Vital,
		{Status: &stream.Status{}}:   overload.Telemetry,
		{Pong: time.Second}:          overload.Telemetry,
	} {
		if got := e.Lane(); got != want {
			t.Errorf("%+v is in lane %s, want %s", e, got, want)
		}
	}
	in(t, func(t *testing.T, r *rig, _, _, _ *fakeWorker) {
		// A term whose loop does not get to its requests.
		r.s.term = &term{inbox: inbox{requests: make(chan request, 1), urgent: make(chan request, 1)}}
		r.s.term.inbox.requests <- request{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.s.Submit(ctx, testSpec("k", 1), "uid:1", WaitLocal, false); !errors.Is(err, ErrBusy) {
			t.Errorf("submit: %v", err)
		}
		if err := r.s.Stop(ctx, "j", "uid:1", ""); !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("stop: %v, want it taken and not answered", err)
		}
		r.s.term = nil
	})
}

// TestAskOf: whatever a worker says that it wants is a time that the plan can count with.
func TestAskOf(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{30: 30 * time.Second, 1e9: 1e9 * time.Second, 1e300: 9e9 * time.Second, 0: time.Millisecond, -5: time.Millisecond} {
		if got := askOf(&stream.Ask{Number: 1, Seconds: seconds}); got.For != want {
			t.Errorf("%g s: %s, want %s", seconds, got.For, want)
		}
	}
	if askOf(nil) != nil {
		t.Error("nothing is asked, and something is heard")
	}
}
