package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/results"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// add submits a job of 10 iterations per chunk with a policy of its own.
func (b *bench) add(id job.ID, owner string, chunks int, change func(*job.Spec)) []step.Action {
	b.t.Helper()
	spec := specOf(chunks, 4)
	if change != nil {
		change(&spec)
	}
	if err := spec.Validate(); err != nil {
		b.t.Fatal(err)
	}
	return b.do(step.JobAdded{Job: id, Spec: spec, Owner: owner})
}

// stranger connects a worker of an owner of its own, whom nobody in the cluster knows.
func (b *bench) stranger(n cluster.NodeID, slots int) []step.Action {
	b.t.Helper()
	return b.strangerOf("visitor:"+string(n), n, slots)
}

func (b *bench) strangerOf(owner string, n cluster.NodeID, slots int, has ...job.Attempt) []step.Action {
	b.t.Helper()
	return b.do(step.WorkerConnected{Worker: n, Slots: slots, Executors: []string{job.ExecutorWASM}, Owner: owner, Stranger: true, Assigned: has})
}

// outside lets a job go to strangers.
func outside(s *job.Spec) { s.Permission.Outside = true }

// says is a result with that mean.
func (b *bench) says(n cluster.NodeID, id job.ID, chunk, attempt int, mean float64) []step.Action {
	b.t.Helper()
	r := &job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, M2: 10, Min: mean - 2, Max: mean + 2}}}
	return b.do(step.Result{Attempt: job.Attempt{Job: id, Chunk: chunk, Number: attempt}.At(n), Result: r, Seconds: 1})
}

func (b *bench) has(got []step.Action, parts ...string) {
	b.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text(got), part) {
			b.t.Fatalf("got:\n%s\nwant %q in it", text(got), part)
		}
	}
}

// shares lets each worker finish one attempt per round and counts these by job.
func (b *bench) shares(rounds int) map[job.ID]int {
	b.t.Helper()
	out := make(map[job.ID]int)
	for range rounds {
		b.now += time.Second
		for _, w := range b.p.roster.workers {
			if len(w.tries) == 0 {
				continue
			}
			t := w.tries[0]
			r := &job.ChunkResult{Iterations: t.iterations}
			b.do(step.Result{Attempt: t.ref(), Result: r, Seconds: 1e-3 * float64(t.iterations)})
			out[t.job.id]++
		}
	}
	return out
}

func TestOwnersShareEqually(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	for i := range 5 {
		b.add(job.ID(fmt.Sprint("many", i)), "alice", 400, nil)
	}
	b.add("one", "bob", 400, func(s *job.Spec) { s.Iterations, s.Chunk = 16000, 40 }) // four times as dear
	got := b.shares(500)
	alice := 0
	for i := range 5 {
		n := got[job.ID(fmt.Sprint("many", i))]
		if alice += n; n < 70 || n > 90 {
			t.Errorf("job %d of five got %d chunks", i, n)
		}
	}
	if bob := got["one"]; bob < 95 || bob > 105 || alice < 395 {
		t.Errorf("alice got %d chunks and bob %d, which cost four times as much", alice, bob)
	}
}

func TestPriorityAges(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("late", "o", 400, func(s *job.Spec) { s.Priority = 120 })
	b.add("soon", "o", 400, func(s *job.Spec) { s.Priority = 100 })
	got := b.shares(300)
	if got["soon"] < 250 || got["late"] < 10 || got["late"] > 25 {
		t.Errorf("the better priority got %d chunks, the other %d: it should get one in about twenty", got["soon"], got["late"])
	}
}

func TestZones(t *testing.T) {
	b := newBench(t)
	b.up("a", 2)
	b.do(step.HostKnown{Worker: "a", Zone: "fra"})
	b.want(b.add("j", "o", 1, func(s *job.Spec) { s.Zones = []string{"ams", "osl"} }))
	b.want(b.do(step.HostKnown{Worker: "a", Zone: "osl"}), "assign j to a: [{0 1}]")
}

