package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/order"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// bench drives a plan and keeps what it says.
type bench struct {
	t   *testing.T
	p   *Plan
	now time.Duration
}

func newBench(t *testing.T) *bench { return &bench{t: t, p: New(Config{}), now: time.Hour} }

func (b *bench) do(e step.Event) []step.Action {
	b.t.Helper()
	out := b.p.Step(e, b.now)
	if err := b.p.Check(); err != nil {
		b.t.Fatalf("after %s: %v", e, err)
	}
	return out
}

func (b *bench) up(n cluster.NodeID, slots int, has ...job.Attempt) []step.Action {
	b.t.Helper()
	return b.do(step.WorkerConnected{Worker: n, Slots: slots, Executors: []string{job.ExecutorWASM}, Assigned: has})
}

func (b *bench) job(id job.ID, chunks, attempts int) []step.Action {
	b.t.Helper()
	return b.do(step.JobAdded{Job: id, Spec: specOf(chunks, attempts)})
}

func (b *bench) good(n cluster.NodeID, id job.ID, chunk, attempt int) []step.Action {
	b.t.Helper()
	return b.do(step.Result{Attempt: job.Attempt{Job: id, Chunk: chunk, Number: attempt}.At(n), Result: resultOf("x"), Seconds: 1})
}

func (b *bench) bad(n cluster.NodeID, id job.ID, chunk, attempt int, why string) []step.Action {
	b.t.Helper()
	return b.do(step.Result{Attempt: job.Attempt{Job: id, Chunk: chunk, Number: attempt}.At(n), Error: why})
}

func specOf(chunks, attempts int) job.Spec {
	return job.Spec{
		Key: "k", Artefact: cluster.Hash{1}, Iterations: 10 * uint64(chunks), Chunk: 10, Attempts: attempts, TimeoutSeconds: 5,
	}.WithDefaults()
}

func resultOf(names ...string) *job.ChunkResult {
	r := &job.ChunkResult{Iterations: 10, Metrics: make(map[string]job.Metric)}
	for _, n := range names {
		r.Metrics[n] = job.Metric{N: 10, Mean: 1, Min: 1, Max: 1}
	}
	return r
}

func text(actions []step.Action) string {
	var lines []string
	for _, a := range actions {
		lines = append(lines, a.String())
	}
	return strings.Join(lines, "\n")
}

func (b *bench) want(got []step.Action, want ...string) {
	b.t.Helper()
	if g, w := text(got), strings.Join(want, "\n"); g != w {
		b.t.Fatalf("got:\n%s\nwant:\n%s", g, w)
	}
}

func TestCopiesOfASuspect(t *testing.T) {
	b := newBench(t)
	b.up("a", 2)
	b.up("b", 2)
	b.job("j", 4, 4) // two each, so that b has no free slot
	b.want(b.do(step.HealthChanged{Worker: "a", Health: cluster.Suspect}))
	b.want(b.good("b", "j", 1, 1),
		"accept j/1#1 of b", "assign j to b: [{0 2}]")
	b.want(b.good("b", "j", 0, 2), // the copy comes first
		"accept j/0#2 of b", "cancel j at a: [{0 1}]", "assign j to b: [{2 2}]")
	b.want(b.good("a", "j", 2, 1), // the suspect was not dead
		"accept j/2#1 of a", "cancel j at b: [{2 2}]")
	b.want(b.good("b", "j", 2, 2), "settled j/2#2 of b")
	b.want(b.good("b", "j", 3, 1), "accept j/3#1 of b", "finish j completed: ")
}

func TestLostStreamIsCopiedAfterGrace(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 2, 4)
	b.up("b", 2)
	b.want(b.do(step.WorkerDisconnected{Worker: "a"}))
	b.now += 900 * time.Millisecond
	b.want(b.do(step.Tick{}))
	b.now += 100 * time.Millisecond
	b.want(b.do(step.Tick{}), "assign j to b: [{0 2} {1 2}]")
	b.want(b.do(step.HealthChanged{Worker: "a", Health: cluster.Dead}),
		"reclaim j/0#1 of a: worker is dead", "reclaim j/1#1 of a: worker is dead")
	b.want(b.good("a", "j", 0, 1), // late, and welcome
		"accept j/0#1 of a", "cancel j at b: [{0 2}]")
}

