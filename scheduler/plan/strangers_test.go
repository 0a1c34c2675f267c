package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// alien is the id of an outside worker.
func alien(i int) cluster.NodeID { return cluster.OutsideID([]byte{byte(i), byte(i >> 8)}) }

// badEnds are the ways in which an attempt ends badly.
var badEnds = map[string]func(b *bench, r job.Attempt) []step.Action{
	"error": func(b *bench, r job.Attempt) []step.Action {
		return b.bad(r.Worker, r.Job, r.Chunk, r.Number, "exit 1")
	},
	"infra": func(b *bench, r job.Attempt) []step.Action {
		return b.do(step.Result{Attempt: r, Error: "no memory", Class: job.FailedInfra})
	},
	"handed back": func(b *bench, r job.Attempt) []step.Action {
		return b.do(step.Result{Attempt: r, Error: "closed", Class: job.HandedBack})
	},
	"no number": func(b *bench, r job.Attempt) []step.Action {
		return b.do(step.Result{Attempt: r, Result: &job.ChunkResult{Iterations: 3}})
	},
	"lost": func(b *bench, r job.Attempt) []step.Action {
		return b.do(step.HealthChanged{Worker: r.Worker, Health: cluster.Dead})
	},
	"no answer": func(b *bench, r job.Attempt) []step.Action {
		b.now += time.Hour
		return b.do(step.Tick{})
	},
}

// Rule 1: however attempts at strangers end, the chunk's budget is what it was, and after
// three of them the chunk is for members.
func TestStrangersSpendNoBudget(t *testing.T) {
	for name, end := range badEnds {
		b := newBench(t)
		b.stranger(alien(0), 1)
		b.add("j", "o", 1, func(s *job.Spec) { outside(s); s.Attempts, s.Losses = 1, 1 })
		j := b.p.work.byID["j"]
		b.do(step.WorkerConnected{Worker: "m", Slots: 1, Executors: []string{job.ExecutorWASM}, Draining: true})
		for i := range trust.BadEnds {
			if len(j.tries) != 1 || j.tries[0].worker.node != alien(i) {
				t.Fatalf("%s: stranger %d has nothing", name, i)
			}
			b.stranger(alien(i+1), 1)
			got := text(end(b, j.tries[0].ref()))
			if !strings.Contains(got, "reclaim j/0") || strings.Contains(got, "fail ") || strings.Contains(got, "finish") {
				t.Fatalf("%s %d:\n%s", name, i, got)
			}
			if i == trust.BadEnds-1 {
				b.do(step.Draining{Worker: "m"}) // a member is there by now
			}
			b.now += MaxBackoff
			b.do(step.Tick{})
		}
		if c := &j.chunks[0]; c.failed != 0 || c.lost != 0 || len(j.tries) != 1 || j.tries[0].worker.node != "m" {
			t.Fatalf("%s: %d failures, %d losses, then at %v", name, c.failed, c.lost, j.tries)
		}
		// The member's own failure counts.
		b.has(b.bad("m", "j", 0, j.tries[0].attempt, "exit 1"), "final=true", "finish j failed")
	}
}

// Where no member is fit, failures of strangers count after that, and losses never do.
func TestStrangersAlone(t *testing.T) {
	for name, end := range badEnds {
		b := newBench(t)
		b.add("j", "o", 1, func(s *job.Spec) { outside(s); s.Attempts, s.Losses = 2, 1 })
		j := b.p.work.byID["j"]
		n := 0
		for ; n < 40 && b.p.work.byID["j"] != nil; n++ {
			b.stranger(alien(n), 1)
			b.now += MaxBackoff
			b.do(step.Tick{})
			if len(j.tries) > 0 {
				end(b, j.tries[0].ref())
			}
		}
		loss := name == "lost" || name == "infra" || name == "handed back"
		if ended := b.p.work.byID["j"] == nil; ended == loss || ended && n != trust.BadEnds+2 {
			t.Errorf("%s: ended %t after %d", name, ended, n)
		}
	}
}

// The next holder is told what was lost by outside workers, and does not count it.
func TestStrangersLeaveABudgetToTheNextHolder(t *testing.T) {
	b := newBench(t)
	b.up("m", 1)
	b.do(step.JobAdded{Job: "j", Spec: specOf(1, 1), Restore: &step.Restore{Open: []step.OpenChunk{
		{Attempts: 9, FailedOn: []cluster.NodeID{alien(1), alien(2), alien(3), alien(4)}, Tries: []job.Attempt{{Job: "j", Number: 9, Worker: alien(5)}}},
	}}})
	b.now += trust.Grace
	b.has(b.do(step.Tick{}), "assign j to m: [{0 10}]") // the stranger did not come
	if got := text(b.do(step.HealthChanged{Worker: alien(5), Health: cluster.Dead})); !strings.HasPrefix(got, "reclaim j/0#9") {
		t.Error(got)
	}
	b.has(b.good("m", "j", 0, 10), "finish j completed")
}

