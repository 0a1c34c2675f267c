package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/ends"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// open starts an attempt.
func (k *work) open(j *openJob, index, attempt int, w *worker, now time.Duration) *try {
	c := &j.chunks[index]
	_, n := j.spec.ChunkRange(index)
	limit := j.limit(k.cfg) * time.Duration(len(w.tries)/max(1, w.slots)+1)
	t := &try{
		job: j, chunk: index, attempt: attempt, worker: w, iterations: n, load: w.pace.Estimate(j.kind, n, j.spec.Chunk),
		started: now, marks: marks{strange: w.Stranger, zone: w.host.Keeps()}, Progress: pace.Progress{Moved: now}, Deadline: ends.Deadline{Limit: limit},
	}
	t.timer.try = t
	if c.state == pending {
		j.move(index, assigned)
	}
	j.start()
	if len(w.tries) == 0 {
		w.output = now
	}
	c.attempts = max(c.attempts, int32(attempt))
	c.counted = false
	c.tries = append(c.tries, t)
	j.add(t)
	w.add(t)
	k.roster.kept.Add(t.zone, j.owner, 1)
	if !t.strange && len(j.tries) == j.strange+1 {
		j.term.Idle = now
		if j.term.timer.pos == 0 {
			k.arm(j, now)
		}
	}
	k.timers.set(&t.timer, now+limit)
	k.roster.place(w, now)
	return t
}

// close ends an attempt; its chunk keeps its state.
func (k *work) close(t *try, now time.Duration) {
	t.gone = true
	c := &t.job.chunks[t.chunk]
	c.tries = slices.DeleteFunc(c.tries, func(o *try) bool { return o == t })
	if len(c.tries) == 0 {
		c.counted = false
	}
	t.job.remove(t)
	t.worker.remove(t)
	k.roster.kept.Add(t.zone, t.job.owner, -1)
	if t.copied {
		k.copies--
	}
	k.timers.stop(&t.timer)
	k.roster.place(t.worker, now)
}

// back makes a chunk without open attempts pending again, for good or for
// later.
func (k *work) back(j *openJob, index int, notBefore, now time.Duration) {
	c := &j.chunks[index]
	if len(c.tries) > 0 || c.state != assigned {
		return
	}
	j.move(index, pending)
	if notBefore > now {
		if c.wait == nil {
			c.wait = &timer{job: j, chunk: index}
		}
		if c.wait.pos == 0 {
			j.waiting++
		}
		k.timers.set(c.wait, notBefore)
		return
	}
	j.requeue(index)
	k.line(j)
}

