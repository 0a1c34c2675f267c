package plan

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// TestSpread lets many workers of different speeds work at jobs that follow each
// other, so that there is always about half as much to do as all together would
// take, and looks at how evenly they are loaded: the coefficient of variation of
// the times until they are done must stay below 0.1. The workers are far away,
// so that the choice and not their windows decides.
func TestSpread(t *testing.T) {
	workers, end := 200, 40*time.Second
	if prove() {
		workers, end = 10_000, 28*time.Second
	}
	const each, size = 15, 200 // chunks per worker, iterations of each
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	p := New(Config{})
	rng := rand.New(rand.NewPCG(7, 7))
	type run struct {
		ref    job.Attempt
		worker cluster.NodeID
	}
	speed := make(map[cluster.NodeID]float64, workers) // iterations per second of a slot
	slots := make(map[cluster.NodeID]int, workers)
	queue := make(map[cluster.NodeID][]job.Attempt, workers)
	busy := make(map[cluster.NodeID]int, workers)
	done := make(map[time.Duration][]run) // by tenths of a second
	now := time.Duration(0)
	const tick = 100 * time.Millisecond
	begin := func(n cluster.NodeID) {
		for busy[n] < slots[n] && len(queue[n]) > 0 {
			r := queue[n][0]
			queue[n] = queue[n][1:]
			busy[n]++
			d := time.Duration(size / speed[n] * float64(time.Second))
			at := (now + max(d, tick)).Truncate(tick)
			done[at] = append(done[at], run{r, n})
		}
	}
	steps, assigned, finished, jobs := 0, 0, 0, 0
	carry := func(actions []step.Action) {
		steps++
		for _, a := range actions {
			if a, ok := a.(step.Assign); ok {
				for _, c := range a.Chunks {
					queue[a.Worker] = append(queue[a.Worker], job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number})
				}
				assigned += len(a.Chunks)
				begin(a.Worker)
			}
		}
	}
	submit := func(chunks int) {
		jobs++
		spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: size * uint64(chunks), Chunk: size}.WithDefaults()
		carry(p.Step(step.JobAdded{Job: job.ID(nodeName(jobs)), Spec: spec, Owner: "o"}, now))
	}
	for i := range workers {
		n := cluster.NodeID(nodeName(i))
		speed[n], slots[n] = 50+150*rng.Float64(), 4
		carry(p.Step(step.WorkerConnected{Worker: n, Slots: 4, Credits: 1000, Executors: []string{job.ExecutorWASM}}, now))
		carry(p.Step(step.RoundTrip{Worker: n, Time: 10 * time.Second}, now))
	}
	submit(each * workers)
	worst, measured := 0.0, 0
	for now < end {
		now += tick
		for _, r := range done[now] {
			finished++
			busy[r.worker]--
			res := &job.ChunkResult{Iterations: size}
			carry(p.Step(step.Result{Attempt: r.ref.At(r.worker), Result: res, Seconds: size / speed[r.worker]}, now))
			begin(r.worker)
		}
		delete(done, now)
		carry(p.Step(step.Tick{}, now))
		if finished > 0 {
			submit(finished)
			finished = 0
		}
		if now >= 25*time.Second && now%time.Second == 0 { // all know the rates
			worst = max(worst, variation(p))
			measured++
		}
	}
	runtime.ReadMemStats(&after)
	took := time.Since(start)
	t.Logf("%d workers, %d chunks: worst coefficient of variation of the time to drain %.3f in %d looks; %d steps in %s (%.0f chunks/s), %.0f MiB in use, %.0f bytes allocated per chunk",
		workers, assigned, worst, measured, steps, took.Round(time.Millisecond), float64(assigned)/took.Seconds(),
		float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), float64(after.TotalAlloc-before.TotalAlloc)/float64(assigned))
	if measured == 0 || worst >= 0.1 {
		t.Errorf("coefficient of variation %.3f in %d looks, want below 0.1", worst, measured)
	}
}

// variation is the coefficient of variation of the times to drain.
func variation(p *Plan) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, v := range p.Workers() {
		d := v.Drain.Seconds()
		n, sum, squares = n+1, sum+d, squares+d*d
	}
	mean := sum / n
	return math.Sqrt(max(0, squares/n-mean*mean)) / mean
}
