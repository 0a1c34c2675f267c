package scheduler

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/settle"
)

// world is a cluster around the plan: a log whose unstable end a crash may
// cut off, and workers that die, lie, forget, repeat and come back.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Duration
	term    cluster.Term
	events  []event.Event // one chain stands for all
	stable  int
	st      *state.State
	plan    *plan.Plan
	workers map[cluster.NodeID]*modelWorker
	names   []cluster.NodeID
	jobs    []event.JobSubmitted // acknowledged: stable
	waiting []settle.Settlement
	old     []step.Result // results that may be repeated at any time
	healed  bool
	strange int // accepted results of outside workers
	trace   []string
}

type modelWorker struct {
	node      cluster.NodeID
	slots     int
	connected bool // as the plan was told
	reachable bool // what the plan sends arrives
	health    cluster.Health
	queue     []job.Attempt
	kept      []step.Result
	owner     string // of an outside worker; "": it is a member
	lies      bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 9)), st: state.New(), workers: make(map[cluster.NodeID]*modelWorker)}
	for i := range 2 + w.rng.IntN(4) {
		n := cluster.NodeID(fmt.Sprintf("w%d", i))
		w.names = append(w.names, n)
		w.workers[n] = &modelWorker{node: n, slots: 1 + w.rng.IntN(3), health: cluster.Alive}
	}
	for i, owner := range []string{"visitor:1", "visitor:1", "visitor:2", "visitor:3"} {
		n := cluster.OutsideID([]byte{byte(i)})
		w.names = append(w.names, n)
		w.workers[n] = &modelWorker{node: n, slots: 1 + w.rng.IntN(3), health: cluster.Alive, owner: owner, lies: owner == "visitor:1"}
	}
	w.newTerm()
	return w
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// newTerm is a new holder: what was not stable may be lost.
func (w *world) newTerm() {
	keep := w.stable
	if len(w.events) > keep {
		keep += w.rng.IntN(len(w.events) - keep + 1)
	}
	w.events = w.events[:keep]
	w.stable = keep
	w.st.Refold(nil, slices.Values(w.events))
	w.term++
	w.waiting = nil
	w.trace = append(w.trace, fmt.Sprintf("--- term %d", w.term))
	w.plan = plan.New(plan.Config{Salt: trust.Salt{byte(w.term)}})
	for _, n := range w.names {
		w.workers[n].connected, w.workers[n].reachable = false, false
	}
	for _, j := range w.st.Jobs() {
		if !j.State.Final() {
			w.do(addedOf(w.st, j.ID))
		}
	}
	for _, n := range w.names {
		w.do(step.HealthChanged{Worker: n, Health: w.workers[n].health})
	}
}

func (w *world) log(d event.Draft) {
	b, err := json.Marshal(d.Body)
	if err != nil {
		w.fatalf("%s: %v", d.Kind, err)
	}
	e := event.Event{
		Source: event.SourceID{Node: "h", Inc: 1}, Seq: uint64(len(w.events) + 1), HLC: cluster.HLC(len(w.events) + 1),
		Term: d.Term, Kind: d.Kind, Body: b,
	}
	w.events = append(w.events, e)
	if w.st.Apply(e) {
		w.fatalf("rebuild")
	}
}

func (w *world) do(e step.Event) {
	w.trace = append(w.trace, fmt.Sprintf("%s %s", w.now, e))
	for _, a := range w.plan.Step(e, w.now) {
		w.trace = append(w.trace, "    "+a.String())
		if d, ok := draftOf(w.term, a); ok {
			w.log(d)
		}
		w.act(a)
	}
	if err := w.plan.Check(); err != nil {
		w.fatalf("after %s: %v", e, err)
	}
}