// reclaim takes an attempt back.
func (k *work) reclaim(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	counted := c.counted
	k.close(t, now)
	c.ended(t)
	outside, pause := cluster.IsOutside(t.worker.node), time.Duration(0)
	if outside {
		pause = min(MaxBackoff, firstBackoff<<min(c.strange, 10))
	} else {
		c.lost++
	}
	if counted && j.spent(c) {
		reason = fmt.Sprintf("%s; another attempt at the same time failed, which was the last try", reason)
		k.out.Emit(step.Fail{Attempt: t.ref(), Reason: step.Clip(reason), Class: job.FailedInfra, Final: true})
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	if !outside && int(c.lost) >= j.spec.LossBudget() {
		reason = fmt.Sprintf("%d attempts were lost with their workers, the last: %s", c.lost, reason)
		k.out.Emit(step.Fail{Attempt: t.ref(), Reason: step.Clip(reason), Class: job.FailedInfra, Final: true, Parked: true})
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	k.out.Emit(step.Reclaim{Attempt: t.ref(), Reason: step.Clip(reason)})
	k.back(j, t.chunk, now+pause, now)
}

// reclaimAll takes back everything that w has. With cancelled the worker is told.
func (k *work) reclaimAll(w *worker, reason string, cancelled bool, now time.Duration) {
	for _, t := range slices.Clone(w.tries) {
		if t.gone {
			continue
		}
		if cancelled {
			k.out.Cancel(w.node, t.ref(), reason)
		}
		k.reclaim(t, reason, now)
	}
}

// blame counts a failure against a worker. One at which several attempts in a
// row failed is left out of that kind of work for a while, as long as others are
// there.
func (k *work) blame(w *worker, j *openJob, reason string, now time.Duration) {
	d := w.pace.Fail(j.kind, now)
	k.roster.place(w, now) // its window may have changed
	if d > 0 {
		if w.Stranger { // else nobody else is looked at, where there are many of them
			k.roster.rest(w, max(w.until, now+d), now)
		}
		k.out.Emit(step.Notice{What: step.NoticeExcluded, Worker: w.node, Job: j.id, Reason: "left out for " + d.String() + ", several attempts failed, the last: " + reason})
	}
}

// fail ends an attempt and counts it. Attempts at a chunk that ran at the same
// time are one try of its budget: the first of them that fails counts, and the
// chunk is given up only when none of them is left.
func (k *work) fail(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	reason = step.Clip(reason)
	if k.forgives(t) {
		k.blame(t.worker, j, reason, now)
		k.reclaim(t, reason, now)
		return
	}
	counted := c.counted
	k.close(t, now)
	k.blame(t.worker, j, reason, now)
	c.ended(t)
	if !counted {
		j.failures.Add(t.worker.node, c.failed == 0)
		c.failed++
		c.counted = len(c.tries) > 0
	}
	final := j.spent(c)
	parked := false
	if hosts := c.hosts(); !final && len(c.tries) == 0 && int(c.failed) >= maxHosts && hosts >= maxHosts {
		final, parked = true, true
		reason = step.Clip(fmt.Sprintf("parked: it failed on %d hosts, the last: %s", hosts, reason))
	}
	k.out.Emit(step.Fail{Attempt: t.ref(), Reason: reason, Final: final, Parked: parked})
	if final {
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	j.failures.Reason = fmt.Sprintf("chunk %d: %s", t.chunk, reason)
	if j.hopeless() {
		k.finish(j, failed, fmt.Sprintf("the first %d attempts failed, the last at %s", j.failures.Attempts, j.failures.Reason), now)
		return
	}
	k.back(j, t.chunk, now+min(MaxBackoff, firstBackoff<<min(c.failed-1, 10)), now)
}

// forgives reports that a failure of an attempt says nothing of its chunk: it is a
// stranger's, and the chunk may yet be tried by others. It is logged as a loss, which
// does not count either.
func (k *work) forgives(t *try) bool {
	return t.worker.Stranger && (t.job.chunks[t.chunk].strange < trust.BadEnds || t.job.class.Fit(eligible.Own) > 0)
}

// shorten brings an attempt's deadline forward.
func (k *work) shorten(t *try, at time.Duration) {
	if at < t.timer.at {
		k.timers.set(&t.timer, at)
	}
}

// overdue ends an attempt whose deadline came, or puts it off: for half of what
// the job's hard timeout leaves, and only if the attempt got on since.
func (k *work) overdue(t *try, now time.Duration) {
	w := t.worker
	most := max(0, t.job.spec.HardTimeout()-t.job.spec.Timeout())
	if left := t.Extension(most); left > 0 && !t.Lost && w.Healthy() && t.Done > 0 && t.Moved > t.started {
		t.Extend(left)
		k.timers.set(&t.timer, now+left)
		return
	}
	if w.Connected {
		k.out.Cancel(w.node, t.ref(), "its time is up")
	}
	switch {
	case t.Lost:
		k.reclaim(t, "worker does not have it any more", now)
	case !w.Healthy():
		k.reclaim(t, fmt.Sprintf("no result within %s and no healthy worker", t.Total()), now)
	default:
		k.fail(t, fmt.Sprintf("no result within %s", t.Total()), now)
	}
}

// advance takes in how far a worker's attempts are. An attempt that reported
// progress and then reports none for too long is stuck.
func (k *work) advance(w *worker, list []step.Progress, now time.Duration) {
	for _, r := range list {
		t := k.find(w, r.Attempt)
		if t == nil {
			continue
		}
		if !t.runs {
			// It queued until now, and has its time from here.
			t.runs = true
			t.Begin(r.Done, now)
			k.shorten(t, now+t.job.limit(k.cfg))
		}
		if t.Rise(r.Done, t.iterations, now) {
			t.Granted = 0
			if w.output = now; !w.Stranger {
				t.job.term.Idle = now
			}
		} else if limit := k.cfg.Stuck; t.Still(limit, now) && !t.said.Asks.Quiet(now) {
			k.out.Cancel(w.node, t.ref(), "it is stuck")
			k.fail(t, fmt.Sprintf("stuck: no progress for %s after %d of %d iterations", limit, t.Done, t.iterations), now)
			continue
		}
		if r.Saved != nil && t.job.spec.Checkpoint && !w.Stranger && t.said.Saves.Take(r.Saved.Hash, now) {
			k.out.Emit(step.Save{Attempt: t.ref(), Checkpoint: *r.Saved})
		}
		if r.Ask != nil && !t.Lost {
			k.answer(t, r.Ask, now)
		}
	}
}

// answer puts off the deadline of an attempt that asks for more time, or says why not.
func (k *work) answer(t *try, a *step.Ask, now time.Duration) {
	s := &t.job.spec
	by, denied, heard := t.Answer(&t.said.Asks, ends.Ask{Number: a.Number, For: a.For}, t.Done > 0, s.Timeout(), s.HardTimeout()-s.Timeout(), now)
	if heard {
		return
	}
	if by > 0 {
		k.timers.set(&t.timer, t.timer.at+by)
		t.worker.quiet = max(t.worker.quiet, t.said.Asks.Until)
	}
	k.out.Emit(step.Extend{Attempt: t.ref(), Asked: a.For, Given: by, Reason: step.Clip(a.Reason), Denied: denied})
}
