package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// chain writes events of one source for tests.
type chain struct {
	src    event.SourceID
	events []event.Event
}

func newChain(node cluster.NodeID) *chain {
	return &chain{src: event.SourceID{Node: node, Inc: 1}}
}

func (c *chain) seq() uint64 { return uint64(len(c.events)) }

func (c *chain) add(hlc cluster.HLC, term cluster.Term, kind event.Kind, body any) event.Event {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	e := event.Event{Source: c.src, Seq: c.seq() + 1, HLC: hlc, Term: term, Kind: kind, Body: b}
	c.events = append(c.events, e)
	return e
}

func (c *chain) start(hlc cluster.HLC, term cluster.Term, cut ...*chain) event.Event {
	return c.begin(hlc, term, false, cut...)
}

func (c *chain) begin(hlc cluster.HLC, term cluster.Term, split bool, cut ...*chain) event.Event {
	var at event.Cut
	for _, o := range cut {
		if o.seq() > 0 {
			at = append(at, event.SourceMark{Source: o.src, Mark: event.Mark{Seq: o.seq()}})
		}
	}
	return c.add(hlc, term, event.KindTermStart, event.TermStart{Term: term, Cut: at, Split: split, Profile: cluster.ProfileLAN})
}

func testSpec(key string, iterations, chunk uint64) job.Spec {
	return job.Spec{Key: key, Artefact: cluster.Hash{1}, Iterations: iterations, Chunk: chunk}.WithDefaults()
}

func (c *chain) submit(hlc cluster.HLC, term cluster.Term, id job.ID, spec job.Spec) event.Event {
	return c.add(hlc, term, event.KindJobSubmitted, event.JobSubmitted{Job: id, Spec: spec, Owner: "uid:1", Chunks: spec.Chunks()})
}

func (c *chain) assign(hlc cluster.HLC, term cluster.Term, id job.ID, as ...job.Attempt) event.Event {
	return c.add(hlc, term, event.KindChunksAssigned, event.ChunksAssigned{Job: id, Assignments: as})
}

func result(n uint64, mean float64) job.ChunkResult {
	m := job.Metric{N: n, Mean: mean, M2: float64(n) / 8, Min: mean - 1, Max: mean + 1}
	return job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{"x": m}}
}

func (c *chain) accept(hlc cluster.HLC, term cluster.Term, id job.ID, chunk, attempt int, r job.ChunkResult) event.Event {
	return c.add(hlc, term, event.KindChunkAccepted, event.ChunkAccepted{
		Job: id, Chunk: chunk, Attempt: attempt, Worker: "w1", Result: r, Seconds: 0.1 * float64(chunk+1),
	})
}

// fold applies the chains in a random interleaving, the way a log would.
func fold(rng *rand.Rand, chains ...*chain) (s *State, rebuilds int) {
	s = New()
	var seen []event.Event
	next := make([]int, len(chains))
	for {
		var open []int
		for i, c := range chains {
			if next[i] < len(c.events) {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return s, rebuilds
		}
		i := open[rng.IntN(len(open))]
		for range 1 + rng.IntN(4) {
			if next[i] == len(chains[i].events) {
				break
			}
			e := chains[i].events[next[i]]
			next[i]++
			seen = append(seen, e)
			if s.Apply(e) {
				rebuilds++
				s.Refold(nil, slices.Values(seen))
			}
		}
	}
}

// history is what clusters live through: terms that follow each other, holders
// that go on writing after they were deposed, term_starts that nobody saw,
// splits in which two terms work on one job, events in every wrong order.
func history(rng *rand.Rand) []*chain {
	chains := []*chain{newChain("a"), newChain("b"), newChain("c")}
	ids := []job.ID{"j1", "j2", "j3"}
	hlc := cluster.HLC(1000)
	tick := func() cluster.HLC { hlc += cluster.HLC(1 + rng.IntN(3)); return hlc - cluster.HLC(rng.IntN(4)) }
	for _, c := range chains {
		c.add(tick(), 0, event.KindHostStarted, event.HostStarted{Version: "v", Boot: 1})
	}
	holding := make([]cluster.Term, len(chains))
	for range 60 + rng.IntN(120) {
		i := rng.IntN(len(chains))
		c := chains[i]
		if rng.IntN(12) == 0 || holding[i] == 0 {
			top := slices.Max(holding)
			var cut []*chain
			for _, o := range chains {
				if o == c || rng.IntN(4) > 0 { // now and then a chain was not caught up
					cut = append(cut, o)
				}
			}
			holding[i] = top + cluster.Term(rng.IntN(3))
			if holding[i] == 0 {
				holding[i] = 1
			}
			c.begin(tick(), holding[i], rng.IntN(5) == 0, cut...)
			continue
		}
		randomEvent(rng, c, tick(), holding[i], ids[rng.IntN(len(ids))])
	}
	return chains
}

// enrolled is an outside worker, one for each number.
func enrolled(n byte, owner string) event.WorkerEnrolled {
	key := bytes.Repeat([]byte{n}, 32)
	return event.WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: owner}
}

