package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// A job that no worker may run says what keeps each of them from it.
func TestStarvedSaysWhy(t *testing.T) {
	b := newBench(t)
	for n, e := range map[cluster.NodeID]step.WorkerConnected{
		"a": {Owner: "uid:2", Executors: []string{job.ExecutorWASM}},
		"b": {Owner: "uid:3", Executors: []string{job.ExecutorWASM}},
		"c": {Owner: "uid:1", Executors: []string{"exec:render"}},
	} {
		e.Worker, e.Slots = n, 2
		b.do(e)
	}
	spec := specOf(2, 4)
	spec.Permission.Access = job.AccessOwner
	b.do(step.JobAdded{Job: "j", Spec: spec, Owner: "uid:1"})
	b.do(step.Tick{})
	b.now += time.Minute
	b.want(b.do(step.Tick{}), "starved j: 0 of 3 workers eligible: a, b: not a worker of its owner uid:1; c: no executor wasm")
	if s := b.p.Stats(); s.JobsStarved != 1 {
		t.Errorf("%d jobs starve, want 1", s.JobsStarved)
	}
	b.do(step.Draining{Worker: "c", On: true})
	b.do(step.WorkerConnected{Worker: "d", Slots: 1, Owner: "uid:1", Executors: []string{job.ExecutorWASM}, Draining: true})
	b.do(step.HealthChanged{Worker: "e", Health: cluster.Dead})
	if got := b.p.Waiting(b.now); len(got) != 0 {
		t.Errorf("%v while e may be on its way", got)
	}
	b.now += vital.FirstContact
	got := b.p.Waiting(b.now)
	if want := "0 of 5 workers eligible: c, d: draining; a, b: not a worker of its owner uid:1; e: dead"; len(got) != 1 || got[0].Why.String() != want || b.now-got[0].Since < time.Minute {
		t.Errorf("%v, want %s", got, want)
	}
	b.do(step.Draining{Worker: "d"})
	b.do(step.Tick{})
	if s := b.p.Stats(); s.JobsStarved != 0 {
		t.Errorf("%d jobs starve, want none", s.JobsStarved)
	}
}

// What no worker can run is known only once the hosts had time to tell.
func TestNeverRuns(t *testing.T) {
	b := newBench(t)
	render := job.Spec{Executor: job.ExecutorExec, Program: "render"}
	zoned := job.Spec{Policy: job.Policy{Zones: []string{"osl", "fra"}}}.WithDefaults()
	secret := job.Spec{Policy: job.Policy{Permission: job.Permission{Access: job.AccessGroup, Groups: []string{"ghosts"}}}}.WithDefaults()
	want := func(spec job.Spec, never string) {
		t.Helper()
		why := b.p.Foresee(spec, "uid:1", b.now)
		if got := why.String(); why.Never != (never != "") || why.Never && got != never {
			t.Errorf("%t %q, want %q", why.Never, got, never)
		}
	}
	want(render, "") // nobody was heard
	b.up("a", 1)
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	want(render, "") // b may have it
	b.now += vital.FirstContact
	want(render, "0 of 2 workers eligible: a: program render is not allowed there; b: not reached")
	want(zoned, "0 of 2 workers eligible: b: not reached; a: not in zone fra or osl")
	want(secret, "0 of 2 workers eligible: b: not reached; a: there is no group ghosts")
	b.do(step.GroupChanged{Group: "ghosts", Members: []string{"uid:9"}})
	want(secret, "0 of 2 workers eligible: b: not reached; a: not in group ghosts")
	b.do(step.HostKnown{Worker: "b", Zone: "fra"})
	b.do(step.WorkerConnected{Worker: "b", Slots: 1, Owner: "uid:9", Executors: []string{job.ExecutorWASM, "exec:render"}})
	for _, spec := range []job.Spec{render, zoned, secret} {
		want(spec, "")
	}
	b.do(step.Draining{Worker: "b", On: true})
	want(render, "") // it does not drain for ever
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Dead})
	b.do(step.WorkerDisconnected{Worker: "b"})
	b.now += vital.FirstContact
	want(render, "") // it may come back, and is waited for
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	b.do(step.WorkerConnected{Worker: "b", Slots: 1, Executors: []string{job.ExecutorWASM}})
	want(render, "0 of 2 workers eligible: a, b: program render is not allowed there")
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Left})
	b.do(step.WorkerDisconnected{Worker: "b"})
	want(render, "0 of 1 worker eligible: a: program render is not allowed there")
}