// TestLostAttemptsCount: what a lost worker had counts as taken back, also if a
// copy was done before the worker was dead.
func TestLostAttemptsCount(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 1, 4)
	b.up("b", 1)
	b.do(step.WorkerDisconnected{Worker: "a"})
	b.now += time.Second
	b.want(b.do(step.Tick{}), "assign j to b: [{0 2}]")
	b.want(b.good("b", "j", 0, 2), "accept j/0#2 of b",
		"reclaim j/0#1 of a: worker is lost, and a copy was accepted", "finish j completed: ")
}

func TestDeadWorkerGoesElsewhere(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 1, 4)
	b.do(step.WorkerDisconnected{Worker: "a"})
	b.want(b.do(step.HealthChanged{Worker: "a", Health: cluster.Dead}), "reclaim j/0#1 of a: worker is dead")
	b.want(b.up("b", 1), "assign j to b: [{0 2}]")
}

func TestRetryBudget(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 2, 2)
	b.good("a", "j", 1, 1)
	b.want(b.bad("a", "j", 0, 1, "exit 3"), "fail j/0#1 of a final=false: exit 3")
	b.want(b.bad("a", "j", 0, 1, "exit 3"), "settled j/0#1 of a") // said twice, counts once
	b.now += firstBackoff
	b.want(b.do(step.Tick{}), "assign j to a: [{0 2}]")
	b.want(b.bad("a", "j", 0, 2, "exit 4"), "fail j/0#2 of a final=true: exit 4",
		"finish j partial: 1 of 2 chunks given up, the last at chunk 0: exit 4")
}

func TestFailedChunkPrefersAnotherHost(t *testing.T) {
	b := newBench(t)
	b.up("a", 4)
	b.job("j", 1, 4)
	b.up("b", 1)
	b.bad("a", "j", 0, 1, "exit 1")
	b.now += firstBackoff
	b.want(b.do(step.Tick{}), "assign j to b: [{0 2}]")
	b.bad("b", "j", 0, 2, "exit 1")
	b.now += 2 * firstBackoff
	b.want(b.do(step.Tick{}), "assign j to a: [{0 3}]") // nobody is left to prefer
}

func TestFailFast(t *testing.T) {
	b := newBench(t)
	b.up("a", 8)
	b.up("b", 8)
	b.job("j", 100, 2)
	var last []step.Action
	for i := range 4 {
		n := cluster.NodeID("a")
		if b.p.work.byID["j"].chunks[i].tries[0].worker.node == "b" {
			n = "b"
		}
		last = b.bad(n, "j", i, 1, "no such module")
	}
	if got := text(last); !strings.Contains(got, "finish j failed: the first 4 attempts failed, the last at chunk 3: no such module") ||
		!strings.Contains(got, "cancel j at a") || !strings.Contains(got, "cancel j at b") {
		t.Fatalf("got:\n%s", got)
	}
}

// One broken host must not fail a job that others can do.
func TestFailFastNeedsTwoHosts(t *testing.T) {
	b := newBench(t)
	b.up("a", 8)
	b.up("b", 8)
	b.job("j", 100, 2)
	for i := range 100 {
		if c := b.p.work.byID["j"].chunks[i]; len(c.tries) == 1 && c.tries[0].worker.node == "a" {
			if got := text(b.bad("a", "j", i, 1, "broken host")); strings.Contains(got, "finish") {
				t.Fatalf("got:\n%s", got)
			}
		}
	}
}

func TestNoAnswerInTime(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 1, 1)
	b.now += 59 * time.Second
	b.want(b.do(step.Tick{}))
	b.now += time.Second
	b.want(b.do(step.Tick{}), "cancel j at a: [{0 1}]", "fail j/0#1 of a final=true: no result within 1m0s",
		"finish j failed: all 1 chunks given up, the last at chunk 0: no result within 1m0s")
}