// randomRun is an event about one of two runs of workflows.
func randomRun(rng *rand.Rand, c *chain, hlc cluster.HLC, term cluster.Term) {
	run := flow.NewRunID("uid:1", fmt.Sprint(rng.IntN(2)))
	step, try := []string{"a", "b", ""}[rng.IntN(3)], 1+rng.IntN(2)
	switch rng.IntN(7) {
	case 0:
		c.add(hlc, term, event.KindFlowSubmitted, event.WorkflowSubmitted{
			Run: run, Owner: fmt.Sprint("uid:", rng.IntN(2)), Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`),
		})
	case 1:
		c.add(hlc, term, event.KindStepsStarted, event.StepsStarted{Run: run, Starts: []event.StepStart{{Step: step, Try: try, Job: job.ID(fmt.Sprint("j", hlc))}}})
	case 2:
		c.add(hlc, term, event.KindStepsEnded, event.StepsEnded{Run: run, Ends: []event.StepEnd{{Step: step, Try: try, State: []flow.State{flow.Failed, flow.Completed, "odd"}[rng.IntN(3)]}}})
	case 3:
		c.add(hlc, term, event.KindFlowStopped, event.WorkflowStopped{Run: run, Round: rng.IntN(2), Actor: fmt.Sprint(hlc)})
	case 4:
		c.add(hlc, term, event.KindFlowRetried, event.WorkflowRetried{Run: run, Round: rng.IntN(3), Actor: fmt.Sprint(hlc)})
	case 5:
		c.add(hlc, term, event.KindFlowDone, event.WorkflowDone{Run: run, Round: rng.IntN(2), State: flow.Failed, Reason: fmt.Sprint(hlc)})
	default:
		if rng.IntN(3) == 0 {
			c.add(hlc, term, event.KindFlowsForgotten, event.WorkflowsForgotten{Runs: []flow.RunID{run}})
		}
	}
}

func randomEvent(rng *rand.Rand, c *chain, hlc cluster.HLC, term cluster.Term, id job.ID) {
	chunk, attempt := rng.IntN(7), 1+rng.IntN(3)
	worker := []cluster.NodeID{"w1", "w2"}[rng.IntN(2)]
	switch rng.IntN(33) {
	case 32:
		c.add(hlc, term, event.KindJobZones, event.JobZones{Job: id, Zones: []string{"ams", "fra", "rome"}[rng.IntN(3):][:rng.IntN(2)]})
	case 0, 1, 2:
		// Mostly the same spec; a split may submit another one under the same name.
		spec := testSpec("k", 60+10*uint64(rng.IntN(8)/7), 10)
		if id == "j1" {
			spec.Outputs = []string{"f"} // what is accepted without it, or elsewhere with it, is void
		}
		c.submit(hlc, term, id, spec)
	case 3, 4, 5:
		c.assign(hlc, term, id, job.Attempt{Chunk: chunk, Number: attempt, Worker: worker},
			job.Attempt{Chunk: rng.IntN(7), Number: attempt, Worker: worker})
	case 6:
		c.add(hlc, term, event.KindChunkFailed, event.ChunkFailed{
			Job: id, Chunk: chunk, Attempt: attempt, Worker: worker, Reason: fmt.Sprint("exit ", hlc), Final: rng.IntN(6) == 0, Parked: rng.IntN(2) == 0,
			Log: cluster.Hash{byte(rng.IntN(3))},
		})
	case 7:
		c.add(hlc, term, event.KindChunkReclaimed, event.ChunkReclaimed{Job: id, Chunk: chunk, Attempt: attempt, Worker: worker})
	case 8, 9, 10:
		r := result(10, math.Pow(10, float64(chunk))/3)
		if chunk%3 > 0 {
			// An honest chunk gives the same each time.
			r.Metrics["y"] = job.Metric{N: 3, Mean: 0.1, M2: 0.01, Min: 0, Max: 0.3, Sketch: &job.Sketch{
				Level: chunk % 2, Zero: 1, Above: []int64{-64 - 2*int64(chunk), 2},
			}}
		}
		if rng.IntN(8) == 0 {
			r = result(10, math.Pow(10, float64(rng.IntN(6)))*rng.NormFloat64())
		}
		if id == "j1" || rng.IntN(8) == 0 {
			r.Outputs = job.Files{"f": {Hash: cluster.Hash{byte(1 + chunk), byte(rng.IntN(8) / 7)}, Size: int64(chunk)}}
		}
		c.accept(hlc, term, id, chunk, attempt, r)
	case 11:
		if rng.IntN(4) == 0 {
			done := event.JobDone{Job: id, State: job.Partial, Reason: fmt.Sprint(hlc)}
			if rng.IntN(2) == 0 {
				done.Result = randomResult(rng)
			}
			c.add(hlc, term, event.KindJobDone, done)
		} else {
			c.add(hlc, term, event.KindJobStopped, event.JobStopped{Job: id, Actor: string(worker), Cause: []job.StopCause{"", job.StopDeadline, "odd"}[rng.IntN(3)]})
		}
	case 12:
		c.add(hlc, term, event.KindConfigChanged, event.ConfigChanged{Config: cluster.VoterConfig{
			Epoch: uint64(1 + rng.IntN(3)), Term: term, Voters: []cluster.NodeID{worker}, Mode: cluster.ModeSingle,
		}})
	case 13:
		randomFact(rng, c, hlc, term, worker)
	case 16:
		if rng.IntN(3) == 0 {
			c.add(hlc, term, event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{id, ""}})
		}
	case 17:
		c.add(hlc, term, event.KindGroupSet, event.GroupSet{
			Group: "g", Members: []string{"a", "b", "c", "c"}[:rng.IntN(5)], Actor: string(worker),
		})
	case 20:
		c.add(hlc, term, event.KindUserSet, event.UserSet{
			Name: []string{"ann", "bob", "B"}[rng.IntN(3)], Role: []string{"viewer", "operator"}[rng.IntN(2)], Disabled: rng.IntN(2) == 0, Actor: string(worker),
			Keys: [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}[:rng.IntN(3)], UIDs: []uint64{1, 1000}[:rng.IntN(3)],
		})
	case 21:
		c.add(hlc, term, event.KindHostOwnerSet, event.HostOwnerSet{
			Node: []cluster.NodeID{"a", "b", ""}[rng.IntN(3)], Owner: []string{"", "user:ann", "user:bob"}[rng.IntN(3)], Actor: string(worker),
		})
	case 22:
		b := enrolled(byte(rng.IntN(3)), []string{"user:ann", "user:bob", "node:a"}[rng.IntN(3)])
		b.Trusted, b.Actor = rng.IntN(2) == 0, string(worker)
		c.add(hlc, term, event.KindWorkerEnrolled, b)
	case 23:
		c.add(hlc, term, event.KindWorkerRevoked, event.WorkerRevoked{Worker: enrolled(byte(rng.IntN(9)), "").Worker, Actor: string(worker)})
	case 24:
		c.add(hlc, term, event.KindAccessSet, event.AccessSet{
			ID: []string{"aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaa2", "a"}[rng.IntN(3)], Hash: cluster.Hash{1, byte(rng.IntN(2))}, Owner: "user:ann",
			Roles: []string{"submit", "watch", "work"}[:rng.IntN(4)], Expires: int64(rng.IntN(4)), Actor: string(worker),
		})
	case 25:
		c.add(hlc, 0, event.KindGatewayOpened, event.GatewayOpened{
			URL: "https://gw", KID: []string{"k1", "k2", "k3", "k4"}[rng.IntN(4)], Key: make([]byte, 32), Store: []string{"memory", "redis", "x"}[rng.IntN(3)], Until: 1 + int64(rng.IntN(4)),
		})
	case 26, 27, 28:
		randomRun(rng, c, hlc, term)
	case 29:
		name := []string{"a", "b", "a b"}[rng.IntN(3)]
		c.add(hlc, term, event.KindScheduleSet, event.ScheduleSet{
			Schedule: flow.NewScheduleID("uid:1", name), Owner: "uid:1", Name: name, Cron: "@daily", Missed: flow.MissedAll, Overlap: flow.OverlapQueue, Since: int64(rng.IntN(9)),
			Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`), Removed: rng.IntN(3) == 0,
		})
	case 30:
		c.add(hlc, term, event.KindScheduleFired, event.ScheduleFired{
			Schedule: flow.NewScheduleID("uid:1", []string{"a", "b"}[rng.IntN(2)]), At: int64(rng.IntN(50)), Skipped: fmt.Sprint(hlc),
		})
	case 31:
		b := event.LoadRun{
			Run: event.NewLoadID("uid:1", fmt.Sprint(rng.IntN(3))), Owner: "uid:1", Bundle: cluster.Hash{1}, State: event.LoadQueued, Since: int64(rng.IntN(9)), Actor: string(worker),
		}
		if rng.IntN(2) == 0 {
			b.State, b.Verdict, b.Report = event.LoadEnded, []string{"passed", ""}[rng.IntN(2)], cluster.Hash{byte(rng.IntN(3))}
		}
		c.add(hlc, term, event.KindLoadRun, b)
	case 18:
		c.add(hlc, 0, event.KindOnionSet, onionOf(byte(rng.IntN(3)), uint64(rng.IntN(4))))
	case 19:
		first := rng.IntN(6)
		c.add(hlc, term, event.KindChunksReleased, event.ChunksReleased{
			Job: id, Attempt: rng.IntN(4), Chunks: []job.Span{{First: first, Last: first + rng.IntN(3)}, {First: 2, Last: 2}}, Actor: string(worker),
		})
	case 14:
		c.add(hlc, term, event.KindJobQueued, event.JobWaiting{Job: id, Reason: fmt.Sprint("since ", hlc)})
	case 15:
		b := event.ChunksAccepted{Job: id}
		for range rng.IntN(4) {
			b.Accepts = append(b.Accepts, event.Accept{
				Chunk: rng.IntN(7), Attempt: attempt, Worker: worker, Result: result(10, float64(rng.IntN(3))), Settles: rng.IntN(3) == 0,
			})
		}
		c.add(hlc, term, event.KindChunksAccepted, b)
	}
}

