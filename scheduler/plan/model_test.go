package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// twin is the naive account of what a plan was told and said: what may go where
// is looked up again for each assignment, and what counts is counted again.
type twin struct {
	t        testing.TB
	p        *Plan
	now      time.Duration
	trace    []string
	workers  map[cluster.NodeID]*twinWorker
	groups   map[string][]string
	jobs     map[job.ID]*twinJob
	names    []cluster.NodeID
	ids      []job.ID // in order
	assigned int
	accepts  int
	releases int
	ends     map[job.State]int
	reasons  map[eligible.Reason]int // that were told
}

type twinWorker struct {
	up, draining, unready, stranger bool
	health                          cluster.Health
	slots                           int
	memory                          uint64 // 0: of an earlier version, which does not say
	owner, zone                     string
	accept                          job.Acceptance
	queue                           []job.Attempt
	kept                            []step.Result
	lies                            bool
}

type twinJob struct {
	spec     job.Spec
	owner    string
	open     map[int]map[int]cluster.NodeID // chunk: attempt: worker
	accepted map[int]bool
	final    map[int]bool
	waiting  bool
	told     map[int]map[cluster.NodeID]float64 // what who computed of a chunk
	ended    bool
}

func newTwin(t testing.TB, workers int) *twin {
	w := &twin{
		t: t, now: time.Hour, workers: make(map[cluster.NodeID]*twinWorker), groups: make(map[string][]string),
		jobs: make(map[job.ID]*twinJob), ends: make(map[job.State]int), reasons: make(map[eligible.Reason]int),
		p: New(Config{Completions: bucket.Rate{PerSecond: 50, Burst: 100}}),
	}
	for i := range workers {
		n := cluster.NodeID(nodeName(i))
		w.names = append(w.names, n)
		w.workers[n] = &twinWorker{
			slots: 1 + i%3, owner: []string{"", "alice", "bob"}[i%3], stranger: i%4 == 3, lies: i == 7,
			memory: []uint64{0, 1 << 30, 1 << 30, 128 << 20}[i%4],
		}
	}
	return w
}

func (w *twin) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *twin) do(e step.Event) {
	w.trace = append(w.trace, fmt.Sprintf("%s %s", w.now, e))
	actions := slices.Clone(w.p.Step(e, w.now))
	for _, a := range actions {
		w.trace = append(w.trace, "    "+a.String())
		w.take(a)
	}
	if err := w.p.Check(); err != nil {
		w.fatalf("after %s: %v", e, err)
	}
	w.explained(e)
}

// explained holds what is said of each worker against the naive account, and against
// what was given out: no chunk is left that a worker could have.
func (w *twin) explained(e step.Event) {
	for _, j := range w.p.work.jobs {
		why, since, ok := w.p.Explain(j.id, w.now)
		if !ok || why.Workers != len(why.Rows()) || since > w.now {
			w.fatalf("after %s: job %s: %t, since %s, %+v", e, j.id, ok, since, why)
		}
		if ready := why.Job.Reason == "" && !w.p.held && j.ready(); ready && len(why.Free) > 0 {
			w.fatalf("after %s: job %s has chunks to give out, nothing keeps %v from them", e, j.id, why.Free)
		}
		may := 0
		for _, r := range why.Rows() {
			w.reasons[r.Reason]++
			if r.Eligible {
				may++
			}
			if naive := w.may(r.Node, w.jobs[j.id]); !slices.Contains(reasons[naive], r.Reason) {
				w.fatalf("after %s: job %s on %s: %q (%s), by the naive account: %q", e, j.id, r.Node, r.Reason, r.Text, naive)
			}
		}
		w.reasons[why.Job.Reason]++
		if may != why.Eligible {
			w.fatalf("after %s: job %s: %d are eligible, %d are counted", e, j.id, may, why.Eligible)
		}
	}
	for _, x := range w.p.Waiting(w.now) {
		if why, _, ok := w.p.Explain(x.Job, w.now); !ok || why.Job.Reason != x.Why.Job.Reason || why.Job.Reason == "" && why.String() != x.Why.String() {
			w.fatalf("after %s: job %s waits for %s, explained is %s", e, x.Job, x.Why, why)
		}
	}
}