func TestReconnect(t *testing.T) {
	b := newBench(t)
	b.up("a", 2)
	b.job("j", 3, 4) // a has all
	b.do(step.WorkerDisconnected{Worker: "a"})
	// It runs 0, forgot 1 in a restart, finished 2; it also has what nobody asked for.
	b.want(b.up("a", 2, job.Attempt{Job: "j", Chunk: 0, Number: 1}, job.Attempt{Job: "j", Chunk: 7, Number: 1}, job.Attempt{Job: "gone", Chunk: 0, Number: 1}), "cancel j at a: [{7 1}]", "cancel gone at a: [{0 1}]")
	b.want(b.good("a", "j", 2, 1), "accept j/2#1 of a")
	b.now += 2 * time.Second
	b.want(b.do(step.Tick{}), "cancel j at a: [{1 1}]", "reclaim j/1#1 of a: worker does not have it any more", "assign j to a: [{1 2}]")
}

func TestRestore(t *testing.T) {
	b := newBench(t)
	b.want(b.do(step.JobAdded{Job: "j", Spec: specOf(5, 3), Restore: &step.Restore{
		Open: []step.OpenChunk{
			{Chunk: 1, Attempts: 2, Failed: 1, FailedOn: []cluster.NodeID{"b"}, Tries: []job.Attempt{{Number: 2, Worker: "a"}}},
			{Chunk: 2, Attempts: 1, Lost: 1, FailedOn: []cluster.NodeID{"b"}},
			{Chunk: 4},
		},
		Failures: 1, Reason: "chunk 1: x", Metrics: []string{"x"},
	}}))
	b.want(b.up("a", 2, job.Attempt{Job: "j", Chunk: 1, Number: 2}, job.Attempt{Job: "j", Chunk: 4, Number: 1}), // 4 was assigned by a holder that could not log it
		"adopt j at a: [{4 1}]", "assign j to a: [{2 2}]")
	b.good("a", "j", 1, 2)
	b.good("a", "j", 4, 1)
	b.want(b.good("a", "j", 2, 2), "accept j/2#2 of a", "finish j completed: ")

	b.want(b.do(step.JobAdded{Job: "k", Spec: specOf(2, 3), Restore: &step.Restore{Open: []step.OpenChunk{{Chunk: 0}}, Stopped: true, Actor: "uid:1"}}),
		"finish k cancelled: stopped by uid:1")
	b.want(b.do(step.JobAdded{Job: "l", Spec: specOf(2, 3), Restore: &step.Restore{Open: []step.OpenChunk{{Chunk: 0, GivenUp: true}}, Reason: "chunk 0: y"}}),
		"finish l partial: 1 of 2 chunks given up, the last at chunk 0: y")
}

func TestJobsTakeTurns(t *testing.T) {
	b := newBench(t)
	b.job("j", 10, 4)
	b.job("k", 10, 4)
	b.want(b.up("a", 2), "assign j to a: [{0 1} {1 1}]", "assign k to a: [{0 1} {1 1}]")
}

func TestStarved(t *testing.T) {
	b := newBench(t)
	b.job("j", 1, 4)
	b.up("a", 0)
	b.want(b.do(step.Tick{}))
	b.now += 30 * time.Second
	b.want(b.do(step.Tick{}), "starved j: 0 of 1 worker eligible: a: not ready")
	b.now += time.Hour
	b.want(b.do(step.Tick{})) // told once
	b.want(b.up("a", 1), "assign j to a: [{0 1}]")
}

func TestStop(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 5, 4)
	b.want(b.do(step.JobStopped{Job: "j", Actor: "uid:7"}), "finish j cancelled: stopped by uid:7", "cancel j at a: []")
	b.want(b.good("a", "j", 0, 1), "settled j/0#1 of a")
	b.want(b.do(step.JobStopped{Job: "j", Actor: "uid:7"}))
}

func TestHold(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.do(step.Hold{On: true})
	if got := b.job("j", 5, 4); len(got) != 0 {
		t.Errorf("given out while held: %v", got)
	}
	if got := b.do(step.Hold{}); len(got) == 0 {
		t.Error("nothing is given out after it")
	}
}

func TestQuiesce(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 5, 4)
	b.want(b.do(step.Quiesce{}))
	b.want(b.good("a", "j", 0, 1)) // kept by the worker for the next holder
	b.want(b.up("b", 1))
}