func TestPermissions(t *testing.T) {
	b := newBench(t)
	up := func(n cluster.NodeID, owner string) {
		b.do(step.WorkerConnected{Worker: n, Slots: 9, Executors: []string{job.ExecutorWASM}, Owner: owner})
	}
	up("a", "alice")
	up("b", "bob")
	up("c", "")
	b.do(step.GroupChanged{Group: "lab", Members: []string{"bob"}})
	for _, c := range []struct {
		owner  string
		allow  job.Permission
		served string
	}{
		{"alice", job.Permission{Access: job.AccessOwner}, "a"},
		{"carl", job.Permission{Access: job.AccessOwner}, ""},
		{"alice", job.Permission{Access: job.AccessUser, Users: []string{"bob"}}, "ab"},
		{"carl", job.Permission{Access: job.AccessGroup, Groups: []string{"lab"}}, "b"},
		{"carl", job.Permission{Access: job.AccessGroup, Groups: []string{"other"}}, ""},
		{"carl", job.Permission{Access: job.AccessPublic}, "abc"},
	} {
		got := text(b.add("j", c.owner, 9, func(s *job.Spec) { s.Permission = c.allow }))
		for _, n := range []string{"a", "b", "c"} {
			if strings.Contains(got, "to "+n) != strings.Contains(c.served, n) {
				t.Errorf("%s of %+v: got\n%s\nwant it at %q", c.owner, c.allow, got, c.served)
			}
		}
		b.do(step.JobStopped{Job: "j"})
	}
	b.want(b.add("k", "carl", 1, func(s *job.Spec) {
		s.Permission = job.Permission{Access: job.AccessGroup, Groups: []string{"club"}}
	}))
	b.want(b.do(step.GroupChanged{Group: "club", Members: []string{"x", "alice"}}), "assign k to a: [{0 1}]")
}

func TestStrangersAreChecked(t *testing.T) {
	b := newBench(t)
	b.stranger("a", 1)
	b.stranger("b", 1)
	b.stranger("c", 1)
	b.want(b.add("j", "o", 1, outside), "assign j to a: [{0 1}]")
	b.want(b.says("b", "j", 0, 1, 5), "settled j/0#1 of b") // nobody asked it
	b.want(b.says("a", "j", 0, 1, 5), "assign j to b: [{0 2}]")
	b.want(b.says("a", "j", 0, 1, 5), "settled j/0#1 of a") // its own word twice is one opinion
	b.want(b.says("b", "j", 0, 2, 5), "assign j to c: [{0 3}]")
	b.want(b.says("c", "j", 0, 3, 5), "settled j/0#2 of b", "settled j/0#3 of c", "accept j/0#1 of a", "finish j completed: ")
	if got := b.p.roster.get("a", b.now).Standing; got.Agreed != 0 {
		t.Errorf("strangers make each other good: %+v", got)
	}
}

func TestDisputeIsDecidedByAThird(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.stranger("b", 1)
	b.up("c", 1)
	b.p.roster.get("b", b.now).Agreed = 5
	b.want(b.add("j", "o", 1, func(s *job.Spec) { outside(s); s.Replication.Policy = job.CheckAll }), "assign j to a: [{0 1}]")
	b.want(b.says("a", "j", 0, 1, 5), "assign j to b: [{0 2}]")
	b.has(b.says("b", "j", 0, 2, 6), "notice dispute of b", "assign j to c: [{0 3}]")
	b.has(b.says("c", "j", 0, 3, 5), "notice distrust of b", "settled j/0#2 of b", "accept j/0#1 of a", "finish j completed")
	if got := b.p.roster.get("b", b.now).Standing; got.Agreed != 0 || got.Wrong != 1 {
		t.Errorf("trust of who was wrong: %+v", got)
	}
}