func randomResult(rng *rand.Rand) *job.Result {
	n := rng.IntN(7)
	r := &job.Result{Accepted: n, Failed: rng.IntN(7 - n), Iterations: uint64(10 * n), Micros: rng.Int64N(1e6)}
	if n > 0 {
		r.Disputed = rng.IntN(n)
		r.Metrics = result(uint64(10*n), rng.NormFloat64()).Metrics
		r.Workers = []job.WorkShare{{Worker: "w1", Chunks: n, Iterations: uint64(10 * n)}}
	}
	if r.Failed > 0 && rng.IntN(2) == 0 {
		r.GivenUp = []job.FailShare{{Worker: "w2", Chunks: 1 + rng.IntN(r.Failed+1)}} // one more than there are is refused
	}
	return r
}

// randomFact tells something without authority about a host.
func randomFact(rng *rand.Rand, c *chain, hlc cluster.HLC, term cluster.Term, n cluster.NodeID) {
	actor := fmt.Sprint("uid:0@", n)
	switch rng.IntN(10) {
	case 9:
		c.add(hlc, 0, event.KindHostDisk, event.HostDisk{State: []string{"ok", "low", "gone"}[rng.IntN(3)]})
	case 0, 1:
		c.add(hlc, 0, event.KindMemberJoined, event.MemberJoined{Node: n, IDPub: []byte{byte(rng.IntN(3))}, IP4: "10.0.0.1", Invite: "i1"})
		c.add(hlc, 0, event.KindLeaseReleased, event.LeaseReleased{Term: term, Successor: n})
	case 2:
		c.add(hlc, 0, event.KindMemberLeft, event.MemberLeft{Node: n, Actor: actor})
	case 3:
		c.add(hlc, 0, event.KindMemberRemoved, event.MemberRemoved{Node: n, Actor: actor, Reason: fmt.Sprint(hlc)})
	case 4:
		c.add(hlc, 0, event.KindMemberRekeyed, event.MemberRekeyed{Node: n, WGPub: []byte{byte(rng.IntN(9))}, Actor: actor})
		c.add(hlc, 0, event.KindMemberRenewed, event.MemberRenewed{Node: n, Expires: rng.Int64()})
	case 5:
		c.add(hlc, 0, event.KindMemberHealth, event.MemberHealth{Node: n, From: cluster.Alive, To: cluster.Suspect})
	case 6:
		c.add(hlc, 0, event.KindPublishing, event.Publishing{Publishing: rng.IntN(2) == 0, Term: term, Publisher: n, Why: "test"})
		c.add(hlc, 0, event.KindLeaseLost, event.LeaseLost{Term: term, Reason: fmt.Sprint(hlc)})
	case 7:
		c.add(hlc, 0, event.KindTokenCreated, event.TokenChanged{Invite: "i1", Uses: 1, Actor: actor})
		c.add(hlc, 0, event.KindConfigReloaded, event.ConfigReloaded{Keys: []string{"node.zone"}})
	case 8:
		c.add(hlc, 0, event.KindStepDownAsked, event.StepDownAsked{Term: term, Successor: n, Actor: actor})
		c.add(hlc, 0, event.KindVotersSet, event.VotersSet{Voters: []cluster.NodeID{n}, Actor: actor})
	}
}