func TestBadResults(t *testing.T) {
	finite := func(mean float64) *job.ChunkResult {
		r := resultOf("x")
		r.Metrics["x"] = job.Metric{N: 10, Mean: mean, Min: mean, Max: mean}
		return r
	}
	many := resultOf()
	for i := range job.MaxMetrics + 1 {
		many.Metrics[fmt.Sprint("m", i)] = job.Metric{N: 10}
	}
	short := resultOf("x")
	short.Iterations = 9
	for name, c := range map[string]struct {
		result *job.ChunkResult
		err    string
		want   string
	}{
		"exit code":  {err: "exit status 3", want: "exit status 3"},
		"NaN":        {result: finite(math.NaN()), want: "not finite"},
		"infinite":   {result: finite(math.Inf(-1)), want: "not finite"},
		"huge":       {result: finite(1e200), want: "is beyond"},
		"iterations": {result: short, want: "9 iterations, the chunk has 10"},
		"metrics":    {result: many, want: "1025 metrics"},
		"neither":    {want: "no result and no reason"},
	} {
		b := newBench(t)
		b.up("a", 1)
		b.job("j", 1, 1)
		got := text(b.do(step.Result{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}.At("a"), Result: c.result, Error: c.err}))
		if !strings.Contains(got, "fail j/0#1 of a final=true: ") || !strings.Contains(got, "finish j failed: ") || strings.Count(got, c.want) != 2 {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

func TestOffences(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 2, 1)
	for _, r := range []job.Attempt{{Job: "j", Chunk: -1, Number: 1}, {Job: "j", Chunk: 2, Number: 1}, {Job: "j", Chunk: math.MaxInt, Number: 1}, {Job: "j", Chunk: 0, Number: 0}, {Job: "j", Chunk: 0, Number: math.MaxInt}} {
		got := b.do(step.Result{Attempt: r.At("a"), Result: resultOf("x")})
		if _, ok := got[0].(step.Offence); !ok || len(got) != 1 {
			t.Errorf("%s: %s", r, text(got))
		}
	}
}

// Chunks times metrics is what a job's aggregates take in memory.
func TestMetricsOfAJobAreBounded(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", MaxCells/2, 4) // room for two
	b.good("a", "j", 0, 1)
	got := b.do(step.Result{Attempt: job.Attempt{Job: "j", Chunk: 1, Number: 1}.At("a"), Result: resultOf("y", "z")})
	if !strings.Contains(text(got), "fail j/1#1 of a final=false: invalid result: the job has 3 different metrics, at most 2") {
		t.Errorf("got:\n%s", text(got))
	}
	got = b.do(step.Result{Attempt: job.Attempt{Job: "j", Chunk: 2, Number: 1}.At("a"), Result: resultOf("x", "y")})
	if !strings.Contains(text(got), "accept j/2#1") {
		t.Errorf("got:\n%s", text(got))
	}
}

// A chunk that takes its host with it must not go round for ever.
func TestLossesAreBounded(t *testing.T) {
	b := newBench(t)
	b.job("j", 1, 4)
	for i := range job.DefaultLosses {
		got := b.up("a", 1)
		b.want(got, fmt.Sprintf("assign j to a: [{0 %d}]", i+1))
		b.do(step.WorkerDisconnected{Worker: "a"})
		got = b.do(step.HealthChanged{Worker: "a", Health: cluster.Dead})
		if last := i == job.DefaultLosses-1; strings.Contains(text(got), "finish j failed") != last {
			t.Fatalf("loss %d:\n%s", i+1, text(got))
		}
		b.do(step.HealthChanged{Worker: "a", Health: cluster.Alive})
	}
}

// naive is choose, said as simply as can be: the buckets of those that it may
// choose, or nobody.
func naive(p *Plan, j *openJob, index int, idle bool, now time.Duration) (least int, ok func(*worker) bool) {
	c := &j.chunks[index]
	var good, bad []*worker
	waitFor := false
	for _, w := range p.roster.byNode {
		if !w.serves() || !p.roster.classes.Allows(j.class, &w.host) || slices.ContainsFunc(c.tries, func(t *try) bool { return t.worker == w }) || c.check.Knows(w.node) {
			continue
		}
		avoid := slices.Contains(c.avoid, w.node) || w.pace.LeftOut(j.kind, now)
		waitFor = waitFor || !avoid
		if !w.hasRoom(p.cfg, now) || idle && len(w.tries) >= w.slots {
			continue
		}
		if avoid {
			bad = append(bad, w)
		} else {
			good = append(good, w)
		}
	}
	if len(good) == 0 && !waitFor {
		good = bad
	}
	if len(good) == 0 {
		return -1, func(w *worker) bool { return w == nil }
	}
	least = math.MaxInt
	for _, w := range good {
		least = min(least, order.BucketOf(w.drain()))
	}
	return least, func(w *worker) bool { return slices.Contains(good, w) && order.BucketOf(w.drain()) == least }
}

func TestChooseAgainstNaive(t *testing.T) {
	chosen, waited := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := newBench(t)
		for i := range 1 + rng.IntN(8) {
			n := cluster.NodeID(fmt.Sprintf("w%d", i))
			b.up(n, rng.IntN(4))
			if rng.IntN(5) == 0 {
				b.do(step.HealthChanged{Worker: n, Health: cluster.Suspect})
			}
		}
		b.job("j", 40, 4)
		for range 30 {
			b.now += time.Second
			var open []*try
			for _, w := range b.p.roster.workers {
				open = append(open, w.tries...)
			}
			if len(open) == 0 || b.p.work.byID["j"] == nil {
				break
			}
			tr := open[rng.IntN(len(open))]
			r := step.Result{Attempt: tr.ref(), Seconds: rng.Float64() * 5}
			if rng.IntN(4) == 0 {
				r.Error = "x"
			} else {
				r.Result = resultOf("x")
			}
			b.do(step.Hold{On: rng.IntN(2) == 0}) // so that there is room left
			b.do(r)
			if j := b.p.work.byID["j"]; j != nil {
				index, idle := rng.IntN(len(j.chunks)), rng.IntN(2) == 0
				got := b.p.choice.choose(j, index, idle, b.now)
				if least, ok := naive(b.p, j, index, idle, b.now); !ok(got) {
					t.Fatalf("seed %d: chose %+v, want one of bucket %d", seed, got, least)
				}
				if got != nil {
					chosen++
				} else {
					waited++
				}
			}
		}
	}
	if chosen < 500 || waited < 500 {
		t.Errorf("only %d choices and %d waits: the test lost its point", chosen, waited)
	}
}