func (w *world) act(action step.Action) {
	switch a := action.(type) {
	case step.Assign:
		m := w.workers[a.Worker]
		if !m.connected || m.health == cluster.Suspect || m.health == cluster.Dead {
			w.fatalf("%s, which is %s, connected %v", a, m.health, m.connected)
		}
		views := w.plan.Workers()
		i := slices.IndexFunc(views, func(v plan.WorkerView) bool { return v.Worker == a.Worker })
		if v := views[i]; len(a.Chunks) > 2*m.slots && len(a.Chunks) > 2 || v.Tries > max(2, 2*m.slots) && a.Copies == 0 {
			w.fatalf("%s: beyond the window of %d slots: %+v", a, m.slots, v)
		}
		if m.reachable {
			for _, c := range a.Chunks {
				m.queue = append(m.queue, job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number})
			}
		}
	case step.Adopt:
		if cluster.IsOutside(a.Worker) {
			w.fatalf("%s: it was not given to it", a)
		}
	case step.Accept:
		w.settle(a.Attempt)
	case step.Fail:
		w.settle(a.Attempt)
	case step.Settled:
		w.settle(a.Attempt)
	case step.Cancel:
		if m := w.workers[a.Worker]; m.reachable {
			hit := func(r job.Attempt) bool {
				return r.Job == a.Job && (len(a.Chunks) == 0 || slices.Contains(a.Chunks, job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: a.Worker}))
			}
			m.queue = slices.DeleteFunc(m.queue, hit)
			m.kept = slices.DeleteFunc(m.kept, func(r step.Result) bool { return hit(r.Attempt) })
		}
	}
}

func (w *world) settle(a job.Attempt) {
	w.waiting = append(w.waiting, settle.Settlement{Seq: uint64(len(w.events)), Attempt: a})
}

// stabilise makes all that is logged stable and tells the workers.
func (w *world) stabilise() {
	w.stable = len(w.events)
	for _, s := range w.waiting {
		if m, ok := w.workers[s.Attempt.Worker]; ok && m.reachable {
			m.kept = slices.DeleteFunc(m.kept, func(r step.Result) bool { return r.Attempt == s.Attempt })
		}
	}
	w.waiting = nil
}

func (w *world) submit() {
	n := uint64(1 + w.rng.IntN(200))
	spec := job.Spec{
		Policy: job.Policy{Permission: job.Permission{Outside: w.rng.IntN(4) > 0}},
		Key:    fmt.Sprint(len(w.jobs)), Artefact: cluster.Hash{1}, Iterations: n, Chunk: 1 + uint64(w.rng.IntN(int(n))),
		Attempts: 1 + w.rng.IntN(4), TimeoutSeconds: float64(1 + w.rng.IntN(100)),
	}.WithDefaults()
	if w.rng.IntN(2) == 0 {
		spec.Chunk = max(1, n/20)
	}
	b := event.JobSubmitted{Job: job.NewID("uid:1", spec.Key), Spec: spec, Owner: "uid:1", Chunks: spec.Chunks()}
	w.jobs = append(w.jobs, b)
	w.log(event.Draft{Term: w.term, Kind: event.KindJobSubmitted, Body: b})
	w.do(step.JobAdded{Job: b.Job, Spec: spec, Owner: b.Owner})
	w.stabilise()
}

// run lets a worker finish an attempt, in its way.
func (w *world) run(m *modelWorker) {
	if len(m.queue) == 0 {
		return
	}
	r := m.queue[0]
	m.queue = m.queue[1:]
	out := step.Result{Attempt: r.At(m.node), Seconds: w.rng.Float64() * 10}
	i := slices.IndexFunc(w.jobs, func(b event.JobSubmitted) bool { return b.Job == r.Job })
	_, n := w.jobs[i].Spec.ChunkRange(r.Chunk)
	res := job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{"x": {N: n, Mean: float64(r.Chunk), Min: float64(r.Chunk), Max: float64(r.Chunk)}}}
	what := w.rng.IntN(20)
	if w.healed {
		what = 0
	}
	if m.lies {
		res.Metrics["x"] = job.Metric{N: n, Mean: -1, Min: -1, Max: -1}
	}
	switch what {
	case 15:
		out.Error = "exit 1"
	case 16:
		res.Iterations++
		out.Result = &res
	case 17:
		res.Metrics["x"] = job.Metric{N: n, Mean: math.NaN()}
		out.Result = &res
	case 18:
		return // never heard of again
	case 19:
		out.Seconds = []float64{0, -1, math.Inf(1), 1e300}[w.rng.IntN(4)]
		out.Result = &res
	default:
		out.Result = &res
	}
	m.kept = append(m.kept, out)
	w.old = append(w.old, out)
	if m.connected && m.reachable {
		w.do(out)
	}
}