func rounds(few, many int) int {
	if os.Getenv("SKEIN_PROVE") == "1" {
		return many
	}
	return few
}

func TestOrderDoesNotMatter(t *testing.T) {
	total := 0
	for seed := range uint64(rounds(25, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		chains := history(rng)
		var all []event.Event
		for _, c := range chains {
			all = append(all, c.events...)
		}
		want := New()
		want.Refold(nil, slices.Values(all))
		for range 4 {
			got, rebuilds := fold(rng, chains...)
			total += rebuilds
			if got.Hash() != want.Hash() || !bytes.Equal(encoded(t, got), encoded(t, want)) {
				for _, id := range []job.ID{"j1", "j2", "j3"} {
					g, _ := got.Job(id)
					w, _ := want.Job(id)
					t.Logf("%s:\n%+v\n%+v", id, g, w)
				}
				t.Fatalf("seed %d: the order of arrival changed the state", seed)
			}
			if err := counts(got); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	if total == 0 {
		t.Error("no history voided a folded event: the test lost its point")
	}
}

// naive says in the plainest way what a set of events leaves: from the highest
// term down it collects the fences that no higher one voids, and then looks at
// each event.
func naive(all []event.Event) (void uint64, terms []cluster.Term) {
	type fence struct {
		term cluster.Term
		body event.TermStart
	}
	var live []fence
	isVoid := func(e event.Event) bool {
		return slices.ContainsFunc(live, func(f fence) bool { return f.term > e.Term && e.Seq > f.body.Cut.Seq(e.Source) })
	}
	starts := slices.DeleteFunc(slices.Clone(all), func(e event.Event) bool { return e.Kind != event.KindTermStart })
	slices.SortFunc(starts, func(a, b event.Event) int { return int(b.Term) - int(a.Term) })
	for _, e := range starts {
		var body event.TermStart
		if err := json.Unmarshal(e.Body, &body); err != nil {
			panic(err)
		}
		if !isVoid(e) && !body.Split {
			live = append(live, fence{e.Term, body})
		}
	}
	for _, e := range all {
		switch {
		case !e.Kind.Authority():
		case isVoid(e):
			void++
		case e.Kind == event.KindTermStart:
			terms = append(terms, e.Term)
		}
	}
	slices.Sort(terms)
	return void, terms
}

func TestFencesAgainstTheNaiveTwin(t *testing.T) {
	voided := uint64(0)
	for seed := range uint64(rounds(25, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		chains := history(rng)
		var all []event.Event
		for _, c := range chains {
			all = append(all, c.events...)
		}
		want, terms := naive(all)
		s, _ := fold(rng, chains...)
		_, void, _ := s.Counts()
		var got []cluster.Term
		for _, term := range s.Terms() {
			got = append(got, term.Term)
		}
		if void != want || !slices.Equal(got, terms) {
			t.Fatalf("seed %d: %d void events and terms %v, the twin has %d and %v", seed, void, got, want, terms)
		}
		voided += void
	}
	if voided == 0 {
		t.Error("nothing was void: the test lost its point")
	}
}

// counts holds what the fold keeps incrementally of jobs against what Decode
// computes from their chunks.
func counts(s *State) error {
	b, err := s.AppendBinary(nil)
	if err != nil {
		return err
	}
	d, err := Decode(b)
	if err != nil {
		return err
	}
	return sameCounts(s, d)
}

func sameCounts(s, d *State) error {
	kept, computed := s.Jobs(), d.Jobs()
	if len(kept) != len(computed) {
		return fmt.Errorf("%d jobs, decoded %d", len(kept), len(computed))
	}
	for i, a := range kept {
		b := computed[i]
		if a.ID != b.ID || a.State != b.State || a.Counts != b.Counts || a.Iterations != b.Iterations || a.Disputed != b.Disputed || a.Seconds != b.Seconds {
			return fmt.Errorf("job %s has %+v, its chunks say %+v", a.ID, a, b)
		}
	}
	return nil
}

func TestDeposedHolder(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 20, 10))
	a.accept(3, 1, "j1", 0, 1, result(10, 1))
	b.start(4, 2, a, b)
	late := a.accept(3, 1, "j1", 1, 1, result(10, 5)) // beyond the cut, for all its early clock
	b.accept(9, 2, "j1", 1, 2, result(10, 7))
	check := func(name string, s *State) {
		t.Helper()
		j, ok := s.Job("j1")
		if !ok || j.Counts.Accepted != 2 || j.Disputed != 0 || j.Aggregates[0].Mean != 4 {
			t.Errorf("%s: %+v, want chunk 1 from term 2, mean 4", name, j)
		}
		if _, void, _ := s.Counts(); void != 1 {
			t.Errorf("%s: %d void events, want 1", name, void)
		}
	}
	s := New()
	for _, e := range slices.Concat(a.events[:3], b.events, []event.Event{late}) {
		if s.Apply(e) {
			t.Error("cut first: rebuild asked for nothing")
		}
	}
	check("cut first", s)

	s, asked := New(), false
	all := slices.Concat(a.events, b.events)
	for i, e := range all {
		if s.Apply(e) {
			asked = true
			s.Refold(nil, slices.Values(all[:i+1]))
		}
	}
	if !asked {
		t.Error("late event first: no rebuild was asked for")
	}
	check("late event first", s)
	for _, e := range all {
		if s.Apply(e) {
			t.Error("an event applied twice asked for a rebuild")
		}
	}
	check("twice", s)
}

// TestSplitTermsDoNotFence has two holders at once, as available mode
// allows: the jobs that each took while they were apart all count, each chunk
// once, in whatever order the chains arrive. A term that began by majority
// fences what it had not seen, also of such terms.
func TestSplitTermsDoNotFence(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	begin := func(c *chain, hlc cluster.HLC, term cluster.Term, split bool) {
		c.add(hlc, term, event.KindTermStart, event.TermStart{Term: term, Split: split, Cut: event.Cut{
			{Source: a.src, Mark: event.Mark{Seq: a.seq()}}, {Source: b.src, Mark: event.Mark{Seq: b.seq()}},
		}})
	}
	begin(a, 1, 2, true)
	a.submit(2, 2, "both", testSpec("k", 20, 10))
	begin(b, 3, 3, true)
	b.submit(4, 3, "b", testSpec("k2", 10, 10))
	b.accept(7, 3, "both", 0, 2, result(10, 2))
	a.submit(5, 2, "a", testSpec("k3", 10, 10)) // beyond the cut of term 3
	a.accept(6, 2, "both", 0, 1, result(10, 1))
	a.accept(8, 2, "both", 1, 1, result(10, 3))
	begin(a, 9, 4, true)
	for seed := range uint64(50) {
		s, _ := fold(rand.New(rand.NewPCG(seed, 5)), a, b)
		j, _ := s.Job("both")
		if j.Counts.Accepted != 2 || j.Iterations != 20 || j.Aggregates[0].Mean != 2 || len(s.Jobs()) != 3 || len(s.Terms()) != 3 {
			t.Fatalf("%+v, %d jobs, terms %+v; want both chunks, a's first, three jobs, three terms", j, len(s.Jobs()), s.Terms())
		}
	}
	begin(b, 10, 5, false)
	a.submit(11, 4, "late", testSpec("k4", 10, 10))
	for seed := range uint64(50) {
		s, _ := fold(rand.New(rand.NewPCG(seed, 6)), a, b)
		if _, ok := s.Job("late"); ok || len(s.Jobs()) != 3 {
			t.Fatal("what a majority had not seen was not fenced off")
		}
	}
}

func TestVoidTermStartFencesNothing(t *testing.T) {
	a, b, c := newChain("a"), newChain("b"), newChain("c")
	a.start(1, 1)
	b.start(2, 2) // saw nothing of a, and nobody saw it
	a.submit(3, 1, "j1", testSpec("k", 20, 10))
	c.start(4, 3, a, c)
	for seed := range uint64(50) {
		s, _ := fold(rand.New(rand.NewPCG(seed, 2)), a, b, c)
		if _, ok := s.Job("j1"); !ok {
			t.Fatal("a term_start beyond the cut voided what the next term had seen")
		}
		terms := s.Terms()
		if len(terms) != 2 || terms[0].Term != 1 || terms[1].Term != 3 {
			t.Fatalf("terms %+v, want 1 and 3", terms)
		}
		if last, ok := s.LastTerm(); !ok || last.Holder != "c" {
			t.Fatalf("last term %+v, want c's", last)
		}
	}
}

func TestFirstAcceptWins(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	spec := testSpec("k", 30, 10)
	a.start(1, 1)
	a.submit(2, 1, "j1", spec)
	b.start(2, 1)
	a.accept(5, 1, "j1", 0, 1, result(10, 1))
	b.accept(4, 1, "j1", 0, 2, result(10, 2)) // the other side of a split, earlier
	a.accept(6, 1, "j1", 1, 1, result(10, 3))
	b.accept(7, 1, "j1", 1, 1, result(10, 3)) // equal: no dispute
	for seed := range uint64(20) {
		s, _ := fold(rand.New(rand.NewPCG(seed, 3)), a, b)
		j, _ := s.Job("j1")
		if j.Counts.Accepted != 2 || j.Disputed != 1 || j.Iterations != 20 || j.Aggregates[0].Mean != 2.5 {
			t.Fatalf("%+v, want 2 accepted, 1 disputed, mean 2.5", j)
		}
	}
}

func TestOpen(t *testing.T) {
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 50, 10))
	a.assign(3, 1, "j1", job.Attempt{Chunk: 0, Number: 1, Worker: "w1"}, job.Attempt{Chunk: 1, Number: 1, Worker: "w2"},
		job.Attempt{Chunk: 2, Number: 1, Worker: "w1"}, job.Attempt{Chunk: 3, Number: 1, Worker: "w1"})
	a.accept(4, 1, "j1", 0, 1, result(10, 1))
	a.add(5, 1, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 1, Attempt: 1, Worker: "w2", Reason: "exit 3"})
	a.assign(6, 1, "j1", job.Attempt{Chunk: 1, Number: 2, Worker: "w1"})
	a.add(7, 1, event.KindChunkReclaimed, event.ChunkReclaimed{Job: "j1", Chunk: 2, Attempt: 1, Worker: "w1"})
	a.add(8, 1, event.KindChunkFailed, event.ChunkFailed{Job: "j1", Chunk: 3, Attempt: 1, Worker: "w1", Reason: "NaN", Final: true})
	s, _ := fold(rand.New(rand.NewPCG(1, 4)), a)
	open := s.Open("j1")
	if len(open) != 3 {
		t.Fatalf("%d open chunks, want 3: %+v", len(open), open)
	}
	one, two, four := open[0], open[1], open[2]
	if one.Chunk != 1 || one.Failed != 1 || one.Attempts != 2 || len(one.Open) != 1 || one.Open[0].Worker != "w1" || one.FailedOn[0] != "w2" {
		t.Errorf("chunk 1: %+v", one)
	}
	if two.Chunk != 2 || two.Reclaims != 1 || len(two.Open) != 0 || two.Attempts != 1 {
		t.Errorf("chunk 2: %+v", two)
	}
	if four.Chunk != 4 || four.Attempts != 0 {
		t.Errorf("chunk 4: %+v", four)
	}
	j, _ := s.Job("j1")
	if j.State != job.Running || j.Counts != (ChunkCounts{Pending: 2, Assigned: 1, Accepted: 1, Failed: 1}) {
		t.Errorf("job %+v", j)
	}
	if len(j.LastFailures) != 2 || j.LastFailures[1].Reason != "NaN" || !j.LastFailures[1].Final {
		t.Errorf("failures %+v", j.LastFailures)
	}
	a.add(9, 1, event.KindJobDone, event.JobDone{Job: "j1", State: job.Partial, Reason: "1 chunk"})
	s.Apply(a.events[len(a.events)-1])
	if j, _ := s.Job("j1"); j.State != job.Partial || j.Finished != 9 || len(s.Open("j1")) != 0 {
		t.Errorf("done job %+v", j)
	}
}