func TestDeadlineFollowsTheRunTimes(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.job("j", 5, 4)
	j := b.p.work.byID["j"]
	for range 100 {
		j.times.Add(100)
	}
	if got := j.limit(b.p.cfg); got < 500*time.Second || got > 600*time.Second {
		t.Errorf("limit %s after runs of 100 s, want 5 times that", got)
	}
}

// FuzzStep reads its input as a history: four bytes are one event.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x01\x00\x02\x00\x04\x00\x00\x00\x05\x00\x00\x09"))
	f.Add([]byte{0, 0, 3, 2, 1, 0, 2, 0, 1, 1, 1, 0, 3, 0, 1, 0, 4, 0, 0, 1, 4, 1, 1, 3, 5, 0, 0, 200, 2, 0, 0, 0, 1, 0, 0, 7})
	f.Fuzz(func(t *testing.T, in []byte) {
		p, now := New(Config{}), time.Duration(0)
		names, jobs := []cluster.NodeID{"a", "b", "c"}, []job.ID{"j", "k"}
		accepts := make(map[job.Attempt]bool)
		ended := make(map[job.ID]bool)
		for ; len(in) >= 4; in = in[4:] {
			x, y, z := in[1], in[2], in[3]
			n, id := names[x%3], jobs[y%2]
			ref := job.Attempt{Job: id, Chunk: int(z % 8), Number: int(z>>3)%4 + int(x>>7)<<20}
			var e step.Event
			switch in[0] % 8 {
			case 0:
				if ended[id] {
					continue // ids are never used again
				}
				e = step.JobAdded{Job: id, Spec: specOf(1+int(z%7), 1+int(x%4))}
			case 1:
				e = step.WorkerConnected{Worker: n, Slots: int(z % 4), Executors: []string{job.ExecutorWASM}, Assigned: []job.Attempt{ref, ref}}
			case 2:
				e = step.WorkerDisconnected{Worker: n}
			case 3:
				e = step.HealthChanged{Worker: n, Health: []cluster.Health{cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left}[y%4]}
			case 4, 5:
				r := step.Result{Attempt: ref.At(n), Seconds: float64(z) - 1}
				if y&4 == 0 {
					r.Result = resultOf("x")
				} else {
					r.Error = "exit 1"
				}
				e = r
			case 6:
				e = step.JobStopped{Job: id}
			case 7:
				now += time.Duration(z) * time.Second
				e = step.Tick{}
			}
			for _, a := range p.Step(e, now) {
				switch a := a.(type) {
				case step.Accept:
					a.Number = 0
					if accepts[a.Attempt] || ended[a.Job] {
						t.Fatalf("%s: %s, which is closed", e, a)
					}
					accepts[a.Attempt] = true
				case step.Finish:
					if ended[a.Job] {
						t.Fatalf("%s: %s again", e, a)
					}
					ended[a.Job] = true
				case step.Assign:
					if ended[a.Job] {
						t.Fatalf("%s: %s, which has ended", e, a)
					}
				}
			}
			if err := p.Check(); err != nil {
				t.Fatalf("after %s: %v", e, err)
			}
		}
	})
}