func TestTrustedAreSampled(t *testing.T) {
	b := newBench(t)
	b.stranger("a", 2)
	b.stranger("b", 2)
	b.p.roster.get("a", b.now).Agreed = trust.After
	must := func(id job.ID, n cluster.NodeID, i int) bool {
		return b.p.intake.mustCheck(b.p.work.byID[id], b.p.roster.get(n, b.now), i, false)
	}
	b.add("j", "o", 4000, func(s *job.Spec) { outside(s); s.Replication.Policy = job.CheckAdaptive })
	checked := 0
	for i := range 4000 {
		if must("j", "a", i) {
			checked++
		}
	}
	if checked < 30 || checked > 100 {
		t.Errorf("%d of 4000 results of a trusted host are checked, want one to two in a hundred", checked)
	}
	for n, want := range map[job.CheckPolicy]bool{job.CheckNone: false, job.CheckAdaptive: true, job.CheckAll: true} {
		b.up("m", 1)
		b.add(job.ID(n), "o", 9, func(s *job.Spec) { s.Replication.Policy = n })
		if got := must(job.ID(n), "m", 0); got != want {
			t.Errorf("policy %q: a new member is checked: %t", n, got)
		}
	}
}

func TestUndecidedChunkIsGivenUp(t *testing.T) {
	b := newBench(t)
	for i := range trust.MaxOpinions {
		b.up(cluster.NodeID(nodeName(i)), 1)
	}
	b.add("j", "o", 1, func(s *job.Spec) { s.Replication.Policy = job.CheckAll })
	var got []step.Action
	for i := range trust.MaxOpinions {
		got = b.says(b.p.work.byID["j"].tries[0].worker.node, "j", 0, i+1, float64(i))
	}
	b.has(got, "final=true: 7 hosts computed results of which too few are the same", "finish j failed")
}

func TestAlarm(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("j", "o", 20, nil)
	for i := range results.AlarmAfter {
		b.says("a", "j", i, 1, 5+float64(i%2)/10)
	}
	if got := b.says("a", "j", results.AlarmAfter, 1, 5.2); strings.Contains(text(got), "alarm") {
		t.Errorf("alarmed by what is likely:\n%s", text(got))
	}
	b.has(b.says("a", "j", results.AlarmAfter+1, 1, 9), `notice alarm of a, job "j": chunk 9: the mean of metric "x" is 9`, "accept j/9#1")
}

func TestEarlyStop(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("j", "o", 100, func(s *job.Spec) { s.EarlyStop = job.EarlyStop{Metric: "x", RelError: 0.02, MinN: 200} })
	for i := range 19 {
		if got := text(b.says("a", "j", i, 1, 50)); strings.Contains(got, "finish") {
			t.Fatalf("chunk %d:\n%s", i, got)
		}
	}
	b.has(b.says("a", "j", 19, 1, 50), "accept j/19#1", `finish j completed: stopped early: the relative error of metric "x" is below 0.02 after 20 of 100 chunks`, "cancel j at a: []")
}

func TestJobDeadline(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.do(step.JobAdded{Job: "j", Spec: func() job.Spec { s := specOf(3, 4); s.DeadlineSeconds = 60; return s }(), Age: 20 * time.Second})
	b.good("a", "j", 0, 1)
	b.now += 39 * time.Second
	b.want(b.do(step.Tick{}))
	b.now += time.Second
	b.want(b.do(step.Tick{}), "stop j for deadline: its deadline of 1m0s has come",
		"finish j timeout: its deadline of 1m0s has come: 1 of 3 chunks accepted", "cancel j at a: []")
}

func TestStuckJob(t *testing.T) {
	b := newBench(t)
	b.add("j", "o", 3, func(s *job.Spec) { s.StuckSeconds = 30 })
	b.do(step.Tick{})
	b.now += time.Hour
	b.want(b.do(step.Tick{}), "starved j: 0 of 0 workers eligible") // it waits, and is not stuck
	b.up("a", 1)
	b.now += 29 * time.Second
	b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: 1}}})
	b.now += 29 * time.Second
	b.want(b.do(step.Tick{}))
	b.now += time.Second
	b.has(b.do(step.Tick{}), "stop j for stuck", "finish j timeout: none of its chunks got on for 30s")
}

func TestStuckAttempt(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.up("b", 1)
	b.add("j", "o", 1, func(s *job.Spec) { s.TimeoutSeconds = 3600 })
	b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: 3}}})
	b.now += 119 * time.Second
	b.want(b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: 3}}}))
	b.now += time.Second
	b.want(b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: 3}}}),
		"cancel j at a: [{0 1}]", "fail j/0#1 of a final=false: stuck: no progress for 2m0s after 3 of 10 iterations")
}

