package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// takeover is workers of one slot each and of known speed under one holder after
// another. A worker goes on without a holder, and keeps its results for the next.
type takeover struct {
	t     *testing.T
	p     *Plan
	spec  job.Spec
	now   time.Duration
	names []cluster.NodeID
	speed map[cluster.NodeID]float64 // iterations per second
	queue map[cluster.NodeID][]job.Attempt
	ends  map[cluster.NodeID]time.Duration // of the first in the queue
	kept  []step.Result
	done  map[int]bool // chunks with a result that was accepted
	tried map[int]int  // chunks, and their latest attempt
	given map[cluster.NodeID]int
}

func (o *takeover) size() uint64 { return o.spec.Chunk }

func (o *takeover) takes(n cluster.NodeID) time.Duration {
	return time.Duration(float64(o.size()) / o.speed[n] * float64(time.Second))
}

// step has the plan take in one event and looks at what it says of the workers.
func (o *takeover) step(e step.Event) {
	o.t.Helper()
	for _, a := range o.p.Step(e, o.now) {
		switch a := a.(type) {
		case step.Assign:
			for _, c := range a.Chunks {
				o.tried[c.Chunk] = max(o.tried[c.Chunk], c.Number)
				o.given[a.Worker]++
				o.queue[a.Worker] = append(o.queue[a.Worker], job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number, Worker: a.Worker})
				if len(o.queue[a.Worker]) == 1 {
					o.ends[a.Worker] = o.now + o.takes(a.Worker)
				}
			}
		case step.Accept:
			o.done[a.Chunk] = true
		}
	}
	for _, v := range o.p.Workers() {
		if v.Rate != 0 && (v.Rate < o.speed[v.Worker]*0.9 || v.Rate > o.speed[v.Worker]*1.1) {
			o.t.Fatalf("after %s: %s works at %g/s and is said to work at %g/s", e, v.Worker, o.speed[v.Worker], v.Rate)
		}
	}
}

// run lets time pass, in hundredths of a second; without a holder results are kept.
func (o *takeover) run(d time.Duration, holder bool) {
	o.t.Helper()
	for end := o.now + d; o.now < end; {
		o.now += 10 * time.Millisecond
		for _, n := range o.names {
			for len(o.queue[n]) > 0 && o.ends[n] <= o.now {
				r := step.Result{Attempt: o.queue[n][0], Result: &job.ChunkResult{Iterations: o.size()}, Seconds: o.takes(n).Seconds()}
				o.queue[n] = o.queue[n][1:]
				o.ends[n] += o.takes(n)
				if holder {
					o.step(r)
				} else {
					o.kept = append(o.kept, r)
				}
			}
		}
		if holder {
			o.step(step.Tick{})
		}
	}
}

// begin makes another holder, which knows what the log knows.
func (o *takeover) begin(logged bool) {
	o.t.Helper()
	o.p, o.given = New(Config{}), make(map[cluster.NodeID]int)
	restore := &step.Restore{}
	for i := range o.spec.Chunks() {
		if o.done[i] {
			continue
		}
		c := step.OpenChunk{Chunk: i, Attempts: o.tried[i]}
		has := func(r job.Attempt) {
			if r.Chunk == i && logged {
				c.Tries = append(c.Tries, r)
			}
		}
		for _, n := range o.names {
			for _, r := range o.queue[n] {
				has(r)
			}
		}
		for _, r := range o.kept {
			has(r.Attempt)
		}
		restore.Open = append(restore.Open, c)
	}
	o.step(step.JobAdded{Job: "j", Spec: o.spec, Owner: "o", Restore: restore})
	for _, n := range o.names {
		o.step(step.WorkerConnected{Worker: n, Slots: 1, Executors: []string{job.ExecutorWASM}, Assigned: slices.Clone(o.queue[n])})
		for _, r := range o.kept {
			if r.Worker == n {
				o.step(r)
			}
		}
	}
	o.kept = nil
}

// A new holder takes no worker for faster or slower than it is, whatever it finds
// running and kept, and soon gives each what its speed is worth.
func TestTakeoverMeasuresWhatItSaw(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 8))
		o := &takeover{
			t: t, now: time.Hour, names: []cluster.NodeID{"a", "b", "c"}[:2+rng.IntN(2)],
			speed: make(map[cluster.NodeID]float64), queue: make(map[cluster.NodeID][]job.Attempt), ends: make(map[cluster.NodeID]time.Duration),
			done: make(map[int]bool), tried: make(map[int]int),
		}
		o.spec = job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 1000 * 1000, Chunk: 1000}.WithDefaults()
		sum := 0.0
		for _, n := range o.names {
			o.speed[n] = 400 + 4000*rng.Float64()
			sum += o.speed[n]
		}
		o.begin(true)
		for range 2 {
			o.run(time.Duration(5000+rng.IntN(5000))*time.Millisecond, true)
			o.run(time.Duration(rng.IntN(4000))*time.Millisecond, false)
			o.begin(rng.IntN(3) > 0)
		}
		o.run(40*time.Second, true)
		all := 0
		for _, n := range o.names {
			all += o.given[n]
		}
		for _, v := range o.p.Workers() {
			if v.Rate == 0 {
				t.Errorf("seed %d: %s was never measured", seed, v.Worker)
			}
			want := float64(all) * o.speed[v.Worker] / sum
			if got := float64(o.given[v.Worker]); got < 0.8*want-4 || got > 1.2*want+4 {
				t.Errorf("seed %d: %s got %g of %d chunks, its speed is worth %.0f", seed, v.Worker, got, all, want)
			}
		}
	}
}

// What workers say of attempts that run tells how fast they are, before there is a
// result; of one that was found running only what is done since it was found.
func TestRunningIsMeasured(t *testing.T) {
	b := newBench(t)
	spec := specOf(3, 3)
	spec.Iterations, spec.Chunk = 3000, 1000
	b.do(step.JobAdded{Job: "j", Spec: spec, Restore: &step.Restore{Open: []step.OpenChunk{
		{Chunk: 0, Attempts: 1, Tries: []job.Attempt{{Number: 1, Worker: "a"}}}, {Chunk: 1}, {Chunk: 2},
	}}})
	b.up("a", 1, job.Attempt{Job: "j", Chunk: 0, Number: 1})
	says := func(done uint64) plannedRun {
		b.do(step.WorkerStatus{Worker: "a", Ready: true, Progress: []step.Progress{{Attempt: job.Attempt{Job: "j", Chunk: 0, Number: 1}, Done: done}}})
		v := b.p.Workers()[0]
		if len(v.Running) != 1 {
			t.Fatalf("%+v", v.Running)
		}
		return plannedRun{v.Running[0], v.Rate}
	}
	if got := says(700); got.Rate != 0 || got.worker != 0 || got.Attempts != 1 || got.Done != 700 {
		t.Errorf("at first: %+v", got)
	}
	b.now += 2 * time.Second
	if got := says(720); got.Rate != 10 || got.worker != 10 || got.Measured != 1 || got.Done != 720 {
		t.Errorf("after 20 iterations in 2 s: %+v", got)
	}
	if d := b.p.Workers()[0].Drain; d != 128*time.Second { // 280 of one and 1000 of another
		t.Errorf("1280 iterations at 10 per second take %s", d)
	}
	b.now += 38 * time.Second
	if got := says(720); got.Rate != 0.5 {
		t.Errorf("after 38 s of nothing: %+v", got)
	}
}

// plannedRun is what a worker is said to run, and how fast it is.
type plannedRun struct {
	pace.Running
	worker float64
}