// reasons are the answers that go with one of the naive account.
var reasons = map[string][]eligible.Reason{
	"it is not live":                               {eligible.Gone, eligible.NoStream},
	"it is not ready":                              {eligible.Draining, eligible.Unready},
	"it allows too little memory":                  {eligible.LacksMemory, eligible.Stuck},
	"it is in another zone":                        {eligible.LacksZone, eligible.Stuck},
	"the job's permission does not name its owner": {eligible.LacksPermission, eligible.Stuck},
	"it does not accept the job's owner":           {eligible.LacksAccept, eligible.Stuck},
	"":                                             {"", eligible.Stuck, eligible.Excluded, eligible.Opinion, eligible.Busy},
}

// may is who may get a chunk of a job, said as simply as can be.
func (w *twin) may(n cluster.NodeID, j *twinJob) string {
	m := w.workers[n]
	switch {
	case !m.up || m.health == cluster.Suspect || m.health == cluster.Dead || m.health == cluster.Left:
		return "it is not live"
	case m.draining || m.unready:
		return "it is not ready"
	case m.memory > 0 && j.spec.MemoryBytes > m.memory:
		return "it allows too little memory"
	case len(j.spec.Zones) > 0 && !slices.Contains(j.spec.Zones, m.zone):
		return "it is in another zone"
	}
	if a := j.spec.Permission; a.Access != "" && m.owner != j.owner {
		ok := a.Access == job.AccessUser && slices.Contains(a.Users, m.owner)
		for _, g := range a.Groups {
			ok = ok || slices.Contains(w.groups[g], m.owner)
		}
		if !ok {
			return "the job's permission does not name its owner"
		}
	}
	mine := j.owner == m.owner
	ok := true
	switch m.accept.Accept {
	case job.AcceptNone:
		ok = false
	case job.AcceptOwner:
		ok = mine
	case job.AcceptUser:
		ok = mine || slices.Contains(m.accept.Names, j.owner)
	case job.AcceptGroup:
		ok = mine || slices.Contains(w.groups["g"], j.owner)
	}
	if !ok {
		return "it does not accept the job's owner"
	}
	return ""
}