// More time is given for real progress only, and never beyond the hard timeout.
func TestExtensions(t *testing.T) {
	for _, moves := range []bool{false, true} {
		b := newBench(t)
		b.up("a", 1)
		b.add("j", "o", 1, func(s *job.Spec) { s.TimeoutSeconds, s.HardTimeoutSeconds = 60, 160 })
		start, done := b.now, uint64(1)
		b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: done}}})
		for strings.Contains(text(b.do(step.Tick{})), "fail") == false && b.now < start+time.Hour {
			b.now += time.Second
			if moves && b.now%(10*time.Second) == 0 && done < 10 {
				done++
			} else if moves {
				b.p.work.byID["j"].tries[0].Moved, b.p.work.byID["j"].tries[0].Granted = b.now, 0
			}
		}
		took := b.now - start
		if want := 90 * time.Second; !moves && took > want+51*time.Second || moves && (took < 180*time.Second || took > 195*time.Second) {
			t.Errorf("progress %t: the attempt had %s", moves, took)
		}
	}
}

// One worker never finishes its last chunks.
func TestLastChunksAreCopied(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.up("b", 1)
	b.add("j", "o", 8, nil)
	for b.p.work.byID["j"].count[accepted] < 7 {
		b.now += time.Second
		for _, w := range b.p.roster.workers {
			if len(w.tries) > 1 || w.node == "b" && len(w.tries) > 0 {
				tr := w.tries[0]
				b.good(w.node, "j", tr.chunk, tr.attempt)
			}
		}
	}
	copied := 0
	for range 20 {
		b.now += time.Second
		got := b.do(step.Tick{})
		for _, a := range got {
			if a, ok := a.(step.Assign); ok && a.Why == step.WhyEnd {
				copied += len(a.Chunks)
			}
		}
	}
	if copied != 1 {
		t.Errorf("%d copies near the end, want 1: one in twenty slots, at least one", copied)
	}
}

// slowest lets a job of 8 chunks come to where its last chunk has a copy, and
// returns the two attempts.
func (b *bench) slowest(attempts int) (first, copied job.Attempt) {
	b.t.Helper()
	b.up("a", 1)
	b.up("b", 1)
	b.add("j", "o", 8, func(s *job.Spec) { s.Attempts = attempts })
	j := b.p.work.byID["j"]
	for j.count[accepted] < 7 {
		b.now += time.Second
		for _, w := range b.p.roster.workers {
			if len(w.tries) > 1 || w.node == "b" && len(w.tries) > 0 {
				b.good(w.node, "j", w.tries[0].chunk, w.tries[0].attempt)
			}
		}
	}
	for range 20 {
		b.now += time.Second
		if b.do(step.Tick{}); len(j.tries) == 2 {
			return j.tries[0].ref(), j.tries[1].ref()
		}
	}
	b.t.Fatal("nothing was copied")
	return first, copied
}

// An attempt and its copy are one try: the chunk is not given up while one of
// them runs, and both together count once.
func TestCopiesAreOneTry(t *testing.T) {
	b := newBench(t)
	one, two := b.slowest(1)
	got := b.bad(one.Worker, "j", one.Chunk, one.Number, "exit 1")
	b.has(got, "fail j/")
	if j := b.p.work.byID["j"]; strings.Contains(text(got), "final=true") || j.chunks[one.Chunk].state != assigned {
		t.Fatalf("given up while a copy runs:\n%s", text(got))
	}
	b.has(b.good(two.Worker, "j", two.Chunk, two.Number), "accept j/", "finish j completed")

	b = newBench(t)
	one, two = b.slowest(2)
	b.bad(one.Worker, "j", one.Chunk, one.Number, "exit 1")
	b.bad(two.Worker, "j", two.Chunk, two.Number, "exit 2")
	b.now += MaxBackoff
	b.do(step.Tick{})
	j := b.p.work.byID["j"]
	if c := &j.chunks[one.Chunk]; c.failed != 1 || c.state != assigned {
		t.Fatalf("%d tries failed and the chunk is %s, want the second of two tries", c.failed, c.state)
	}
	last := j.tries[0].ref()
	b.has(b.bad(last.Worker, "j", last.Chunk, last.Number, "exit 3"), "final=true", "finish j partial")

	// The copy is lost with its worker after the failure spent the budget.
	b = newBench(t)
	one, two = b.slowest(1)
	b.bad(one.Worker, "j", one.Chunk, one.Number, "exit 1")
	b.has(b.do(step.HealthChanged{Worker: two.Worker, Health: cluster.Dead}), "final=true", "finish j partial")
}

