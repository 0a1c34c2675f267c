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
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/plan/vital"
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
	reasons  map[eligible.Reason]int       // that were told
	sure     map[cluster.NodeID]bool       // strangers that had shown enough before this step
	wrongs   map[cluster.NodeID]int        // results that others contradicted
	given    map[job.Attempt]time.Duration // what was ever given to whom, and when
	heard    map[job.Attempt][]float64     // seconds until each time that its result came
	said     []step.Result                 // by strangers
	strange  int                           // accepted results of strangers
	asks     int                           // for more time
	extended map[job.Attempt]time.Duration // by which asks put deadlines off
	answers  map[bool]int                  // to asks: granted or not
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
	lies, lied, fails               bool
}

type twinJob struct {
	spec     job.Spec
	owner    string
	open     map[int]map[int]cluster.NodeID // chunk: attempt: worker
	accepted map[int]bool
	final    map[int]bool
	waiting  bool
	told     map[int]map[cluster.NodeID]said // what who computed of a chunk
	strange  map[int]int                     // attempts that ended badly at strangers
	ended    bool
}

// said is what a worker said of a chunk.
type said struct {
	means []float64 // it may say something else after a release
	owner string
}

// strangers are workers that no host runs: honest ones, one of which is a user's, those
// that tell the same lie under one owner and under several, and one that only fails.
var strangers = []twinWorker{
	{owner: "visitor:1"},
	{owner: "alice"},
	{owner: "visitor:2", lies: true},
	{owner: "visitor:2", lies: true},
	{owner: "visitor:2", lies: true},
	{owner: "visitor:2", lies: true},
	{owner: "visitor:3", lies: true},
	{owner: "visitor:4", lies: true},
	{owner: "visitor:5", fails: true},
}

func newTwin(t testing.TB, workers int) *twin {
	w := &twin{
		t: t, now: time.Hour, workers: make(map[cluster.NodeID]*twinWorker), groups: make(map[string][]string),
		jobs: make(map[job.ID]*twinJob), ends: make(map[job.State]int), reasons: make(map[eligible.Reason]int), wrongs: make(map[cluster.NodeID]int), given: make(map[job.Attempt]time.Duration), heard: make(map[job.Attempt][]float64),
		extended: make(map[job.Attempt]time.Duration), answers: make(map[bool]int),
		p: New(Config{Completions: bucket.Rate{PerSecond: 50, Burst: 100}, Salt: trust.Salt{1}}),
	}
	for i := range workers {
		n := cluster.NodeID(nodeName(i))
		w.names = append(w.names, n)
		w.workers[n] = &twinWorker{slots: 1 + i%3, owner: []string{"", "alice", "bob"}[i%3], memory: []uint64{0, 1 << 30, 1 << 30, 128 << 20}[i%4]}
	}
	for i, s := range strangers {
		n := cluster.OutsideID([]byte{byte(i)})
		w.names = append(w.names, n)
		s.slots, s.stranger = 1+i%2, true
		w.workers[n] = &s
	}
	return w
}

func (w *twin) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Log(w.trace[0])
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *twin) do(e step.Event) {
	w.trace = append(w.trace, fmt.Sprintf("%s %s", w.now, e))
	w.sure = make(map[cluster.NodeID]bool)
	for n, m := range w.workers {
		if r := w.p.roster.byNode[n]; m.stranger && r != nil {
			w.sure[n] = r.Established()
		}
	}
	if r, ok := e.(step.Result); ok {
		if at, was := w.given[r.Attempt]; was {
			w.heard[r.Attempt] = append(w.heard[r.Attempt], max((w.now-at).Seconds(), pace.MinSeconds))
		}
	}
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
	"it was wrong too often":                       {eligible.Distrusted, eligible.Stuck},
	"it is outside":                                {eligible.LacksPermission, eligible.Stuck},
	"it allows too little memory":                  {eligible.LacksMemory, eligible.Stuck},
	"it is in another zone":                        {eligible.LacksZone, eligible.Stuck},
	"the job's permission does not name its owner": {eligible.LacksPermission, eligible.Stuck},
	"it does not accept the job's owner":           {eligible.LacksAccept, eligible.Stuck},
	"":                                             {"", eligible.Stuck, eligible.Excluded, eligible.Opinion, eligible.Unproven, eligible.Reserved, eligible.Busy},
}