// Nor do strangers make a job hopeless that failed at one member only.
func TestStrangersMakeNoJobHopeless(t *testing.T) {
	b := newBench(t)
	b.do(step.JobAdded{Job: "j", Spec: specOf(4, 5), Restore: &step.Restore{Failures: 9, Open: []step.OpenChunk{
		{Attempts: 2, Failed: 1, FailedOn: []cluster.NodeID{alien(1), "m"}},
		{Chunk: 1, Attempts: 2, Failed: 1, FailedOn: []cluster.NodeID{alien(2), "m"}},
		{Chunk: 2},
		{Chunk: 3},
	}}})
	b.up("m", 4)
	b.up("n", 4)
	for _, tr := range slices.Clone(b.p.work.byID["j"].tries) {
		if tr.worker.node == "m" {
			b.has(b.bad("m", "j", tr.chunk, tr.attempt, "exit 1"), "final=false")
		}
	}
	if b.p.work.byID["j"] == nil {
		t.Error("it failed at m only, and n could run it")
	}
}

// Rule 2: a stranger that says that it runs something is not believed, and its result for
// what it was not given neither.
func TestStrangersAreNotMet(t *testing.T) {
	b := newBench(t)
	b.add("j", "o", 3, outside)
	b.do(step.Hold{On: true})
	made := job.Attempt{Job: "j", Chunk: 2, Number: 1}
	b.want(b.strangerOf("visitor:1", "a", 2, made), "cancel j at a: [{2 1}]")
	b.want(b.up("m", 2, made), "adopt j at m: [{2 1}]")
	b.has(b.do(step.Hold{}), "assign j to a: [{0 1}]", "assign j to m: [{1 1}]")
	for _, r := range []job.Attempt{made, {Job: "j", Chunk: 0, Number: 2}, {Job: "j", Chunk: 1, Number: 9}} {
		b.want(b.says("a", "j", r.Chunk, r.Number, 5), fmt.Sprintf("settled %s of a", r.At("")))
	}
	if c := &b.p.work.byID["j"].chunks[2]; c.check != nil {
		t.Error("it is an opinion")
	}
	// What it was given and lost meanwhile is welcome.
	b.do(step.HealthChanged{Worker: "a", Health: cluster.Dead})
	b.do(step.HealthChanged{Worker: "a", Health: cluster.Alive})
	b.says("a", "j", 0, 1, 5)
	if c := &b.p.work.byID["j"].chunks[0]; !c.check.Knows("a") {
		t.Error("a late result is lost")
	}
}

// Rule 3: which results of those that are believed are checked is secret, and the same
// history under the same salt has the same end.
func TestSaltHidesTheSample(t *testing.T) {
	run := func(salt trust.Salt) (all string, checked []int) {
		b := newBench(t)
		b.p = New(Config{Salt: salt})
		b.stranger("a", 1)
		b.p.roster.get("a", b.now).Agreed = trust.After
		b.p.roster.learn(b.p.roster.get("a", b.now))
		b.add("j", "o", 1000, outside)
		for i := range 1000 {
			got := text(b.says("a", "j", i, 1, 5))
			if all += got; !strings.Contains(got, "accept") {
				checked = append(checked, i)
			}
		}
		return all, checked
	}
	first, at := run(trust.Salt{1})
	again, _ := run(trust.Salt{1})
	_, other := run(trust.Salt{2})
	if first != again {
		t.Error("the same history has another end")
	}
	if n := len(at); n < 4 || n > 40 || slices.Equal(at, other) {
		t.Errorf("of 1000 results %v are checked, with another salt %v", at, other)
	}
}

// Rule 5: what strangers say of their time moves nothing but what the plan thinks of
// themselves, by the holder's clock, once a result counts.
func TestStrangersAreTimedByTheHolder(t *testing.T) {
	for _, seconds := range []float64{1e-9, 1e6, 7} {
		b := newBench(t)
		b.stranger("a", 1)
		b.add("j", "o", 3, func(s *job.Spec) { outside(s); s.StuckSeconds = 3600 })
		j, w := b.p.work.byID["j"], b.p.roster.get("a", b.now)
		b.now += 20 * time.Second
		idle := j.term.Idle
		r := func(n cluster.NodeID, attempt int) []step.Action {
			return b.do(step.Result{Attempt: job.Attempt{Job: "j", Number: attempt}.At(n), Result: resultOf("x"), Seconds: seconds})
		}
		r("a", 1)
		if j.kind.Measured() || j.times.Len() != 0 || w.pace.Latest() != 0 || j.term.Idle != idle {
			t.Errorf("%g: a result that does not count was measured", seconds)
		}
		b.up("m", 1)
		b.do(step.Tick{})
		r("m", 2)
		if got := w.pace.Latest(); got != 0.5 {
			t.Errorf("%g: a stranger of 10 iterations in 20 s does %g a second", seconds, got)
		}
		if n := b.p.roster.slots(""); n != 1 {
			t.Errorf("%d slots decide about the size of chunks", n)
		}
	}
	b := newBench(t)
	b.stranger("a", 1)
	b.p.roster.get("a", b.now).Agreed = trust.After
	b.add("j", "o", 3, outside)
	b.now += 4 * time.Second
	for _, a := range b.says("a", "j", 0, 1, 5) {
		if a, ok := a.(step.Accept); ok && a.Seconds != 4 {
			t.Errorf("the log hears of %g s", a.Seconds)
		}
	}
}