// The next holder goes on with a copy, and with what is left of the budget.
func TestCopiesAreTakenOver(t *testing.T) {
	restored := func(failed int, tries ...job.Attempt) *bench {
		b := newBench(t)
		b.up("a", 1, tries...)
		b.do(step.JobAdded{Job: "j", Spec: specOf(1, 1), Restore: &step.Restore{Open: []step.OpenChunk{
			{Attempts: 2, Failed: failed, FailedOn: []cluster.NodeID{"b"}, Tries: tries},
		}}})
		return b
	}
	b := restored(1, job.Attempt{Job: "j", Number: 2, Worker: "a"})
	b.has(b.bad("a", "j", 0, 2, "exit 2"), "final=true")
	b = restored(2)
	b.now += MaxBackoff
	b.do(step.Tick{})
	b.has(b.good("a", "j", 0, 3), "finish j completed")
}

func TestFailingWorkerIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("j", "o", 100, nil)
	var got []step.Action
	for i := range pace.BadInARow {
		if i == 1 {
			b.up("b", 1)
		}
		tr := b.p.roster.get("a", b.now).tries[0]
		got = b.bad("a", "j", tr.chunk, tr.attempt, "no such library")
	}
	b.has(got, `notice excluded of a, job "j": left out for 10s`)
	had := len(b.p.roster.get("a", b.now).tries)
	b.good("b", "j", b.p.roster.get("b", b.now).tries[0].chunk, b.p.roster.get("b", b.now).tries[0].attempt)
	if n := len(b.p.roster.get("a", b.now).tries); n > had {
		t.Errorf("it got %d more", n-had)
	}
	b.now += 10*time.Second + MaxBackoff
	if b.do(step.Tick{}); len(b.p.roster.get("a", b.now).tries) <= had {
		t.Error("it got no other chance")
	}
}

func TestEvictionIsCapped(t *testing.T) {
	for _, all := range []bool{false, true} {
		b := newBench(t)
		for i := range 4 {
			b.up(cluster.NodeID(nodeName(i)), 1)
		}
		b.add("j", "o", 400, func(s *job.Spec) { s.TimeoutSeconds = 3600 })
		for _, w := range b.p.roster.workers {
			b.good(w.node, "j", w.tries[0].chunk, 1)
		}
		evicted := func(got []step.Action) int { return strings.Count(text(got), "notice evicted") }
		for range 119 {
			b.now += time.Second
			if !all {
				for _, w := range b.p.roster.workers[1:] {
					b.good(w.node, "j", w.tries[0].chunk, w.tries[0].attempt)
				}
			}
			if n := evicted(b.do(step.Tick{})); n > 0 {
				t.Fatal("evicted too early")
			}
		}
		b.now += 2 * time.Second
		got := b.do(step.Tick{})
		if evicted(got) != 1 {
			t.Fatalf("all stuck %t: %d evicted, want the one:\n%s", all, evicted(got), text(got))
		}
		b.has(got, "notice evicted of w00000", "cancel j at w00000", "reclaim j/")
		if !all {
			continue
		}
		b.now += evictEvery - time.Second
		if n := evicted(b.do(step.Tick{})); n != 0 {
			t.Errorf("%d more evicted before their time", n)
		}
	}
}