// may is who may get a chunk of a job, said as simply as can be.
func (w *twin) may(n cluster.NodeID, j *twinJob) string {
	m := w.workers[n]
	switch {
	case !m.up || m.health == cluster.Suspect || m.health == cluster.Dead || m.health == cluster.Left:
		return "it is not live"
	case m.draining || m.unready:
		return "it is not ready"
	case m.stranger && w.wrongs[n] >= trust.MaxWrong:
		return "it was wrong too often"
	case m.memory > 0 && j.spec.MemoryBytes > m.memory:
		return "it allows too little memory"
	case len(j.spec.Zones) > 0 && !slices.Contains(j.spec.Zones, m.zone):
		return "it is in another zone"
	}
	if a := j.spec.Permission; m.stranger && a.Access == "" && !a.Outside && m.owner != j.owner {
		return "it is outside"
	} else if a.Access != "" && m.owner != j.owner {
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

// anyone reports that some worker that counts may get a chunk of j.
func (w *twin) anyone(j *twinJob, counts func(cluster.NodeID) bool) bool {
	return slices.ContainsFunc(w.names, func(n cluster.NodeID) bool {
		m := w.p.roster.byNode[n] // one that was evicted is not fit
		return counts(n) && w.may(n, j) == "" && m != nil && m.signal != vital.Stuck
	})
}

func (w *twin) member(n cluster.NodeID) bool { return !w.workers[n].stranger }

// believed says why a result may not count, or "".
func (w *twin) believed(j *twinJob, a step.Accept) string {
	m, told := w.workers[a.Worker], j.told[a.Chunk]
	mean, votes, word := a.Result.Metrics["x"].Mean, 0, false
	owners := make(map[string]bool)
	for n, s := range told {
		switch {
		case !slices.Contains(s.means, mean):
		case w.member(n):
			votes, word = votes+1, true
		default:
			owners[s.owner] = true
			word = word || s.owner == j.owner || w.sure[n]
		}
	}
	votes += len(owners)
	switch _, was := w.given[a.Attempt]; {
	case votes == 0, m.stranger && !was:
		return "it was not given to it"
	case m.stranger && !slices.ContainsFunc(w.heard[a.Attempt], func(s float64) bool { return math.Abs(s-a.Seconds) < 1e-6 }):
		return fmt.Sprintf("it is said to have taken %g s", a.Seconds)
	case votes < j.spec.Replication.Wanted() && j.spec.Replication.Policy == job.CheckAll:
		return fmt.Sprintf("%d hosts say so", votes)
	case !word && (len(owners) < 3 || w.anyone(j, func(n cluster.NodeID) bool { return w.member(n) || w.sure[n] })):
		return fmt.Sprintf("only strangers of %d owners say so", len(owners))
	case mean != truth(a.Chunk) && w.anyone(j, w.member):
		return "it is wrong, and a member is fit"
	}
	return ""
}

// truth is what an honest worker computes of a chunk.
func truth(chunk int) float64 { return float64(10 + chunk%3) }

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
			w.given[job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number, Worker: a.Worker}] = w.now
			w.workers[a.Worker].queue = append(w.workers[a.Worker].queue, job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number})
		}
	case step.Adopt:
		j := theJob(a.Job)
		if !w.member(a.Worker) {
			w.fatalf("%s: a stranger chose", a)
		}
		for _, c := range a.Chunks {
			if j.open[c.Chunk] == nil {
				j.open[c.Chunk] = make(map[int]cluster.NodeID)
			}
			j.open[c.Chunk][c.Number] = a.Worker
			delete(w.extended, job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number, Worker: a.Worker}) // its time begins again
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
		if why := w.believed(j, a); why != "" {
			w.fatalf("%s: %s", a, why)
		}
		if w.workers[a.Worker].stranger {
			w.strange++
		}
		for at, n := range j.open[a.Chunk] { // its own ends; others are cancelled
			if n == a.Worker && at == a.Number {
				delete(j.open[a.Chunk], at)
			}
		}
	case step.Fail:
		j := theJob(a.Job)
		delete(j.open[a.Chunk], a.Number)
		if !w.member(a.Worker) && !strings.Contains(a.Reason, "another attempt at the same time failed") {
			if w.anyone(j, w.member) || j.strange[a.Chunk] < 3 && !strings.Contains(a.Reason, "too few are the same") {
				w.fatalf("%s: a stranger's, which cost the job something", a)
			}
			j.strange[a.Chunk]++
		}
		j.final[a.Chunk] = j.final[a.Chunk] || a.Final
	case step.Extend:
		w.extend(theJob(a.Job), a)
	case step.Reclaim:
		end(a.Attempt, a.Worker)
		if !w.member(a.Worker) {
			theJob(a.Job).strange[a.Chunk]++
		}
	case step.Notice:
		if a.What == step.NoticeDistrust && !w.member(a.Worker) {
			w.wrongs[a.Worker]++
			if !w.workers[a.Worker].lied {
				w.fatalf("%s: it was right", a)
			}
		}
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
				j.strange[i] = 0
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
	case 0, 4:
		spec.Zones = []string{"fra", "out"}[:1+rng.IntN(2)] // often there is no member
	case 1:
		spec.Permission = job.Permission{Access: job.AccessOwner}
	case 2:
		spec.Permission = job.Permission{Access: job.AccessUser, Users: []string{"bob"}}
	case 3:
		spec.Permission = job.Permission{Access: job.AccessGroup, Groups: []string{"g"}}
	}
	spec.Permission.Outside = spec.Permission.Access == "" && rng.IntN(4) > 0
	if spec.Permission.Outside && len(spec.Zones) == 0 && rng.IntN(4) == 0 {
		spec.Zones = []string{"out"} // there is no member
	}
	spec.Replication.Policy = []job.CheckPolicy{"", "", job.CheckAdaptive, job.CheckAll}[rng.IntN(4)]
	if rng.IntN(4) == 0 {
		spec.EarlyStop = job.EarlyStop{Metric: "x", RelError: 0.5}
	}
	if rng.IntN(6) == 0 {
		spec.DeadlineSeconds = 300
	}
	if rng.IntN(2) == 0 {
		spec.HardTimeoutSeconds = spec.TimeoutSeconds + float64(rng.IntN(600))
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
		accepted: make(map[int]bool), final: make(map[int]bool), told: make(map[int]map[cluster.NodeID]said), strange: make(map[int]int),
	}
	for i := range spec.Chunks() {
		j.told[i] = make(map[cluster.NodeID]said)
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
	mean := truth(r.Chunk)
	if m.lies {
		mean, m.lied = mean+1, true
	}
	if m.stranger {
		out.Seconds = []float64{1e-9, 1e6, -1}[r.Chunk%3]
	}
	if m.fails {
		what %= 3
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
		w.say(out.Attempt, mean)
	}
	w.said = append(w.said, out)
	m.kept = append(m.kept, out)
	if m.up {
		w.do(out)
	}
}

