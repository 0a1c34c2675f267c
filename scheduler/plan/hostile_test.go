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
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// siege is a cluster of members that compute honestly, beside as many strangers as there
// are, each of which does its worst.
type siege struct {
	t       *testing.T
	p       *Plan
	rng     *rand.Rand
	now     time.Duration
	hosts   map[cluster.NodeID]*besieger
	names   []cluster.NodeID
	spec    job.Spec
	accepts map[int]int
	wrong   int // that count
	strange int // of strangers, that count
	runs    int // of chunks, that members ended or gave up
	ended   job.State
	given   map[int]int // to how many a chunk was given
	useless bool        // no stranger is ever right
}

// besieger is a worker in a siege.
type besieger struct {
	slots   int
	queue   []job.Attempt
	ends    []time.Duration // of the first of queue, as many as there are slots
	hostile string          // what it does; "": it is a member
	owner   string
	up      bool
	back    time.Duration // when it comes back
	said    []step.Result
	wrong   int
	had     map[job.Attempt]bool
}

const siegeTime = 10 * time.Second // of one chunk at a member

// hostilities are what strangers do, the owners under whom they do it, and how many.
var hostilities = []struct {
	what   string
	owners int
	n      int
}{
	{"lie", 10, 10},
	{"collude", 1, 10},
	{"collude", 5, 10},
	{"vanish", 10, 10},
	{"silent", 10, 10},
	{"fail", 10, 10},
	{"infra", 5, 5},
	{"return", 10, 10},
	{"flood", 5, 5},
	{"claim", 5, 5},
	// What these say counts some time.
	{"hurry", 5, 5},
	{"slow", 5, 5},
	{"sleep", 2, 2},
}

const useless = 10 // of hostilities

func newSiege(t *testing.T, seed uint64, chunks, hostile int) *siege {
	s := &siege{
		t: t, rng: rand.New(rand.NewPCG(seed, 5)), now: time.Hour, hosts: make(map[cluster.NodeID]*besieger), accepts: make(map[int]int), given: make(map[int]int), useless: hostile <= useless,
		p: New(Config{Completions: bucket.Rate{PerSecond: 100, Burst: 1000}, Salt: trust.Salt{byte(seed)}}),
	}
	add := func(n cluster.NodeID, b besieger) {
		b.had = make(map[job.Attempt]bool)
		s.hosts[n] = &b
		s.names = append(s.names, n)
		s.connect(n)
	}
	for i := range 3 {
		add(cluster.NodeID(nodeName(i)), besieger{slots: 4})
	}
	i := 0
	for k, h := range hostilities[:hostile] {
		for n := range h.n {
			i++
			add(alien(i), besieger{slots: 1 + i%4, hostile: h.what, owner: fmt.Sprintf("visitor:%d.%d", k, n%h.owners)})
		}
	}
	s.spec = specOf(chunks, 2)
	s.spec.Permission.Outside = true
	s.spec.Losses, s.spec.StuckSeconds, s.spec.TimeoutSeconds = 2, 120, 3600
	s.do(step.JobAdded{Job: "j", Spec: s.spec, Owner: "user:ann"})
	return s
}

func (s *siege) connect(n cluster.NodeID) {
	b := s.hosts[n]
	b.up = true
	e := step.WorkerConnected{Worker: n, Slots: b.slots, Executors: []string{job.ExecutorWASM}, Owner: b.owner, Stranger: b.hostile != "", Assigned: slices.Clone(b.queue)}
	if b.hostile == "claim" {
		for range 10 {
			e.Assigned = append(e.Assigned, job.Attempt{Job: "j", Chunk: s.rng.IntN(500), Number: 1 + s.rng.IntN(3)})
		}
	}
	s.do(e)
}

func (s *siege) do(e step.Event) {
	for _, a := range slices.Clone(s.p.Step(e, s.now)) {
		s.take(a)
	}
}