func (w *world) connect(m *modelWorker) {
	m.connected, m.reachable = true, true
	e := step.WorkerConnected{Worker: m.node, Slots: m.slots, Executors: []string{job.ExecutorWASM}, Assigned: slices.Clone(m.queue), Owner: m.owner, Stranger: m.owner != ""}
	if m.lies && len(w.jobs) > 0 { // it would choose its chunks
		e.Assigned = append(e.Assigned, job.Attempt{Job: w.jobs[w.rng.IntN(len(w.jobs))].Job, Chunk: w.rng.IntN(20), Number: 1 + w.rng.IntN(3)})
	}
	w.do(e)
	for _, r := range slices.Clone(m.kept) {
		w.do(r)
	}
}

func (w *world) any() *modelWorker { return w.workers[w.names[w.rng.IntN(len(w.names))]] }

// chaos does one thing that happens.
func (w *world) chaos() {
	m := w.any()
	switch w.rng.IntN(24) {
	case 0:
		if len(w.jobs) < 6 {
			w.submit()
		}
	case 1:
		m.reachable = false // broken, and nobody knows yet
	case 2, 3:
		if m.connected {
			m.connected, m.reachable = false, false
			w.do(step.WorkerDisconnected{Worker: m.node})
		}
	case 4, 5, 6:
		w.connect(m)
	case 7:
		if w.rng.IntN(4) == 0 {
			m.kept = nil // its disk is lost too
		}
		m.queue, m.connected, m.reachable = nil, false, false
		w.do(step.WorkerDisconnected{Worker: m.node})
	case 8, 9:
		m.health = []cluster.Health{cluster.Alive, cluster.Alive, cluster.Suspect, cluster.Dead}[w.rng.IntN(4)]
		w.do(step.HealthChanged{Worker: m.node, Health: m.health})
	case 10:
		if w.rng.IntN(4) == 0 {
			w.newTerm()
		}
	case 11:
		w.stabilise()
	case 12:
		if len(w.old) > 0 {
			w.do(w.old[w.rng.IntN(len(w.old))]) // said again
		}
	case 13:
		if len(w.jobs) > 0 && w.rng.IntN(10) == 0 {
			j := w.jobs[w.rng.IntN(len(w.jobs))].Job
			if v, ok := w.st.Job(j); ok && !v.State.Final() {
				w.log(event.Draft{Term: w.term, Kind: event.KindJobStopped, Body: event.JobStopped{Job: j, Actor: "x"}})
				w.do(step.JobStopped{Job: j, Actor: "x"})
			}
		}
	case 14:
		w.now += time.Duration(w.rng.Int64N(int64(2 * time.Minute)))
		w.do(step.Tick{})
	case 15:
		j := job.ID("j-unknown")
		if len(w.jobs) > 0 {
			j = w.jobs[0].Job
		}
		w.do(step.Result{Attempt: job.Attempt{Job: j, Chunk: w.rng.IntN(400) - 100, Number: w.rng.IntN(5) - 1, Worker: m.node}, Error: "made up"})
	default:
		w.now += time.Duration(w.rng.Int64N(int64(time.Second)))
		w.run(m)
		w.do(step.Tick{})
	}
}

// heal makes everything work again and waits for the end of all jobs.
func (w *world) heal() {
	w.healed = true
	for _, n := range w.names {
		m := w.workers[n]
		m.health = cluster.Alive
		w.do(step.HealthChanged{Worker: n, Health: cluster.Alive})
		w.connect(m)
	}
	for range 20000 {
		open := false
		for _, j := range w.st.Jobs() {
			open = open || !j.State.Final()
		}
		if !open {
			return
		}
		w.now += 100 * time.Millisecond
		for _, n := range w.names {
			w.run(w.workers[n])
		}
		w.do(step.Tick{})
	}
	w.fatalf("jobs hang: %+v", w.st.Jobs())
}

