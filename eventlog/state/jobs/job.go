package jobs

import (
	"maps"
	"math"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// foldedJob is the fold of the events of one job.
type foldedJob struct {
	id          job.ID
	spec        job.Spec
	owner       string
	submittedAt canon.Key
	top         canon.Key // the latest event
	bad         uint64    // events that could not be what they say
	total       int       // chunks

	placing
	stop canon.Register[stop]          // the first intent to end it
	done canon.Register[event.JobDone] // the first end, without its result
	// sealed is the result for good, as the first end that has one tells it:
	// what is learned of the chunks afterwards no longer changes it.
	sealed canon.Register[*job.Result]

	tally   tally
	work    work // empty once the job is sealed
	outputs outputs
	saves   saves // of open chunks
}

// placing is where a job was put.
type placing struct {
	queued canon.Register[string]   // why it waited at first
	zones  canon.Register[[]string] // in which it runs by now; none: its spec says it
}

// stop is an intent to end a job.
type stop struct {
	actor, reason string
	cause         job.StopCause
}

func (j *foldedJob) clone() *foldedJob {
	c := *j
	c.tally, c.work, c.outputs, c.saves = j.tally.clone(), j.work.clone(), maps.Clone(j.outputs), maps.Clone(j.saves)
	return &c
}

// has reports whether a chunk and an attempt can be of this job.
func (j *foldedJob) has(chunk, attempt int) bool {
	return chunk >= 0 && chunk < j.total && attempt >= 1 && attempt <= math.MaxInt32
}

func (j *foldedJob) toStop(at canon.Key, b event.JobStopped) bool {
	if !b.Cause.Known() {
		return false
	}
	j.stop.First(at, stop{
		actor: canon.Clip(b.Actor, cluster.MaxReason), reason: canon.Clip(b.Reason, cluster.MaxReason), cause: b.Cause,
	})
	return true
}

func (j *foldedJob) finish(at canon.Key, b event.JobDone) bool {
	if !b.State.Final() || b.Result != nil && b.Result.Validate(j.spec) != nil {
		return false
	}
	if b.Result != nil {
		// Nothing can change the chunks any more.
		j.sealed.First(at, b.Result)
		j.work, j.saves = work{}, nil
		b.Result = nil
	}
	b.Reason = canon.Clip(b.Reason, cluster.MaxReason)
	j.done.First(at, b)
	return true
}

// result is that of the end, or sums up the chunks so far.
func (j *foldedJob) result() *job.Result {
	if j.sealed.V != nil {
		return j.sealed.V
	}
	r := j.work.result()
	r.Outputs = j.outputs.sum()
	return r
}

func (j *foldedJob) assign(e *event.Event, b event.ChunksAssigned) bool {
	whole := true
	for _, a := range b.Assignments {
		if !j.has(a.Chunk, a.Number) || !canon.IsNode(a.Worker, false) {
			whole = false
			continue
		}
		j.tally.assigned(e.HLC)
		j.work.assign(a, e.Term, e.HLC)
	}
	return whole
}

func (j *foldedJob) fail(at canon.Key, b event.ChunkFailed) bool {
	if !j.has(b.Chunk, b.Attempt) || !canon.IsNode(b.Worker, false) {
		return false
	}
	j.tally.failed(Failure{
		Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker,
		Reason: canon.Clip(b.Reason, cluster.MaxReason), Final: b.Final, At: at.HLC, key: at,
	})
	if !b.Log.IsZero() {
		j.tally.logged(Logged{Attempt: job.Attempt{Job: j.id, Chunk: b.Chunk, Number: b.Attempt, Worker: b.Worker}, Log: b.Log, key: at})
	}
	j.work.fail(b)
	return true
}

// release lets chunks that were given up be tried again.
func (j *foldedJob) release(b event.ChunksReleased) bool {
	whole := true
	next := 0
	for _, s := range b.Chunks {
		if s.First < next || s.Last < s.First || !j.has(s.Last, b.Attempt) {
			whole = false
			continue
		}
		next = s.Last + 1
		for i := s.First; i <= s.Last; i++ {
			j.work.release(i, b.Attempt)
		}
	}
	return whole
}

func (j *foldedJob) reclaim(b event.ChunkReclaimed) bool {
	if !j.has(b.Chunk, b.Attempt) || !canon.IsNode(b.Worker, false) {
		return false
	}
	j.tally.reclaims++
	j.work.reclaim(b)
	return true
}

func (j *foldedJob) takeAll(at canon.Key, b event.ChunksAccepted) bool {
	whole := true
	for _, a := range b.Accepts {
		whole = j.take(at, event.ChunkAccepted{
			Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, Result: a.Result, Seconds: a.Seconds, Settles: a.Settles,
		}) && whole
	}
	return whole
}

// take folds an accepted result; the first one counts.
func (j *foldedJob) take(at canon.Key, b event.ChunkAccepted) bool {
	if !j.has(b.Chunk, b.Attempt) || !canon.IsNode(b.Worker, false) {
		return false
	}
	_, n := j.spec.ChunkRange(b.Chunk)
	if j.spec.CheckResult(b.Chunk, b.Result) != nil {
		return false
	}
	j.tally.accepted(at.HLC)
	a := &accept{at: at, attempt: b.Attempt, worker: b.Worker, micros: micros(b.Seconds), settles: b.Settles}
	j.work.take(b.Chunk, n, a, b.Result.Metrics, j.outputs.holds(b.Chunk, b.Result.Outputs))
	j.outputs.take(b.Chunk, a, b.Result.Outputs)
	delete(j.saves, b.Chunk)
	return true
}
