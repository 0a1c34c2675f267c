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
	b.want(b.do(step.Tick{}), "starved j: 0 of 3 workers eligible: permission 2, executor 1")
	if s := b.p.Stats(); s.JobsStarved != 1 {
		t.Errorf("%d jobs starve, want 1", s.JobsStarved)
	}
	b.do(step.Draining{Worker: "c", On: true})
	b.do(step.WorkerConnected{Worker: "d", Slots: 1, Owner: "uid:1", Executors: []string{job.ExecutorWASM}, Draining: true})
	if got := b.p.roster.eligible(b.p.work.byID["j"].class); got != "0 of 4 workers eligible: permission 2, draining 1, executor 1" {
		t.Error(got)
	}
	b.do(step.Draining{Worker: "d"})
	b.do(step.Tick{})
	if s := b.p.Stats(); s.JobsStarved != 0 {
		t.Errorf("%d jobs starve, want none", s.JobsStarved)
	}
}

// What no worker can run is known only once the hosts had time to tell.
func TestUnserved(t *testing.T) {
	b := newBench(t)
	render := job.Spec{Executor: job.ExecutorExec, Program: "render"}
	zoned := job.Spec{Policy: job.Policy{Zones: []string{"osl", "fra"}}}.WithDefaults()
	want := func(spec job.Spec, why string) {
		t.Helper()
		if got := b.p.Unserved(spec, b.now); got != why {
			t.Errorf("%q, want %q", got, why)
		}
	}
	want(render, "") // nobody was heard
	b.up("a", 1)
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	want(render, "") // b may have it
	b.now += firstContact
	want(render, "no worker has executor exec:render")
	want(zoned, "no host is in zone fra or osl")
	b.do(step.HostKnown{Worker: "b", Zone: "fra"})
	want(zoned, "")
	b.do(step.WorkerConnected{Worker: "b", Slots: 1, Executors: []string{"exec:render"}})
	want(render, "")
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Dead})
	want(render, "no worker has executor exec:render")
	b.do(step.WorkerDisconnected{Worker: "b"})
	want(render, "") // it may be starting again
	b.now += firstContact
	want(render, "no worker has executor exec:render")
	b.do(step.HealthChanged{Worker: "b", Health: cluster.Alive})
	want(render, "") // it is back, and has not said what it runs now
	b.do(step.WorkerConnected{Worker: "b", Slots: 1, Executors: []string{job.ExecutorWASM}})
	want(render, "no worker has executor exec:render")
}