func TestCompletionsAreLimited(t *testing.T) {
	b := newBench(t)
	b.p = New(Config{Completions: bucket.Rate{PerSecond: 10, Burst: 20}})
	b.up("a", 4)
	b.add("j", "o", 1000, nil)
	n := 0
	for start := b.now; b.now < start+10*time.Second; b.now += 10 * time.Millisecond {
		b.do(step.Tick{})
		for _, tr := range append([]*try(nil), b.p.roster.get("a", b.now).tries...) {
			b.good("a", "j", tr.chunk, tr.attempt)
			n++
		}
	}
	if n < 110 || n > 140 {
		t.Errorf("%d results in 10 s, want 20 and 10 per second", n)
	}
	var got []step.Action
	for range 1000 {
		got = b.do(step.Result{Attempt: job.Attempt{Job: "gone", Chunk: 0, Number: 1}.At("a"), Result: resultOf("x")})
	}
	b.has(got, "offence of a: flood", "settled gone/0#1 of a")
}

func TestAdmission(t *testing.T) {
	p := New(Config{MaxJobs: 3, Owner: fair.Limits{Submits: bucket.Rate{PerSecond: 1, Burst: 2}, Chunks: bucket.Rate{PerSecond: 100, Burst: 1000}, Open: 2}})
	now := time.Hour
	add := func(id job.ID, owner string) {
		p.Step(step.JobAdded{Job: id, Spec: specOf(1, 1), Owner: owner}, now)
	}
	if p.Admit("a", 900, 1, now) != nil || p.Admit("b", 1, 1, now) != nil {
		t.Fatal("refused")
	}
	if r := p.Admit("a", 600, 1, now); r == nil || r.After != 5*time.Second || !strings.Contains(r.Error(), "a submits more chunks than 100 per second, try again in 5s") {
		t.Errorf("600 chunks more: %v", r)
	}
	if r := p.Admit("a", 100, 1, now); r != nil {
		t.Errorf("a refusal cost something: %v", r)
	}
	if r := p.Admit("a", 0, 1, now); r == nil || r.After != time.Second {
		t.Errorf("third job at once: %v", r)
	}
	now += time.Minute
	if r := p.Admit("a", 5000, 1, now); r != nil {
		t.Errorf("a job beyond the burst is never taken: %v", r)
	}
	add("j", "a")
	add("k", "a")
	if r := p.Admit("a", 1, 1, now); r == nil || !strings.Contains(r.Reason, "2 open jobs") {
		t.Errorf("third open job: %v", r)
	}
	add("l", "b")
	if r := p.Admit("c", 1, 1, now); r == nil || !strings.Contains(r.Reason, "the cluster has 3 open jobs") {
		t.Errorf("fourth open job: %v", r)
	}
}

func TestHolds(t *testing.T) {
	b := newBench(t)
	b.up("a", 2)
	b.job("j", 2, 4)
	b.now += 3 * time.Second
	holds := func(refs ...job.Attempt) []step.Action {
		b.t.Helper()
		return b.do(step.WorkerHolds{Worker: "a", Refs: refs})
	}
	b.want(holds(job.Attempt{Job: "j", Chunk: 0, Number: 1}, job.Attempt{Job: "x", Chunk: 0, Number: 1}))
	b.want(holds(job.Attempt{Job: "j", Chunk: 0, Number: 1}, job.Attempt{Job: "j", Chunk: 1, Number: 1})) // it was on its way
	b.want(holds(job.Attempt{Job: "j", Chunk: 0, Number: 1}, job.Attempt{Job: "x", Chunk: 0, Number: 1}))
	b.want(holds(job.Attempt{Job: "j", Chunk: 0, Number: 1}, job.Attempt{Job: "x", Chunk: 0, Number: 1}), `notice stray of a, job "x": it runs x/0#1, and nobody asked for that`, "cancel x at a: [{0 1}]", "cancel j at a: [{1 1}]",
		"reclaim j/1#1 of a: worker does not have it any more", "assign j to a: [{1 2}]")
}