func (w *twin) take(action step.Action) {
	theJob := func(id job.ID) *twinJob {
		j := w.jobs[id]
		if j == nil || j.ended {
			w.fatalf("%s: no such job is open", action)
		}
		return j
	}
	end := func(r job.Attempt, n cluster.NodeID) {
		j := theJob(r.Job)
		if j.open[r.Chunk][r.Number] != n {
			w.fatalf("%s: no such attempt is open", action)
		}
		delete(j.open[r.Chunk], r.Number)
	}
	switch a := action.(type) {
	case step.Assign:
		j := theJob(a.Job)
		if why := w.may(a.Worker, j); why != "" {
			w.fatalf("%s: %s", a, why)
		}
		for _, c := range a.Chunks {
			w.assigned++
			for _, n := range j.open[c.Chunk] {
				if n == a.Worker {
					w.fatalf("%s: it has chunk %d already", a, c.Chunk)
				}
			}
			if j.accepted[c.Chunk] || j.final[c.Chunk] || j.told[c.Chunk] == nil {
				w.fatalf("%s: chunk %d is closed or unknown", a, c.Chunk)
			}
			if j.open[c.Chunk] == nil {
				j.open[c.Chunk] = make(map[int]cluster.NodeID)
			}
			if j.open[c.Chunk][c.Number] != "" {
				w.fatalf("%s: the attempt is open already", a)
			}
			j.open[c.Chunk][c.Number] = a.Worker
			w.workers[a.Worker].queue = append(w.workers[a.Worker].queue, job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number})
		}
	case step.Adopt:
		j := theJob(a.Job)
		for _, c := range a.Chunks {
			if j.open[c.Chunk] == nil {
				j.open[c.Chunk] = make(map[int]cluster.NodeID)
			}
			j.open[c.Chunk][c.Number] = a.Worker
		}
	case step.Accept:
		j := theJob(a.Job)
		if j.accepted[a.Chunk] {
			w.fatalf("%s: it is closed", a)
		}
		if j.final[a.Chunk] && w.workers[a.Worker].stranger {
			w.fatalf("%s: a stranger's, and given up", a)
		}
		j.accepted[a.Chunk], j.final[a.Chunk] = true, false
		w.accepts++
		votes := 0
		for _, mean := range j.told[a.Chunk] {
			if mean == a.Result.Metrics["x"].Mean {
				votes++
			}
		}
		if want := j.spec.Replication.Wanted(); votes < 1 || votes < want && j.spec.Replication.Policy == job.CheckAll {
			w.fatalf("%s: %d hosts say so", a, votes)
		}
		if m := w.workers[a.Worker]; m.stranger && votes < 2 && w.p.roster.byNode[a.Worker].trust.agreed < trustAfter {
			w.fatalf("%s: a stranger was believed at once", a)
		}
		for at, n := range j.open[a.Chunk] { // its own ends; others are cancelled
			if n == a.Worker && at == a.Number {
				delete(j.open[a.Chunk], at)
			}
		}
	case step.Fail:
		j := theJob(a.Job)
		delete(j.open[a.Chunk], a.Number)
		j.final[a.Chunk] = j.final[a.Chunk] || a.Final
	case step.Reclaim:
		end(a.Attempt, a.Worker)
	case step.Cancel:
		hit := func(r job.Attempt) bool {
			return r.Job == a.Job && (len(a.Chunks) == 0 || slices.Contains(a.Chunks, job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: a.Worker}))
		}
		m := w.workers[a.Worker]
		m.queue = slices.DeleteFunc(m.queue, hit)
		m.kept = slices.DeleteFunc(m.kept, func(r step.Result) bool { return hit(r.Attempt) })
	case step.Settled:
		m := w.workers[a.Worker]
		m.kept = slices.DeleteFunc(m.kept, func(r step.Result) bool { return r.Attempt == a.Attempt })
	case step.Waiting:
		j := theJob(a.Job)
		for i := range j.spec.Chunks() {
			if !j.accepted[i] && !j.final[i] || j.spec.OnPartial != job.PartialWait {
				w.fatalf("%s: chunk %d is open", a, i)
			}
		}
		j.waiting = true
	case step.Released:
		j := theJob(a.Job)
		j.waiting = false
		w.releases++
		for _, s := range a.Chunks {
			for i := s.First; i <= s.Last; i++ {
				if !j.final[i] {
					w.fatalf("%s: chunk %d is not given up", a, i)
				}
				j.final[i] = false
				clear(j.open[i]) // results that waited for another opinion when it was given up
			}
		}
	case step.Finish:
		j := theJob(a.Job)
		j.ended = true
		w.ends[a.State]++
		n := uint64(0)
		for i := range j.accepted {
			_, k := j.spec.ChunkRange(i)
			n += k
		}
		switch {
		case a.State == job.Completed && n != j.spec.Iterations && !j.spec.EarlyStop.On(),
			a.State == job.Partial && (n == 0 || n == j.spec.Iterations), a.State != job.Completed && a.Reason == "":
			w.fatalf("%s: %d of %d iterations are accepted", a, n, j.spec.Iterations)
		}
	}
}