func TestJobByKey(t *testing.T) {
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, job.NewID("uid:1", "k"), testSpec("k", 20, 10))
	s, _ := fold(rand.New(rand.NewPCG(1, 5)), a)
	if j, ok := s.Job(job.NewID("uid:1", "k")); !ok || j.Spec.Key != "k" || len(s.Jobs()) != 1 {
		t.Errorf("%+v, %v", j, ok)
	}
	if _, ok := s.Job(job.NewID("uid:2", "k")); ok {
		t.Error("another owner's key found the job")
	}
}

func TestBadEventsChangeNothing(t *testing.T) {
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 20, 10))
	s, _ := fold(rand.New(rand.NewPCG(1, 6)), a)
	want := s.Hash()
	bad := result(10, 1)
	bad.Iterations = 11
	huge := testSpec("k", 20, 10)
	huge.Iterations = math.MaxUint64
	n := len(a.events)
	a.accept(3, 1, "j1", 0, 1, bad)
	a.accept(3, 1, "j1", 2, 1, result(10, 1))
	a.accept(3, 1, "j1", -1, 1, result(10, 1))
	a.accept(3, 0, "j1", 0, 1, result(10, 1)) // no term, no authority
	a.add(3, 1, event.KindJobSubmitted, event.JobSubmitted{Job: "j2", Spec: huge, Chunks: 1})
	a.add(3, 1, event.KindJobSubmitted, event.JobSubmitted{Job: "j2", Spec: testSpec("k", 20, 10), Chunks: 3})
	a.add(3, 1, event.KindJobDone, event.JobDone{Job: "j1", State: job.Running})
	a.add(3, 1, event.KindChunkFailed, []int{1})
	a.add(3, 1, event.KindTermStart, event.TermStart{Term: 9})
	a.add(3, 1, event.KindConfigChanged, event.ConfigChanged{})
	a.add(3, 1, "chunk_painted", "blue")
	for _, e := range a.events[n:] {
		if s.Apply(e) {
			t.Errorf("%s asked for a rebuild", e.Kind)
		}
		if s.Hash() != want {
			t.Errorf("%s %s changed the state", e.Kind, e.Body)
		}
	}
	if _, _, malformed := s.Counts(); malformed != 10 {
		t.Errorf("%d malformed events counted, want 10", malformed)
	}
}