// The slots of the workers and the rate at that kind of work give the size; see
// pace.TestChunkSize.
func TestChunkSize(t *testing.T) {
	b := newBench(t)
	b.up("a", 4)
	spec := specOf(10, 1)
	spec.TimeoutSeconds = 600
	if n := b.p.ChunkSize(spec, 0); n != 0 {
		t.Errorf("%d iterations without a measure", n)
	}
	b.add("j", "o", 10, nil)
	b.now += time.Second
	b.good("a", "j", 0, 1) // 10 iterations in a second
	spec.Iterations = 1_000_000
	if n := b.p.ChunkSize(spec, 0); n != 300 {
		t.Errorf("%d iterations, want 30 s of work", n)
	}
	spec.Iterations = 2400 // 15 s for each of 16
	if n := b.p.ChunkSize(spec, 0); n != 150 {
		t.Errorf("%d iterations, want 15 s of work", n)
	}
}

// TestMoves checks that the states that absorb do, and that each other state is
// left and reached.
func TestMoves(t *testing.T) {
	for from, row := range chunkMoves {
		for to, may := range row {
			if may && (chunkState(from) == accepted || chunkState(from) == givenUp && chunkState(to) == assigned) {
				t.Errorf("%s leads to %s", chunkState(from), chunkState(to))
			}
		}
	}
	for from, row := range jobMoves {
		for to, may := range row {
			if may && (jobState(from) > running || jobState(to) == queued) {
				t.Errorf("%s leads to %s", jobState(from), jobState(to))
			}
			if jobState(from) <= running && jobState(to) > running && !may {
				t.Errorf("%s cannot end %s", jobState(from), jobState(to))
			}
		}
	}
	for _, s := range []jobState{completed, partial, failed, cancelled, timeout} {
		if !job.State(s.String()).Final() {
			t.Errorf("the end %s is no end in the log", s)
		}
	}
}

// TestHostsAccept lets hosts narrow and widen while jobs are open: what runs goes
// on, and what is new goes where both sides agree.
func TestHostsAccept(t *testing.T) {
	b := newBench(t)
	up := func(n cluster.NodeID, owner string, a job.Acceptance, has ...job.Attempt) []step.Action {
		t.Helper()
		return b.do(step.WorkerConnected{Worker: n, Slots: 1, Credits: 1, Executors: []string{job.ExecutorWASM}, Owner: owner, Accept: a, Assigned: has})
	}
	owner := job.Acceptance{Accept: job.AcceptOwner}
	up("a", "ann", job.Acceptance{Accept: job.AcceptPublic})
	b.want(b.add("of-eve", "eve", 3, nil), "assign of-eve to a: [{0 1}]")
	b.want(b.add("of-ann", "ann", 2, nil))
	// It narrows while a chunk of eve's runs: that goes on, ann's come next.
	b.want(up("a", "ann", owner, job.Attempt{Job: "of-eve", Chunk: 0, Number: 1}))
	b.has(b.says("a", "of-eve", 0, 1, 1), "accept of-eve/0", "assign of-ann to a: [{0 1}]")
	b.has(b.says("a", "of-ann", 0, 1, 1), "assign of-ann to a: [{1 1}]")
	if got := text(b.says("a", "of-ann", 1, 1, 1)); strings.Contains(got, "assign") {
		t.Errorf("then it gets\n%s", got)
	}
	if why := b.p.Foresee(specOf(1, 1), "eve", b.now).String(); why != "0 of 1 worker eligible: a: its host does not run the jobs of eve" {
		t.Error(why)
	}
	// Another holder meets a chunk that began before.
	b.want(up("b", "bob", owner, job.Attempt{Job: "of-eve", Chunk: 1, Number: 1}), "adopt of-eve at b: [{1 1}]")
	// Its owner changes, and then it accepts everybody's again.
	b.want(b.do(step.OwnerChanged{Worker: "a", Owner: "eve", Accept: owner}), "assign of-eve to a: [{2 1}]")
	b.do(step.OwnerChanged{Worker: "a", Owner: "eve", Accept: job.Acceptance{}})
	b.do(step.OwnerChanged{Worker: "b", Owner: "bob", Accept: job.Acceptance{}})
	if b.p.roster.narrow != 0 {
		t.Errorf("%d workers narrow", b.p.roster.narrow)
	}
}
