package plan

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// extend holds an answer to an attempt that asked for more time against what its job allows.
func (w *twin) extend(j *twinJob, a step.Extend) {
	if j.open[a.Chunk][a.Number] != a.Worker || (a.Given > 0) == (a.Denied != "") || a.Given > a.Asked {
		w.fatalf("%s: no such attempt is open, or it got too much", a)
	}
	w.extended[a.Attempt] += a.Given
	if most := j.spec.HardTimeout() - j.spec.Timeout(); w.extended[a.Attempt] > most {
		w.fatalf("%s: %s more, at most %s are allowed", a, w.extended[a.Attempt], most)
	}
	w.answers[a.Given > 0]++
}

// TestMoreTime: an attempt that asks for more time has it on top of its deadline, and is
// not called stuck meanwhile; without progress it gets nothing; what it got is the
// extension of that progress.
func TestMoreTime(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("j", "o", 1, func(s *job.Spec) { s.TimeoutSeconds, s.HardTimeoutSeconds = 600, 6000 })
	n := 0
	tell := func(done uint64, ask time.Duration) []step.Action {
		p := step.Progress{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: done}
		if ask > 0 {
			n++
			p.Ask = &step.Ask{Number: n, For: ask, Reason: "a large frame"}
		}
		return b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{p}})
	}
	start := b.now
	b.want(tell(0, time.Minute), `extend j/0#1 of a by 0s of 1m0s for "a large frame": it has shown no progress`)
	b.want(tell(2, 1e9*time.Second), `extend j/0#1 of a by 5m0s of 277777h46m40s for "a large frame": `)
	n--
	b.want(tell(2, time.Minute)) // told once more
	b.want(tell(2, time.Minute), `extend j/0#1 of a by 0s of 1m0s for "a large frame": it has shown no progress since the last extension`)
	for b.now < start+299*time.Second { // beyond what is stuck otherwise
		b.now += time.Second
		b.want(tell(2, 0))
	}
	b.want(tell(3, 10*time.Second), `extend j/0#1 of a by 10s of 10s for "a large frame": `)
	over := start + (600+30+300+10)*time.Second
	for b.now < over-time.Second {
		b.now += time.Second
		b.p.work.byID["j"].tries[0].Moved = b.now // else it is stuck
		b.want(b.do(step.Tick{}))
	}
	b.now += time.Second // no progress since: it has no other extension
	b.want(b.do(step.Tick{}), "cancel j at a: [{0 1}]", "fail j/0#1 of a final=false: no result within 15m40s")
}

// TestStrain: of workers that would be done at the same time that of a host with more to do than usual
// comes later.
func TestStrain(t *testing.T) {
	w := &worker{capacity: capacity{slots: 2}, queue: queue{load: 3 * time.Second, unit: time.Second}}
	calm := w.drain()
	if w.strain = 1; w.drain() != calm*3/2 || calm != uint64(2*time.Second) {
		t.Errorf("%d and %d", calm, w.drain())
	}
}