// say takes in that a worker says a result of a chunk, which it was given.
func (w *twin) say(r job.Attempt, mean float64) {
	told := w.jobs[r.Job].told[r.Chunk]
	if _, was := w.given[r]; told != nil && (was || w.member(r.Worker)) {
		told[r.Worker] = said{means: append(told[r.Worker].means, mean), owner: w.workers[r.Worker].owner}
	}
}

// attack lets a stranger say again what it or another said, send a result that nobody
// asked for, and claim to have what it was not given.
func (w *twin) attack(rng *rand.Rand) {
	n := w.names[len(w.names)-1-rng.IntN(len(strangers))]
	made := job.Attempt{Job: w.ids[rng.IntN(len(w.ids))], Chunk: rng.IntN(30), Number: 1 + rng.IntN(4)}
	m := w.workers[n]
	if w.p.roster.byNode[n] == nil {
		m.health, m.zone = "", ""
	}
	switch rng.IntN(4) {
	case 0:
		if len(w.said) > 0 {
			r := w.said[rng.IntN(len(w.said))]
			r.Attempt = r.At(n)
			if _, was := w.given[r.Attempt]; !was {
				w.do(r)
			}
		}
	case 1:
		if _, was := w.given[made.At(n)]; !was {
			r := &job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: -1, M2: 1, Min: -2, Max: 1}}}
			for range 1 + rng.IntN(200)*rng.IntN(2) {
				w.do(step.Result{Attempt: made.At(n), Result: r})
			}
		}
	case 2:
		if m.up {
			w.do(step.WorkerHolds{Worker: n, Refs: append(slices.Clone(m.queue), made)})
		}
	case 3:
		m.queue = append(m.queue, made)
		w.connect(n)
		m.queue = slices.DeleteFunc(m.queue, func(r job.Attempt) bool { return r == made })
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
	switch rng.IntN(26) {
	case 24, 25:
		if len(w.ids) > 0 {
			w.attack(rng)
		}
	case 22:
		if !m.stranger {
			m.narrow(rng)
		}
		w.connect(n)
	case 23:
		if !m.stranger && w.p.roster.byNode[n] != nil {
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
			p := step.Progress{Attempt: r, Done: uint64(1 + i + rng.IntN(10))}
			if rng.IntN(3) == 0 {
				w.asks++
				p.Ask = &step.Ask{Number: w.asks, For: time.Duration(1 + rng.Int64N(int64(10*time.Minute))), Reason: "it is slow"}
			}
			list = append(list, p)
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
		if m.stranger {
			m.zone = "out"
		}
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
	for i, n := range w.names {
		m := w.workers[n]
		m.health, m.lies, m.fails = cluster.Alive, false, false
		w.do(step.HealthChanged{Worker: n, Health: m.health})
		if m.zone = "fra"; m.stranger {
			m.zone = "out"
		}
		w.do(step.HostKnown{Worker: n, Zone: m.zone})
		m.accept, m.memory = job.Acceptance{}, 0
		if !m.stranger { // there are enough of each owner to check with
			m.owner = []string{"bob", "alice"}[i%2]
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
				w.trace = append(w.trace, fmt.Sprintf("%s/%d %s: fit %d, avoid %v, check %+v, %d tries, queued %t, %s", j.id, i, c.state, j.class.Fit(eligible.All), c.avoid, c.check, len(c.tries), c.queued, w.p.explain(j, w.now)))
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
	assigned, accepts, releases, strange, wrongs, granted, denied := 0, 0, 0, 0, 0, 0, 0
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
		strange += w.strange
		granted, denied = granted+w.answers[true], denied+w.answers[false]
		for _, n := range w.wrongs {
			wrongs += n
		}
	}
	t.Logf("%d histories, %d assignments, %d accepts, %d of strangers, of whom %d results were contradicted, %d releases, %d times more time and %d times none, jobs by end: %v; told: %v", seeds, assigned, accepts, strange, wrongs, releases, granted, denied, ends, told)
	for _, r := range []eligible.Reason{
		"", eligible.Gone, eligible.NoStream, eligible.Draining, eligible.Unready, eligible.Stuck, eligible.LacksMemory, eligible.LacksZone,
		eligible.LacksPermission, eligible.LacksAccept, eligible.Excluded, eligible.Opinion, eligible.Busy, eligible.Held, eligible.Backoff, eligible.Operator,
	} {
		if told[r] == 0 {
			t.Errorf("nothing was kept from a job by %q: the test lost its point", r)
		}
	}
	if releases == 0 || strange == 0 || wrongs == 0 || granted == 0 || denied == 0 {
		t.Error("nothing was released, strangers did nothing, or nobody got more time, or was denied it: the test lost its point")
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
