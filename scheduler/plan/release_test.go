package plan

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// TestDisputeIsRunAgain: a chunk of which two results were accepted is computed
// again until enough hosts agree, and their result settles it. Where nobody else
// can be asked, the first answer does.
func TestDisputeIsRunAgain(t *testing.T) {
	b := newBench(t)
	for _, n := range []cluster.NodeID{"a", "b", "c"} {
		b.up(n, 1)
	}
	disputed := &step.Restore{Open: []step.OpenChunk{{Chunk: 0, Disputed: true, Attempts: 2, FailedOn: []cluster.NodeID{"a"}}}, Metrics: []string{"x"}}
	b.want(b.do(step.JobAdded{Job: "j", Spec: specOf(3, 3), Restore: disputed}), "assign j to b: [{0 3}]")
	b.has(b.says("b", "j", 0, 3, 5), "assign j to c: [{0 4}]")
	out := b.says("c", "j", 0, 4, 5)
	b.want(out, "settled j/0#4 of c", "accept j/0#3 of b", "finish j completed: ")
	if a := out[1].(step.Accept); !a.Settles {
		t.Error("it settles nothing")
	}

	two := newBench(t)
	two.up("a", 1)
	two.up("b", 1)
	two.do(step.JobAdded{Job: "j", Spec: specOf(3, 3), Restore: disputed})
	two.has(two.says("b", "j", 0, 3, 5), "assign j to a: [{0 4}]")
	out = two.says("a", "j", 0, 4, 6)
	two.want(out, "settled j/0#4 of a", "accept j/0#3 of b", "finish j completed: ")
	if a := out[1].(step.Accept); !a.Settles {
		t.Error("it settles nothing")
	}
}

// TestDisputeThatCannotBeRun: the result that a disputed chunk has stays.
func TestDisputeThatCannotBeRun(t *testing.T) {
	b := newBench(t)
	b.up("b", 1)
	b.do(step.JobAdded{Job: "j", Spec: specOf(2, 1), Restore: &step.Restore{Open: []step.OpenChunk{{Chunk: 0, Disputed: true, Attempts: 2, FailedOn: []cluster.NodeID{"a"}}}}})
	b.has(b.bad("b", "j", 0, 3, "exit 1"), "finish j completed: ")
}

// TestWaitsForAnOperator: a job that asks for it does not end with chunks given
// up. Released, they run again with new attempts and their whole budget; another
// holder knows as much.
func TestWaitsForAnOperator(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	wait := func(s *job.Spec) { s.OnPartial, s.Attempts = job.PartialWait, 2 }
	b.add("j", "o", 2, wait)
	b.good("a", "j", 0, 1)
	b.bad("a", "j", 1, 1, "exit 1")
	b.now += time.Minute
	b.do(step.Tick{})
	b.want(b.bad("a", "j", 1, 2, "exit 2"), "fail j/1#2 of a final=true: exit 2",
		"waiting j: 1 of 2 chunks given up, the last at chunk 1: exit 2")
	b.now += time.Hour
	b.want(b.do(step.Tick{}))
	b.want(b.do(step.JobReleased{Job: "j", Actor: "uid:1"}), "released j [{1 1}] after attempt 2 for uid:1", "assign j to a: [{1 3}]")
	b.want(b.do(step.JobReleased{Job: "j", Actor: "uid:1"})) // nothing to release
	b.has(b.bad("a", "j", 1, 3, "exit 3"), "final=false")
	b.now += time.Minute
	b.has(b.do(step.Tick{}), "assign j to a: [{1 4}]")
	b.want(b.good("a", "j", 1, 4), "accept j/1#4 of a", "finish j completed: ")

	spec := specOf(2, 2)
	wait(&spec)
	b.has(b.do(step.JobAdded{Job: "k", Spec: spec, Restore: &step.Restore{Open: []step.OpenChunk{{Chunk: 1, GivenUp: true, Attempts: 2, Failed: 2}}}}), "waiting k")
	b.want(b.do(step.JobReleased{Job: "k", Actor: "uid:1"}), "released k [{1 1}] after attempt 2 for uid:1", "assign k to a: [{1 3}]")
	b.has(b.bad("a", "k", 1, 3, "exit 3"), "final=false")
	b.has(b.do(step.JobStopped{Job: "k", Actor: "uid:1"}), "finish k cancelled")
}

// TestConcluded: a job that waits ends as one that does not, when it is told to; one that
// has something open does not.
func TestConcluded(t *testing.T) {
	b := newBench(t)
	b.up("a", 1)
	b.add("j", "o", 2, func(s *job.Spec) { s.OnPartial, s.Attempts = job.PartialWait, 1 })
	b.good("a", "j", 0, 1)
	b.want(b.do(step.JobConcluded{Job: "j"}))
	b.has(b.bad("a", "j", 1, 1, "exit 1"), "waiting j")
	b.want(b.do(step.JobConcluded{Job: "j"}), "finish j partial: 1 of 2 chunks given up, the last at chunk 1: exit 1")
	b.want(b.do(step.JobConcluded{Job: "j"}))
}

// TestLateResultOfAGivenUpChunk: it counts as long as the job is open, but not
// that of a stranger.
func TestLateResultOfAGivenUpChunk(t *testing.T) {
	b := newBench(t)
	b.up("a", 2)
	b.add("j", "o", 2, func(s *job.Spec) { s.OnPartial, s.Attempts = job.PartialWait, 1 })
	b.stranger("s", 1)
	b.bad("a", "j", 1, 1, "exit 1")
	b.has(b.good("s", "j", 1, 1), "settled j/1#1 of s")
	b.has(b.bad("a", "j", 1, 1, "exit 1"), "settled j/1#1 of a")
	b.want(b.good("a", "j", 1, 1), "accept j/1#1 of a")
	b.want(b.good("a", "j", 1, 1), "settled j/1#1 of a")
	b.has(b.good("a", "j", 0, 1), "finish j completed: ")
}