func FuzzApply(f *testing.F) {
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 60, 10))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		randomEvent(rng, a, 3, 1, "j1")
	}
	for _, e := range a.events {
		f.Add(string(e.Kind), []byte(e.Body), uint64(e.Term), uint64(e.HLC))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte, term, hlc uint64) {
		if len(body) > 1<<16 {
			return
		}
		events := slices.Clone(a.events)
		events = append(events, event.Event{
			Source: a.src, Seq: a.seq() + 1, HLC: cluster.HLC(hlc), Term: cluster.Term(term), Kind: event.Kind(kind), Body: body,
		})
		s := New()
		for _, e := range events {
			if s.Apply(e) {
				s.Refold(nil, slices.Values(events))
			}
		}
		other := New()
		other.Refold(nil, slices.Values(events))
		if err := counts(s); err != nil || s.Hash() != other.Hash() {
			t.Errorf("%v, or two folds differ", err)
		}
	})
}

func BenchmarkApplyAccepted(b *testing.B) {
	const chunks = 1 << 14
	a := newChain("a")
	a.start(1, 1)
	a.submit(2, 1, "j1", testSpec("k", 10*chunks, 10))
	for i := range chunks {
		a.accept(cluster.HLC(3+i), 1, "j1", i, 1, result(10, float64(i)))
	}
	for b.Loop() {
		s := New()
		for _, e := range a.events {
			s.Apply(e)
		}
	}
	b.ReportMetric(float64(b.N*len(a.events))/b.Elapsed().Seconds(), "events/s")
}