func (s *siege) take(a step.Action) {
	switch a := a.(type) {
	case step.Assign:
		b := s.hosts[a.Worker]
		if b.hostile != "" && b.wrong >= trust.MaxWrong {
			s.t.Fatalf("%s: it was wrong %d times", a, b.wrong)
		}
		for _, c := range a.Chunks {
			r := job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number}
			b.queue = append(b.queue, r)
			b.had[r] = true
			if s.given[c.Chunk]++; b.hostile != "" && s.given[c.Chunk] > trust.BadEnds+1 && s.useless {
				s.t.Fatalf("%s: the %d. stranger gets chunk %d", a, s.given[c.Chunk], c.Chunk)
			}
		}
	case step.Adopt:
		s.t.Fatalf("%s", a)
	case step.Accept:
		if s.accepts[a.Chunk]++; s.accepts[a.Chunk] > 1 || !s.hosts[a.Worker].had[a.Attempt.At("")] {
			s.t.Fatalf("%s, for the %d. time", a, s.accepts[a.Chunk])
		}
		if s.hosts[a.Worker].hostile != "" {
			s.strange++
		}
		if a.Result.Metrics["x"].Mean != float64(a.Chunk) {
			if s.wrong++; s.hosts[a.Worker].hostile != "sleep" {
				s.t.Fatalf("%s: it is wrong", a)
			}
		}
	case step.Cancel:
		b := s.hosts[a.Worker]
		for i, r := range slices.Backward(b.queue) {
			if r.Job != a.Job || len(a.Chunks) > 0 && !slices.Contains(a.Chunks, job.Attempt{Chunk: r.Chunk, Number: r.Number, Worker: a.Worker}) {
				continue
			}
			b.queue = slices.Delete(b.queue, i, i+1)
			if i < len(b.ends) {
				b.ends = slices.Delete(b.ends, i, i+1)
				if b.hostile == "" {
					s.runs++
				}
			}
		}
	case step.Notice:
		if a.What == step.NoticeDistrust {
			s.hosts[a.Worker].wrong++
			if w := s.hosts[a.Worker].hostile; w != "lie" && w != "collude" && w != "sleep" {
				s.t.Fatalf("%s, which was right", a)
			}
		}
	case step.Finish:
		s.ended = a.State
	}
}

// answer sends the result of the first attempt that a worker has.
func (s *siege) answer(n cluster.NodeID, change func(*step.Result)) {
	b := s.hosts[n]
	r := b.queue[0]
	b.queue = b.queue[1:]
	mean := float64(r.Chunk)
	out := step.Result{Attempt: r.At(n), Seconds: 10, Result: &job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, M2: 1, Min: mean - 1, Max: mean + 1}}}}
	if change != nil {
		change(&out)
	}
	b.said = append(b.said, out)
	s.do(out)
}

func shift(by float64) func(*step.Result) {
	return func(r *step.Result) {
		m := r.Result.Metrics["x"]
		m.Mean, m.Min, m.Max = m.Mean+by, m.Min+by, m.Max+by
		r.Result.Metrics["x"] = m
	}
}

func failing(class job.FailureClass) func(*step.Result) {
	return func(r *step.Result) { r.Result, r.Error, r.Class = nil, "no", class }
}

// member lets an honest host get on.
func (s *siege) member(n cluster.NodeID) {
	b := s.hosts[n]
	for len(b.ends) > 0 && b.ends[0] <= s.now {
		b.ends = b.ends[1:]
		s.runs++
		s.answer(n, nil)
	}
	for len(b.ends) < min(b.slots, len(b.queue)) {
		b.ends = append(b.ends, s.now+siegeTime)
	}
}