// Each worker stands under the first of its reasons, and those of the job come before.
func TestExplain(t *testing.T) {
	wasm := []string{job.ExecutorWASM}
	up := func(n cluster.NodeID, change func(*step.WorkerConnected)) step.Event {
		e := step.WorkerConnected{Worker: n, Slots: 1, Credits: 1, Executors: wasm, Owner: "ann", Memory: 1 << 30}
		if change != nil {
			change(&e)
		}
		return e
	}
	spec := specOf(8, 4)
	spec.Zones, spec.MemoryBytes = []string{"osl"}, 512<<20
	spec.Permission = job.Permission{Access: job.AccessUser, Users: []string{"ann", "bob"}}
	for name, c := range map[string]struct {
		events []step.Event
		want   eligible.Reason
		text   string
	}{
		"nothing":       {nil, eligible.Busy, "has no room"}, // it was given a chunk
		"dead":          {[]step.Event{step.HealthChanged{Worker: "w", Health: cluster.Dead}, step.WorkerDisconnected{Worker: "w"}}, eligible.Gone, "dead"},
		"no stream":     {[]step.Event{step.WorkerDisconnected{Worker: "w"}}, eligible.NoStream, "not reached"},
		"suspect":       {[]step.Event{step.HealthChanged{Worker: "w", Health: cluster.Suspect}}, eligible.NoStream, "not reached"},
		"draining":      {[]step.Event{step.Draining{Worker: "w", On: true}}, eligible.Draining, "draining"},
		"not ready":     {[]step.Event{step.WorkerStatus{Worker: "w"}}, eligible.Unready, "not ready"},
		"executor":      {[]step.Event{up("w", func(e *step.WorkerConnected) { e.Executors = []string{"exec:render"} })}, eligible.LacksExecutor, "no executor wasm"},
		"memory":        {[]step.Event{up("w", func(e *step.WorkerConnected) { e.Memory = 512<<20 - 1 })}, eligible.LacksMemory, "it allows less memory than 512 MiB"},
		"enough memory": {[]step.Event{up("w", func(e *step.WorkerConnected) { e.Memory = 512 << 20 })}, eligible.Busy, "has no room"},
		"earlier one":   {[]step.Event{up("w", func(e *step.WorkerConnected) { e.Memory = 0 })}, eligible.Busy, "has no room"},
		"zone":          {[]step.Event{step.HostKnown{Worker: "w", Zone: "fra"}}, eligible.LacksZone, "not in zone osl"},
		"permission":    {[]step.Event{step.OwnerChanged{Worker: "w", Owner: "eve"}}, eligible.LacksPermission, "not a worker of ann or bob"},
		"not accepted":  {[]step.Event{step.OwnerChanged{Worker: "w", Owner: "bob", Accept: job.Acceptance{Accept: job.AcceptOwner}}}, eligible.LacksAccept, "its host does not run the jobs of ann"},
		"the first of many": {[]step.Event{
			step.HostKnown{Worker: "w", Zone: "fra"}, step.OwnerChanged{Worker: "w", Owner: "eve"}, step.Draining{Worker: "w", On: true},
		}, eligible.Draining, "draining"},
	} {
		b := newBench(t)
		b.do(up("w", nil))
		b.do(step.HostKnown{Worker: "w", Zone: "osl"})
		b.do(step.JobAdded{Job: "j", Spec: spec, Owner: "ann"})
		for _, e := range c.events {
			b.do(e)
		}
		why, _, ok := b.p.Explain("j", b.now)
		rows := why.Rows()
		if !ok || why.Job.Reason != "" || len(rows) != 1 || rows[0].Reason != c.want || rows[0].Text != c.text || rows[0].Eligible != (c.want == eligible.Busy) || why.Main() != c.want {
			t.Errorf("%s: %+v, want %s: %s", name, why, c.want, c.text)
		}
	}
}

// What became of a job's chunks keeps workers from it, or the job from all of them.
func TestExplainWhatHappened(t *testing.T) {
	b := newBench(t)
	want := func(job, rows string) {
		t.Helper()
		why, since, ok := b.p.Explain("j", b.now)
		got := ""
		for _, r := range why.Rows() {
			got += fmt.Sprintf("%s %s, ", r.Node, r.Reason)
		}
		if !ok || string(why.Job.Reason) != job || got != rows || (since > 0) != (b.p.work.byID["j"].count[assigned] == 0) {
			t.Errorf("%q %q since %s (%s), want %q %q", why.Job.Reason, got, since, why, job, rows)
		}
	}
	if _, _, ok := b.p.Explain("j", b.now); ok {
		t.Error("a job that there is not is explained")
	}
	one := func(n cluster.NodeID, has ...job.Attempt) {
		b.do(step.WorkerConnected{Worker: n, Slots: 1, Credits: 1, Executors: []string{job.ExecutorWASM}, Assigned: has})
	}
	b.do(step.Hold{On: true})
	spec := specOf(1, 2)
	spec.OnPartial, spec.Replication.Policy = job.PartialWait, job.CheckAll
	b.do(step.JobAdded{Job: "j", Spec: spec.WithDefaults(), Owner: "ann"})
	one("a")
	b.do(step.Tick{})
	want("held", "a , ")
	b.do(step.Hold{})
	want("", "a busy, ")
	b.good("a", "j", 0, 1) // another's is wanted
	want("", "a opinion, ")
	b.now += queueing + time.Second
	b.do(step.Tick{})
	b.now += queueing
	if w := b.p.Waiting(b.now); len(w) != 1 || w[0].Why.String() != "0 of 1 worker eligible: a: its result is known, another host's is wanted" {
		t.Errorf("%+v", w)
	}
	one("b")
	want("", "a , b busy, ")
	b.bad("b", "j", 0, 2, "exit 3")
	b.do(step.Tick{})
	want("backoff", "a , b , ")
	b.now += MaxBackoff
	b.do(step.Tick{}) // nobody else is there
	want("", "a , b busy, ")
	one("c")
	b.bad("b", "j", 0, 3, "exit 3")
	b.do(step.Tick{})
	want("operator", "a , b , c , ")
	if w := b.p.Waiting(b.now + queueing); len(w) != 1 || w[0].Why.String() != "for an operator, all 1 chunks given up" {
		t.Errorf("%+v", w)
	}
	b.do(step.JobReleased{Job: "j", Actor: "x"})
	if why, _, _ := b.p.Explain("j", b.now); why.Job.Reason != "" {
		t.Errorf("released: %s", why)
	}
	// One at which it failed comes last.
	b = newBench(t)
	b.do(step.JobAdded{Job: "j", Spec: specOf(2, 4), Owner: "ann"})
	one("a")
	b.bad("a", "j", 0, 1, "exit 3")
	one("b")
	b.do(step.JobAdded{Job: "k", Spec: specOf(1, 4), Owner: "bob"})
	b.good("a", "j", 1, 1)
	b.now += MaxBackoff
	b.do(step.Tick{})
	want("", "a excluded, b busy, ")
}
