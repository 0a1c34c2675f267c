package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/ends"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/results"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// work is the open jobs and all attempts at them: how each begins and ends, and
// what follows for the workers that have it.
type work struct {
	cfg    *Config
	out    *step.Actions
	timers *timers
	roster *roster
	round  *fair.Round[*openJob]

	jobs   []*openJob // in the order in which they came
	byID   map[job.ID]*openJob
	copies int // open attempts near the end of jobs
}

// addJob begins a job.
func (k *work) addJob(e step.JobAdded, now time.Duration) {
	if k.byID[e.Job] != nil {
		return
	}
	j := &openJob{
		id: e.Job, spec: e.Spec, owner: e.Owner, board: newBoard(e.Job, e.Spec.Chunks()), term: jobTerm{Term: ends.Term{Added: now - e.Age, Idle: now}},
		class: k.roster.class(e.Spec, e.Owner), kind: k.roster.kind(e.Spec), metrics: results.NewPool(), failures: ends.NewFailures(),
	}
	lag := time.Duration(min(e.Spec.EffectivePriority(), job.MaxPriority)) * k.cfg.Ageing
	k.round.Open(&j.place, j, e.Owner, lag)
	j.term.timer = timer{job: j, chunk: -1}
	k.jobs = append(k.jobs, j)
	k.byID[j.id] = j
	if e.Restore != nil {
		k.restore(j, e.Restore, now)
		if e.Restore.Stopped {
			k.finish(j, cancelled, "stopped by "+e.Restore.Actor, now)
			return
		}
		if k.conclude(j, now) {
			return
		}
	}
	k.arm(j, now)
	k.line(j)
}

// reclass finds the classes of jobs anew.
func (k *work) reclass(jobs ...*openJob) {
	for _, j := range jobs {
		c := k.roster.class(j.spec, j.owner)
		k.roster.classes.Close(j.class)
		j.class = c
	}
}

// restore takes over what the log says of a job.
func (k *work) restore(j *openJob, r *step.Restore, now time.Duration) {
	j.failures.Attempts, j.failures.Reason = r.Failures, r.Reason
	j.metrics = results.NewPool(r.Metrics...)
	open := make([]bool, len(j.chunks))
	for _, o := range r.Open {
		open[o.Chunk] = true
	}
	for i := range j.chunks {
		if !open[i] {
			j.start()
			j.move(i, accepted)
		}
	}
	for _, o := range r.Open {
		c := &j.chunks[o.Chunk]
		c.attempts, c.failed, c.lost = int32(o.Attempts), int16(o.Failed), int16(o.Lost)
		c.avoid = slices.Clone(o.FailedOn)
		if o.Attempts > 0 {
			j.start()
		}
		if o.GivenUp {
			c.avoid = nil
			j.move(o.Chunk, givenUp)
			continue
		}
		if o.Disputed {
			c.disputed, c.check = true, &trust.Check{}
		}
		if o.Failed > 0 {
			j.failures.Chunks++
			for _, n := range o.FailedOn {
				if !cluster.IsOutside(n) { // it was taken back there
					j.failures.On[n] = true
				}
			}
		}
		for _, t := range o.Tries {
			w := k.roster.get(t.Worker, now)
			k.open(j, o.Chunk, t.Number, w, now).Adopted = true
			k.roster.review(w, now)
		}
		if int(c.failed) >= j.spec.Attempts {
			// It was not given up, so some of them were copies: see fail.
			c.counted = len(c.tries) > 0
			if !c.counted {
				c.failed = int16(j.spec.Attempts - 1)
			}
		}
		if c.state == pending && c.attempts > 0 {
			j.requeue(o.Chunk)
		}
	}
}

// release lets the chunks of a job that were given up be tried again, as if for
// the first time, but with other attempt numbers than they had.
func (k *work) release(e step.JobReleased, now time.Duration) {
	j := k.byID[e.Job]
	if j == nil || j.count[givenUp] == 0 {
		return
	}
	spans, attempt := j.releasable()
	for _, s := range spans {
		for i := s.First; i <= s.Last; i++ {
			c := &j.chunks[i]
			c.attempts, c.failed, c.lost, c.strange, c.kept, c.check = int32(attempt), 0, 0, 0, false, nil
			j.move(i, pending)
			j.requeue(i)
		}
	}
	j.waits, j.term.Idle = false, now
	j.failures.Reset()
	k.out.Emit(step.Released{Job: j.id, Actor: e.Actor, Chunks: spans, Attempt: attempt})
	k.line(j)
}

// line lets a job wait for workers if it has anything to give out.
func (k *work) line(j *openJob) {
	if j.place.Waits() || j.state > running || !j.ready() {
		return
	}
	k.round.Wait(&j.place, j.term.Added)
}

// retry lets a chunk be tried again whose time to wait is over.
func (k *work) retry(j *openJob, index int) {
	j.waiting--
	j.requeue(index)
	k.line(j)
}

// giveUp closes a chunk without result; other attempts at it are cancelled. One
// whose results are disputed keeps the first of them.
func (k *work) giveUp(j *openJob, index int, reason string, now time.Duration) {
	if j.chunks[index].disputed {
		k.leave(j, index, accepted, now)
		k.conclude(j, now)
		return
	}
	k.leave(j, index, givenUp, now)
	j.failures.Reason = fmt.Sprintf("chunk %d: %s", index, reason)
	if j.spec.Partial() == job.PartialFail && !j.closed() {
		k.finish(j, failed, "given up, as the job wants no part of a result: "+j.failures.Reason, now)
		return
	}
	k.conclude(j, now)
}