func (w *twin) submit(rng *rand.Rand) {
	spec := specOf(1+rng.IntN(30), 1+rng.IntN(5))
	switch rng.IntN(8) {
	case 0:
		spec.Zones = []string{"fra"}
	case 1:
		spec.Permission = job.Permission{Access: job.AccessOwner}
	case 2:
		spec.Permission = job.Permission{Access: job.AccessUser, Users: []string{"bob"}}
	case 3:
		spec.Permission = job.Permission{Access: job.AccessGroup, Groups: []string{"g"}}
	}
	spec.Replication.Policy = []job.CheckPolicy{"", "", job.CheckAdaptive, job.CheckAll}[rng.IntN(4)]
	if rng.IntN(4) == 0 {
		spec.EarlyStop = job.EarlyStop{Metric: "x", RelError: 0.5}
	}
	if rng.IntN(6) == 0 {
		spec.DeadlineSeconds = 300
	}
	if rng.IntN(4) == 0 {
		spec.MemoryBytes = []uint64{128 << 20, 512 << 20}[rng.IntN(2)]
	}
	spec.OnPartial = []job.OnPartial{"", "", job.PartialWait, job.PartialFail}[rng.IntN(4)]
	spec.Priority = uint32(100 + rng.IntN(3))
	spec.Artefact[1] = byte(rng.IntN(3))
	if err := spec.Validate(); err != nil {
		w.fatalf("%v", err)
	}
	id := job.ID(fmt.Sprint("j", len(w.ids)))
	j := &twinJob{
		spec: spec, owner: []string{"alice", "bob"}[rng.IntN(2)], open: make(map[int]map[int]cluster.NodeID),
		accepted: make(map[int]bool), final: make(map[int]bool), told: make(map[int]map[cluster.NodeID]float64),
	}
	for i := range spec.Chunks() {
		j.told[i] = make(map[cluster.NodeID]float64)
	}
	w.jobs[id] = j
	w.ids = append(w.ids, id)
	w.do(step.JobAdded{Job: id, Spec: spec, Owner: j.owner})
}

// answer lets a worker end its first attempt.
func (w *twin) answer(n cluster.NodeID, what int) {
	m := w.workers[n]
	if len(m.queue) == 0 {
		return
	}
	r := m.queue[0]
	m.queue = m.queue[1:]
	out := step.Result{Attempt: r.At(n), Seconds: float64(1 + r.Chunk%5)}
	mean := float64(10 + r.Chunk%3)
	if m.lies {
		mean++
	}
	switch what {
	case 0:
		out.Error = "exit 1"
	case 1:
		out.Error, out.Class = "no module", job.FailedInfra
	case 2:
		return // never heard of again
	default:
		out.Result = &job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, M2: 1, Min: mean - 1, Max: mean + 1}}}
		w.jobs[r.Job].told[r.Chunk][n] = mean
	}
	m.kept = append(m.kept, out)
	if m.up {
		w.do(out)
	}
}

func (w *twin) connect(n cluster.NodeID) {
	m := w.workers[n]
	if w.p.roster.byNode[n] == nil { // it left and comes back: as a new one
		m.health, m.zone = "", "" // what it accepts comes with its welcome
	}
	m.up, m.draining, m.unready = true, false, false
	w.do(step.WorkerConnected{
		Worker: n, Slots: m.slots, Credits: 8, Executors: []string{job.ExecutorWASM}, Assigned: slices.Clone(m.queue),
		Owner: m.owner, Accept: m.accept, Stranger: m.stranger, Memory: m.memory,
	})
	for _, r := range slices.Clone(m.kept) {
		w.do(r)
	}
}

// narrow lets a host run other jobs than before.
func (m *twinWorker) narrow(rng *rand.Rand) {
	m.accept = []job.Acceptance{
		{},
		{Accept: job.AcceptPublic},
		{Accept: job.AcceptOwner},
		{Accept: job.AcceptNone},
		{Accept: job.AcceptUser, Names: []string{"alice", "bob"}[:1+rng.IntN(2)]},
		{Accept: job.AcceptGroup, Names: []string{"g"}},
	}[rng.IntN(6)]
}