// worst lets a stranger do its worst.
func (s *siege) worst(n cluster.NodeID) {
	b := s.hosts[n]
	if !b.up {
		switch {
		case s.now >= b.back+150*time.Second: // dead for half a minute by now
			s.do(step.HealthChanged{Worker: n, Health: cluster.Left})
			s.do(step.HealthChanged{Worker: n, Health: cluster.Alive})
			s.connect(n)
		case s.now >= b.back+120*time.Second && len(b.queue) > 0:
			b.queue = nil
			s.do(step.HealthChanged{Worker: n, Health: cluster.Dead})
		}
		return
	}
	has := len(b.queue) > 0
	switch b.hostile {
	case "flood":
		for _, r := range b.said {
			s.do(r)
		}
		for range 20 {
			s.do(step.Result{Attempt: job.Attempt{Job: "j", Chunk: s.rng.IntN(500), Number: 1 + s.rng.IntN(2), Worker: n}, Error: "made up"})
		}
		if has {
			s.answer(n, failing(""))
		}
	case "claim":
		s.do(step.WorkerHolds{Worker: n, Refs: []job.Attempt{{Job: "j", Chunk: s.rng.IntN(500), Number: 1}}})
		if s.rng.IntN(10) == 0 {
			s.connect(n)
		}
	case "silent":
		var list []step.Progress
		for i, r := range b.queue {
			list = append(list, step.Progress{Attempt: r, Done: uint64(s.now/time.Minute)%10 + uint64(i%2)})
		}
		s.do(step.WorkerStatus{Worker: n, Ready: true, Progress: list})
	}
	if !has || s.rng.IntN(4) > 0 {
		return
	}
	switch b.hostile {
	case "lie":
		s.answer(n, shift(1+s.rng.Float64()))
	case "collude":
		s.answer(n, shift(1))
	case "vanish":
		b.up, b.back = false, s.now
		s.do(step.WorkerDisconnected{Worker: n})
	case "fail":
		s.answer(n, failing(""))
	case "infra":
		s.answer(n, failing(job.FailedInfra))
	case "return":
		s.answer(n, failing(job.HandedBack))
	case "hurry":
		s.answer(n, func(r *step.Result) { r.Seconds = 1e-9 })
	case "slow":
		s.answer(n, func(r *step.Result) { r.Seconds = 1e6 })
	case "sleep": // it earns trust first
		if b := s.p.roster.byNode[n]; b.Established() {
			s.answer(n, shift(2))
		} else {
			s.answer(n, nil)
		}
	}
}

// run lets time pass until the job ends, and returns how long that took.
func (s *siege) run() time.Duration {
	s.t.Helper()
	start := s.now
	for s.ended == "" {
		if s.now += 500 * time.Millisecond; s.now > start+6*time.Hour {
			s.t.Fatalf("the job hangs: %d chunks accepted of %d", len(s.accepts), s.spec.Chunks())
		}
		for _, n := range s.names {
			if s.hosts[n].hostile == "" {
				s.member(n)
			} else {
				s.worst(n)
			}
		}
		s.do(step.Tick{})
		if err := s.p.Check(); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.now - start
}

// TestHostile lets nearly a hundred strangers do their worst beside three members: what
// they say wrongly does not count, the job is completed, each chunk once, and members
// lose less than a tenth of their time, by the clock and in chunks that they computed
// in vain.
func TestHostile(t *testing.T) {
	const chunks = 1500
	need := newSiege(t, 1, chunks, 0).run()
	seeds := uint64(2)
	if prove() {
		seeds = 20
	}
	for seed := range seeds {
		s := newSiege(t, seed, chunks, useless)
		took := s.run()
		vain := s.runs - chunks
		t.Logf("%s alone, %s besieged; members computed %d chunks, %d of them in vain", need, took, s.runs, vain)
		if s.ended != job.Completed || len(s.accepts) != chunks || s.strange > 0 {
			t.Errorf("the job ended %s with %d chunks, %d of strangers", s.ended, len(s.accepts), s.strange)
		}
		if took > need*11/10 || vain > chunks/10 {
			t.Errorf("members lost %s of %s, and %d of %d chunks", took-need, need, vain, s.runs)
		}
		for n, b := range s.hosts {
			if (b.hostile == "lie" || b.hostile == "collude") && b.wrong < trust.MaxWrong {
				t.Errorf("%s was wrong %d times only: the test lost its point", n, b.wrong)
			}
		}
	}
}

// TestSleepers adds strangers that compute honestly, and lie about their time only, and two
// that lie once they are believed: until a sample shows it.
func TestSleepers(t *testing.T) {
	const chunks = 1500
	need := newSiege(t, 1, chunks, 0).run()
	s := newSiege(t, 1, chunks, len(hostilities))
	took := s.run()
	t.Logf("%s alone, %s besieged and helped; %d results of strangers count, %d wrong ones", need, took, s.strange, s.wrong)
	if s.ended != job.Completed || len(s.accepts) != chunks || took > need || s.strange == 0 {
		t.Errorf("the job ended %s with %d chunks after %s", s.ended, len(s.accepts), took)
	}
	if s.wrong == 0 || s.wrong > 300 {
		t.Errorf("%d results of those that were believed are wrong", s.wrong)
	}
}