// TestSubmittedAnewAfterALoser forgets a job that two terms had submitted with
// different specs, of which the later was read first; what was submitted anew
// since is a job of its own, in every order.
func TestSubmittedAnewAfterALoser(t *testing.T) {
	a, b, c := newChain("a"), newChain("b"), newChain("c")
	void := a.add(10, 2, event.KindJobQueued, event.JobWaiting{Job: "other"})
	lost := a.submit(30, 3, "j", testSpec("k", 70, 10))
	anew := a.submit(50, 7, "j", testSpec("k", 60, 10))
	forgotten := b.add(40, 6, event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{"j"}})
	opened := c.start(15, 3) // its cut has nothing of a
	won := c.submit(20, 3, "j", testSpec("k", 60, 10))

	want := New()
	in := []event.Event{opened, void, won, lost, forgotten, anew}
	for i, e := range in {
		if want.Apply(e) {
			want.Refold(nil, slices.Values(in[:i+1]))
		}
	}
	got := New()
	got.Refold(nil, slices.Values([]event.Event{void, lost, anew, forgotten, opened, won}))
	for name, s := range map[string]*State{"in order": want, "the later first": got} {
		if j, ok := s.Job("j"); !ok || j.Spec.Iterations != 60 {
			t.Errorf("%s: %+v, %v: the job that was submitted anew is lost", name, j, ok)
		}
	}
	if !bytes.Equal(encoded(t, got), encoded(t, want)) {
		t.Error("the order matters")
	}
}