func (w *twin) chaos(rng *rand.Rand) {
	n := w.names[rng.IntN(len(w.names))]
	m := w.workers[n]
	if w.p.roster.byNode[n] == nil {
		m.health, m.zone = "", ""
	}
	switch rng.IntN(24) {
	case 22:
		m.narrow(rng)
		w.connect(n)
	case 23:
		if w.p.roster.byNode[n] != nil {
			m.narrow(rng)
			m.owner = []string{"", "alice", "bob"}[rng.IntN(3)]
			w.do(step.OwnerChanged{Worker: n, Owner: m.owner, Accept: m.accept})
		}
	case 0:
		if len(w.ids) < 8 {
			w.submit(rng)
		}
	case 1:
		m.up = false
		w.do(step.WorkerDisconnected{Worker: n})
	case 2, 3, 4:
		w.connect(n)
	case 5:
		m.queue, m.kept, m.up = nil, nil, false
		w.do(step.WorkerDisconnected{Worker: n})
	case 6:
		m.health = []cluster.Health{cluster.Alive, cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left}[rng.IntN(5)]
		w.do(step.HealthChanged{Worker: n, Health: m.health})
	case 7:
		m.draining, m.unready = rng.IntN(3) == 0, rng.IntN(3) == 0
		var list []step.Progress
		for i, r := range m.queue[:min(m.slots, len(m.queue))] {
			list = append(list, step.Progress{Attempt: r, Done: uint64(1 + i + rng.IntN(10))})
		}
		w.do(step.WorkerStatus{Worker: n, Ready: !m.unready, Draining: m.draining, Progress: list})
	case 8:
		var kept []job.Attempt
		for _, r := range m.kept {
			kept = append(kept, r.Attempt)
		}
		if m.up {
			w.do(step.WorkerHolds{Worker: n, Refs: slices.Clone(m.queue), Kept: kept})
		}
	case 9:
		m.zone = []string{"", "fra", "osl"}[rng.IntN(3)]
		w.do(step.HostKnown{Worker: n, Zone: m.zone})
	case 10:
		w.groups["g"] = [][]string{nil, {"alice"}, {"bob", "carl"}}[rng.IntN(3)]
		w.do(step.GroupChanged{Group: "g", Members: w.groups["g"]})
	case 11:
		w.do(step.RoundTrip{Worker: n, Time: time.Duration(rng.Int64N(int64(3 * time.Second)))})
	case 12:
		w.now += time.Duration(rng.Int64N(int64(90 * time.Second)))
		w.do(step.Tick{})
	case 13:
		if len(w.ids) > 0 && rng.IntN(8) == 0 {
			w.do(step.JobStopped{Job: w.ids[rng.IntN(len(w.ids))], Actor: "x"})
		}
	case 14:
		w.do(step.Hold{On: rng.IntN(3) == 0})
		if len(w.ids) > 0 && rng.IntN(3) == 0 {
			w.do(step.JobReleased{Job: w.ids[rng.IntN(len(w.ids))], Actor: "x"})
		}
	default:
		w.now += time.Duration(rng.Int64N(int64(2 * time.Second)))
		w.answer(n, rng.IntN(12))
		w.do(step.Tick{})
	}
}