// Rule 6: a stranger may be away for 30 s; it gets what is for it; and many of them do not
// make a choice dear, nor hide a member.
func TestStrangersComeAndGo(t *testing.T) {
	b := newBench(t)
	b.stranger("a", 1)
	b.want(b.add("public", "o", 1, nil))
	b.want(b.add("j", "o", 1, outside), "assign j to a: [{0 1}]")
	b.up("m", 1)
	b.good("m", "public", 0, 1)
	b.do(step.WorkerDisconnected{Worker: "a"})
	b.now += trust.Grace - time.Second
	b.want(b.do(step.Tick{}))
	b.now += time.Second
	b.want(b.do(step.Tick{}), "assign j to m: [{0 2}]")

	b = newBench(t)
	for i := range 3 * maxStrangers {
		b.stranger(alien(i), 1)
	}
	b.up("m", 1)
	b.do(step.Hold{On: true})
	b.add("j", "o", 1, outside)
	j := b.p.work.byID["j"]
	c := &j.chunks[0]
	for i := range 3 * maxStrangers {
		c.avoid = append(c.avoid, alien(i)) // none of them is the first choice
	}
	if w := b.p.choice.choose(j, 0, false, b.now); w == nil || w.node != "m" {
		t.Errorf("%v hide the member", w)
	}
	// A stranger behind as many others is not found.
	b.do(step.WorkerDisconnected{Worker: "m"})
	b.do(step.HealthChanged{Worker: "m", Health: cluster.Dead})
	c.avoid = c.avoid[:0]
	n := 0
	for i := range j.class.Room().All {
		if n++; n > maxStrangers {
			break
		}
		c.avoid = append(c.avoid, b.p.roster.workers[i].node)
	}
	if w := b.p.choice.choose(j, 0, false, b.now); w != nil {
		t.Errorf("%s is behind %d candidates", w.node, maxStrangers)
	}
	c.avoid = c.avoid[1:]
	if w := b.p.choice.choose(j, 0, false, b.now); w == nil || w.node == "m" {
		t.Errorf("%v of %d candidates", w, maxStrangers)
	}
}

// One that was wrong three times gets nothing any more, also when it comes again.
func TestLiarsAreDistrusted(t *testing.T) {
	b := newBench(t)
	b.up("m", 1)
	b.add("j", "o", 40, outside)
	j := b.p.work.byID["j"]
	b.stranger(alien(1), 4)
	var last string
	for range 200 {
		b.now += time.Second
		b.do(step.Tick{})
		for _, tr := range slices.Clone(j.tries) {
			switch {
			case tr.gone:
			case tr.strange:
				b.says(tr.worker.node, "j", tr.chunk, tr.attempt, -5)
			default:
				if got := text(b.says("m", "j", tr.chunk, tr.attempt, 5)); strings.Contains(got, "offence") {
					last = got
				}
			}
		}
	}
	if !strings.Contains(last, "offence of "+string(alien(1))+": distrusted: 3 of its results were wrong") {
		t.Fatalf("it was told\n%s", last)
	}
	b.add("k", "o", 40, outside)
	b.do(step.HealthChanged{Worker: alien(1), Health: cluster.Left})
	b.do(step.WorkerDisconnected{Worker: alien(1)})
	if got := text(b.stranger(alien(1), 4)); strings.Contains(got, "assign") || b.p.roster.byNode[alien(1)].serves() {
		t.Errorf("it came again and got\n%s", got)
	}
	why, _, _ := b.p.Explain("k", b.now)
	if !slices.ContainsFunc(why.Rows(), func(r eligible.Row) bool { return r.Node == alien(1) && r.Reason == eligible.Distrusted }) {
		t.Errorf("%+v", why.Rows())
	}
}

// What a stranger sits on is copied to all free slots of members at the end of a job, not
// to few of them.
func TestMembersTakeOverFromStrangers(t *testing.T) {
	b := newBench(t)
	b.up("m", 8)
	b.stranger("a", 8)
	b.add("j", "o", 60, outside)
	j := b.p.work.byID["j"]
	began := b.now
	for b.p.work.byID["j"] != nil && b.now < began+time.Hour {
		b.now += time.Second
		for _, tr := range slices.Clone(j.tries) {
			if !tr.gone && !tr.strange && b.now-tr.started >= time.Second {
				b.good("m", "j", tr.chunk, tr.attempt)
			}
		}
		b.do(step.Tick{})
	}
	if took := b.now - began; took > 13*time.Second {
		t.Fatalf("8 slots took %s for 60 chunks of a second, of which a stranger had some", took)
	}
}
