package plan

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
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
	b.now += firstContact
	got := b.p.Waiting(b.now)
	if want := "0 of 5 workers eligible: a, b: not a worker of its owner uid:1; d: draining; c: no executor wasm; e: dead"; len(got) != 1 || got[0].Why.String() != want || b.now-got[0].Since < time.Minute {
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
		why := b.p.Explain(spec, "uid:1", b.now)
		if got := why.String(); why.Never != (never != "") || why.Never && got != never {
			t.Errorf("%t %q, want %q", why.Never, got, never)
		}
	}
	want(render, "") // nobody was heard
	b.up("a", 1)
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	want(render, "") // b may have it
	b.now += firstContact
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
	b.now += firstContact
	want(render, "") // it may come back, and is waited for
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	b.do(step.WorkerConnected{Worker: "b", Slots: 1, Executors: []string{job.ExecutorWASM}})
	want(render, "0 of 2 workers eligible: a, b: program render is not allowed there")
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Left})
	b.do(step.WorkerDisconnected{Worker: "b"})
	want(render, "0 of 1 worker eligible: a: program render is not allowed there")
}