// heal makes all workers well and waits for the end of all jobs.
func (w *twin) heal() {
	w.do(step.Hold{})
	w.groups["g"] = []string{"alice"}
	w.do(step.GroupChanged{Group: "g", Members: w.groups["g"]})
	for _, n := range w.names {
		m := w.workers[n]
		m.health, m.lies = cluster.Alive, false
		w.do(step.HealthChanged{Worker: n, Health: m.health})
		m.zone = "fra"
		w.do(step.HostKnown{Worker: n, Zone: m.zone})
		m.accept, m.memory = job.Acceptance{}, 0
		if m.owner == "" {
			m.owner = "bob"
		}
		w.connect(n)
	}
	for range 5000 {
		open := slices.ContainsFunc(w.ids, func(id job.ID) bool { return !w.jobs[id].ended })
		if !open {
			return
		}
		w.now += time.Second
		for _, id := range w.ids {
			if w.jobs[id].waiting && !w.jobs[id].ended {
				w.do(step.JobReleased{Job: id, Actor: "x"})
			}
		}
		for _, n := range w.names {
			w.answer(n, 9)
		}
		w.do(step.Tick{})
	}
	for _, j := range w.p.work.jobs {
		for i, c := range j.chunks {
			if c.state <= assigned {
				w.trace = append(w.trace, fmt.Sprintf("%s/%d %s: fit %d, avoid %v, check %+v, %d tries, queued %t, %s", j.id, i, c.state, j.class.Fit(), c.avoid, c.check, len(c.tries), c.queued, w.p.explain(j, w.now)))
			}
		}
	}
	w.fatalf("jobs hang")
}

// TestTwin lets everything happen in any order and compares what the plan
// decides with the naive account of it: a chunk is accepted at most once and
// only if enough hosts say so, each attempt goes to a worker that may have it,
// ends are true, and when all is well again every job ends.
func TestTwin(t *testing.T) {
	seeds := uint64(25)
	if prove() {
		seeds = 5000
	}
	ends := make(map[job.State]int)
	told := make(map[eligible.Reason]int)
	assigned, accepts, releases := 0, 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 77))
		w := newTwin(t, 9) // enough of each owner to check with
		w.trace = append(w.trace, fmt.Sprintf("seed %d", seed))
		w.submit(rng)
		for range 100 + rng.IntN(200) {
			w.chaos(rng)
		}
		w.heal()
		for s, n := range w.ends {
			ends[s] += n
		}
		for r, n := range w.reasons {
			told[r] += n
		}
		assigned, accepts, releases = assigned+w.assigned, accepts+w.accepts, releases+w.releases
	}
	t.Logf("%d histories, %d assignments, %d accepts, %d releases, jobs by end: %v; told: %v", seeds, assigned, accepts, releases, ends, told)
	for _, r := range []eligible.Reason{
		"", eligible.Gone, eligible.NoStream, eligible.Draining, eligible.Unready, eligible.Stuck, eligible.LacksMemory, eligible.LacksZone,
		eligible.LacksPermission, eligible.LacksAccept, eligible.Excluded, eligible.Opinion, eligible.Busy, eligible.Held, eligible.Backoff, eligible.Operator,
	} {
		if told[r] == 0 {
			t.Errorf("nothing was kept from a job by %q: the test lost its point", r)
		}
	}
	if releases == 0 {
		t.Error("nothing was released: the test lost its point")
	}
	for _, s := range []job.State{job.Completed, job.Partial, job.Failed, job.Cancelled, job.TimedOut} {
		if ends[s] == 0 {
			t.Errorf("no job ended %s: the test lost its point", s)
		}
	}
}

// bytesSource makes decisions out of a fuzzer's input, one byte each, and goes on
// at random after it.
type bytesSource struct {
	in   []byte
	rest *rand.PCG
}

func (s *bytesSource) Uint64() uint64 {
	if len(s.in) == 0 {
		return s.rest.Uint64()
	}
	b := uint64(s.in[0])
	s.in = s.in[1:]
	return b * 0x0101010101010101
}

// FuzzTwin is TestTwin with histories of the fuzzer's making.
func FuzzTwin(f *testing.F) {
	f.Add([]byte("\x00\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0"))
	f.Add([]byte{9, 30, 200, 7, 61, 250, 13, 90, 33, 180, 240, 5, 77, 140, 99, 221, 18, 66, 170, 201, 44, 3, 129, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		src := &bytesSource{in[:min(len(in), 2000)], rand.NewPCG(1, 2)}
		rng := rand.New(src)
		w := newTwin(t, 9)
		w.submit(rng)
		for len(src.in) > 0 {
			w.chaos(rng)
		}
		w.heal()
	})
}