// verify checks what was promised: each chunk counts once, and ends are true.
func (w *world) verify() {
	type cell struct {
		job   job.ID
		chunk int
	}
	accepts := make(map[cell]int)
	ends := make(map[job.ID]int)
	spent := make(map[cell]int)   // by members: failures, and losses
	strange := make(map[cell]int) // bad ends at outside workers
	for _, e := range w.events {
		switch e.Kind {
		case event.KindChunksAccepted:
			var b event.ChunksAccepted
			if err := json.Unmarshal(e.Body, &b); err != nil {
				w.fatalf("%v", err)
			}
			for _, a := range b.Accepts {
				at := cell{b.Job, a.Chunk}
				if accepts[at]++; accepts[at] > 1 || ends[b.Job] > 0 {
					w.fatalf("chunk %s/%d accepted twice or after the end", b.Job, a.Chunk)
				} // one that was given up may still come while the job is open
				if m, ok := a.Result.Metrics["x"]; ok && m.Mean != float64(a.Chunk) {
					w.fatalf("chunk %s/%d: the result of %s is wrong, and counts", b.Job, a.Chunk, a.Worker)
				}
				if cluster.IsOutside(a.Worker) {
					w.strange++
				}
			}
		case event.KindChunkReclaimed:
			var b event.ChunkReclaimed
			if err := json.Unmarshal(e.Body, &b); err != nil {
				w.fatalf("%v", err)
			}
			if cluster.IsOutside(b.Worker) {
				strange[cell{b.Job, b.Chunk}]++
			} else {
				spent[cell{b.Job, b.Chunk}]++
			}
		case event.KindChunkFailed:
			var b event.ChunkFailed
			if err := json.Unmarshal(e.Body, &b); err != nil {
				w.fatalf("%v", err)
			}
			if b.Final && accepts[cell{b.Job, b.Chunk}] > 0 {
				w.fatalf("chunk %s/%d given up after it was accepted", b.Job, b.Chunk)
			}
			at := cell{b.Job, b.Chunk}
			switch out := cluster.IsOutside(b.Worker); {
			case !out:
				spent[at]++
			case strange[at] < trust.BadEnds && spent[at] == 0:
				w.fatalf("chunk %s/%d: a failure of %s counts, the first after %d bad ends", b.Job, b.Chunk, b.Worker, strange[at])
			}
		case event.KindJobDone:
			var b event.JobDone
			if err := json.Unmarshal(e.Body, &b); err != nil {
				w.fatalf("%v", err)
			}
			ends[b.Job]++
		}
	}
	for _, b := range w.jobs {
		v, ok := w.st.Job(b.Job)
		if !ok || ends[b.Job] != 1 {
			w.fatalf("acknowledged job %s: known %v, %d ends", b.Job, ok, ends[b.Job])
		}
		c, good := v.Counts, false
		switch v.State {
		case job.Completed:
			good = c.Accepted == v.Chunks && v.Iterations == b.Spec.Iterations && v.Aggregates[0].N == b.Spec.Iterations
		case job.Partial:
			good = c.Accepted > 0 && c.Failed > 0 && c.Accepted+c.Failed == v.Chunks && v.Reason != ""
		case job.Failed:
			good = c.Accepted == 0 && c.Failed+v.Failures > 0 && v.Reason != ""
		case job.Cancelled:
			good = v.Stopped && v.Reason != ""
		}
		if !good || v.Disputed > 0 {
			w.fatalf("job %+v", v)
		}
	}
}

func rounds(few, many int) int {
	if os.Getenv("SKEIN_PROVE") == "1" {
		return many
	}
	return few
}

func TestModel(t *testing.T) {
	ends := make(map[job.State]int)
	terms, strange := 0, 0
	for seed := range uint64(rounds(100, 20000)) {
		w := newWorld(t, seed)
		w.trace = append(w.trace, fmt.Sprintf("seed %d", seed))
		w.submit()
		for range 100 + w.rng.IntN(300) {
			w.chaos()
		}
		w.heal()
		w.verify()
		for _, j := range w.st.Jobs() {
			ends[j.State]++
		}
		terms += int(w.term)
		strange += w.strange
	}
	t.Logf("%d terms, %d results of outside workers count, jobs by end: %v", terms, strange, ends)
	if strange == 0 {
		t.Error("outside workers did nothing: the model lost its point")
	}
	for _, s := range []job.State{job.Completed, job.Partial, job.Failed, job.Cancelled} {
		if ends[s] == 0 {
			t.Errorf("no job ended %s: the model lost its point", s)
		}
	}
}