// leave closes a chunk and cancels what still runs of it. What a lost worker
// had of it, while another's copy was accepted, counts as taken back.
func (k *work) leave(j *openJob, index int, to chunkState, now time.Duration) {
	c := &j.chunks[index]
	j.move(index, to)
	for _, t := range slices.Clone(c.tries) {
		k.close(t, now)
		switch {
		case t.worker.Connected:
			k.out.Cancel(t.worker.node, t.ref(), "the chunk is "+to.String())
		case to == accepted:
			k.out.Emit(step.Reclaim{Attempt: t.ref(), Reason: "worker is lost, and a copy was accepted"})
		}
	}
	if c.wait != nil && c.wait.pos != 0 {
		k.timers.stop(c.wait)
		j.waiting--
	}
	k.unburden(c, now)
	c.tries, c.avoid, c.past, c.check, c.wait, c.disputed, c.kept = nil, nil, nil, nil, nil, false, false
}

// unburden takes in that nothing is to be made any more of what strangers said of a chunk.
func (k *work) unburden(c *chunk, now time.Duration) {
	if c.check == nil {
		return
	}
	for _, o := range c.check.Seen {
		if w := k.roster.byNode[o.Node]; w != nil && o.Voice == trust.Doubted && w.Open > 0 {
			w.Open--
			k.roster.place(w, now)
		}
	}
}

// conclude ends a job whose chunks are all closed.
func (k *work) conclude(j *openJob, now time.Duration) bool {
	if j.state > running || !j.closed() {
		return false
	}
	switch {
	case j.count[givenUp] == 0:
		k.finish(j, completed, "", now)
	case j.spec.Partial() == job.PartialWait:
		if !j.waits {
			j.waits = true
			k.out.Emit(step.Waiting{Job: j.id, Reason: step.Clip(fmt.Sprintf("%s given up, the last at %s", j.share(givenUp), j.failures.Reason))})
		}
		return false
	case j.count[accepted] == 0 || j.spec.Partial() == job.PartialFail:
		k.finish(j, failed, fmt.Sprintf("%s given up, the last at %s", j.share(givenUp), j.failures.Reason), now)
	default:
		k.finish(j, partial, fmt.Sprintf("%d of %d chunks given up, the last at %s", j.count[givenUp], len(j.chunks), j.failures.Reason), now)
	}
	return true
}

// finish takes a job out of the plan.
func (k *work) finish(j *openJob, to jobState, reason string, now time.Duration) {
	j.become(to)
	k.out.Emit(step.Finish{Job: j.id, State: job.State(to.String()), Reason: step.Clip(reason)})
	k.timers.stop(&j.term.timer)
	had := make(map[*worker]bool)
	for i := range j.chunks {
		c := &j.chunks[i]
		if c.wait != nil {
			k.timers.stop(c.wait)
		}
		if c.check != nil {
			for _, o := range c.check.Seen {
				if w := k.roster.byNode[o.Node]; w != nil {
					had[w] = true
				}
			}
			k.unburden(c, now)
		}
	}
	for _, t := range slices.Clone(j.tries) {
		k.close(t, now)
		had[t.worker] = true
	}
	for _, w := range slices.SortedFunc(maps.Keys(had), byName) {
		if w.Connected {
			k.out.Emit(step.Cancel{Worker: w.node, Job: j.id, Reason: "the job is " + to.String()})
		}
	}
	k.jobs = slices.DeleteFunc(k.jobs, func(o *openJob) bool { return o == j })
	delete(k.byID, j.id)
	k.roster.leave(j.class, j.kind)
	k.round.Close(&j.place)
}

// timeUp ends a job that took too long, if it is so still.
func (k *work) timeUp(j *openJob, now time.Duration) {
	cause, reason := j.term.Over(j.spec, j.runs(), now)
	if reason == "" {
		k.arm(j, now)
		return
	}
	k.out.Emit(step.Stop{Job: j.id, Cause: cause, Reason: reason})
	k.finish(j, timeout, fmt.Sprintf("%s: %s accepted", reason, j.share(accepted)), now)
}

// arm sets a job's timer to the next time at which it could be over.
func (k *work) arm(j *openJob, now time.Duration) {
	if at, ok := j.term.Next(j.spec, j.runs()); ok {
		k.timers.set(&j.term.timer, max(at, now))
	} else {
		k.timers.stop(&j.term.timer)
	}
}

// find returns the open attempt that a worker names, or nil.
func (k *work) find(w *worker, r job.Attempt) *try {
	j := k.byID[r.Job]
	if j == nil || !j.has(r.Chunk) {
		return nil
	}
	if t := j.chunks[r.Chunk].at(w); t != nil && t.attempt == r.Number {
		return t
	}
	return nil
}

// starve reports jobs that wait while no worker is eligible.
func (k *work) starve(now time.Duration) {
	for _, j := range k.jobs {
		if j.starves(k.cfg.Starve, now) {
			k.out.Emit(step.Starved{Job: j.id, Reason: step.Clip(k.roster.classes.Explain(j.class, k.roster.candidates(now, nothing)).String())})
		}
	}
}

// Stats counts what is open.
type Stats struct {
	JobsPending, JobsRunning      int
	ChunksPending, ChunksAssigned int
	JobsStarved                   int // of all, those that no worker may run
}

func (k *work) stats() Stats {
	var s Stats
	for _, j := range k.jobs {
		if j.state == queued {
			s.JobsPending++
		} else {
			s.JobsRunning++
		}
		if j.starved.Since > 0 {
			s.JobsStarved++
		}
		s.ChunksAssigned += j.count[assigned]
		s.ChunksPending += j.count[pending]
	}
	return s
}