func BenchmarkStep(b *testing.B) {
	p := New(Config{})
	for i := range 50 {
		p.Step(step.WorkerConnected{Worker: cluster.NodeID(fmt.Sprintf("w%d", i)), Slots: 4, Executors: []string{job.ExecutorWASM}}, 0)
	}
	type at struct {
		ref job.Attempt
		w   cluster.NodeID
	}
	var queue []at
	take := func(actions []step.Action) {
		for _, a := range actions {
			if a, ok := a.(step.Assign); ok {
				for _, c := range a.Chunks {
					queue = append(queue, at{job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number}, a.Worker})
				}
			}
		}
	}
	n, r := 0, resultOf("x")
	for b.Loop() {
		if len(queue) == 0 {
			n++
			take(p.Step(step.JobAdded{Job: job.ID(fmt.Sprint("j", n)), Spec: specOf(100000, 4)}, 0))
		}
		q := queue[0]
		queue = queue[1:]
		take(p.Step(step.Result{Attempt: q.ref.At(q.w), Result: r, Seconds: 1}, 0))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}

// What a worker could not run, or gave back, says nothing of the work: it is
// taken back and tried elsewhere, and counts as no failure.
func TestNoVerdictIsNoFailure(t *testing.T) {
	for _, class := range []job.FailureClass{job.FailedInfra, job.HandedBack} {
		b := newBench(t)
		b.up("a", 1)
		b.want(b.job("j", 1, 1), "assign j to a: [{0 1}]")
		b.up("b", 1)
		got := b.do(step.Result{Attempt: job.Attempt{Job: "j", Number: 1}.At("a"), Error: "worker stops", Class: class})
		b.want(got, "reclaim j/0#1 of a: worker stops", "settled j/0#1 of a", "assign j to b: [{0 2}]")
		b.want(b.good("b", "j", 0, 2), "accept j/0#2 of b", "finish j completed: ")
	}
}

// A draining worker gets nothing new, and its results count.
func TestDraining(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.want(b.job("j", 3, 1), "assign j to a: [{0 1} {1 1}]")
	b.want(b.do(step.Draining{Worker: "a", On: true}))
	b.want(b.good("a", "j", 0, 1), "accept j/0#1 of a")
	b.want(b.do(step.Draining{Worker: "a"}), "assign j to a: [{2 1}]")
	b.want(b.do(step.WorkerConnected{Worker: "c", Slots: 4, Executors: []string{job.ExecutorWASM}, Draining: true}))
}

// A program runs only where it is allowed.
func TestProgramsAreNeeds(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	spec := specOf(1, 1)
	spec.Executor, spec.Program, spec.Artefact = job.ExecutorExec, "render", cluster.Hash{}
	b.want(b.do(step.JobAdded{Job: "j", Spec: spec}))
	b.want(b.do(step.WorkerConnected{Worker: "b", Slots: 1, Executors: []string{job.ExecutorWASM, "exec:other"}}))
	b.want(b.do(step.WorkerConnected{Worker: "c", Slots: 1, Executors: []string{"exec:render"}}), "assign j to c: [{0 1}]")
}
