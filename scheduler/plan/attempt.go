package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// open starts an attempt.
func (k *work) open(j *openJob, index, attempt int, w *worker, now time.Duration) *try {
	c := &j.chunks[index]
	_, n := j.spec.ChunkRange(index)
	limit := j.limit(k.cfg) * time.Duration(len(w.tries)/max(1, w.slots)+1)
	t := &try{
		job: j, chunk: index, attempt: attempt, worker: w, iterations: n, load: w.pace.Estimate(j.kind, n, j.spec.Chunk),
		started: now, progress: progress{moved: now}, deadline: deadline{limit: limit},
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
	if len(j.tries) == 1 {
		j.term.idle = now
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
	c.lost++
	c.avoidHost(t.worker.node)
	if counted && j.spent(c) {
		reason = fmt.Sprintf("%s; another attempt at the same time failed, which was the last try", reason)
		k.out.emit(step.Fail{Attempt: t.ref(), Reason: clip(reason), Class: job.FailedInfra, Final: true})
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	if int(c.lost) >= j.spec.LossBudget() {
		reason = fmt.Sprintf("%d attempts were lost with their workers, the last: %s", c.lost, reason)
		k.out.emit(step.Fail{Attempt: t.ref(), Reason: clip(reason), Class: job.FailedInfra, Final: true, Parked: true})
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	k.out.emit(step.Reclaim{Attempt: t.ref(), Reason: clip(reason)})
	k.back(j, t.chunk, now, now)
}

// reclaimAll takes back everything that w has. With cancelled the worker is told.
func (k *work) reclaimAll(w *worker, reason string, cancelled bool, now time.Duration) {
	for _, t := range slices.Clone(w.tries) {
		if t.gone {
			continue
		}
		if cancelled {
			k.out.cancel(w.node, t.ref(), reason)
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
		k.out.emit(step.Notice{What: step.NoticeExcluded, Worker: w.node, Job: j.id, Reason: "left out for " + d.String() + ", several attempts failed, the last: " + reason})
	}
}

// fail ends an attempt and counts it. Attempts at a chunk that ran at the same
// time are one try of its budget: the first of them that fails counts, and the
// chunk is given up only when none of them is left.
func (k *work) fail(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	reason = clip(reason)
	counted := c.counted
	k.close(t, now)
	k.blame(t.worker, j, reason, now)
	c.avoidHost(t.worker.node)
	if !counted {
		j.failures.add(t.worker.node, c.failed == 0)
		c.failed++
		c.counted = len(c.tries) > 0
	}
	final := j.spent(c)
	parked := false
	if hosts := len(c.avoid); !final && len(c.tries) == 0 && int(c.failed) >= maxHosts && hosts >= maxHosts {
		final, parked = true, true
		reason = clip(fmt.Sprintf("parked: it failed on %d hosts, the last: %s", hosts, reason))
	}
	k.out.emit(step.Fail{Attempt: t.ref(), Reason: reason, Final: final, Parked: parked})
	if final {
		k.giveUp(j, t.chunk, reason, now)
		return
	}
	j.failures.reason = fmt.Sprintf("chunk %d: %s", t.chunk, reason)
	if j.hopeless() {
		k.finish(j, failed, fmt.Sprintf("the first %d attempts failed, the last at %s", j.failures.attempts, j.failures.reason), now)
		return
	}
	k.back(j, t.chunk, now+min(MaxBackoff, firstBackoff<<min(c.failed-1, 10)), now)
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
	if left := t.extension(most); left > 0 && !t.lost && w.healthy() && t.done > 0 && t.moved > t.started {
		t.extend(left)
		k.timers.set(&t.timer, now+left)
		return
	}
	if w.connected {
		k.out.cancel(w.node, t.ref(), "its time is up")
	}
	switch {
	case t.lost:
		k.reclaim(t, "worker does not have it any more", now)
	case !w.healthy():
		k.reclaim(t, fmt.Sprintf("no result within %s and no healthy worker", t.total()), now)
	default:
		k.fail(t, fmt.Sprintf("no result within %s", t.total()), now)
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
			k.shorten(t, now+t.job.limit(k.cfg))
		}
		if t.report(r.Done, now) {
			w.output, t.job.term.idle = now, now
			continue
		}
		if limit := k.cfg.Stuck; t.still(limit, now) {
			k.out.cancel(w.node, t.ref(), "it is stuck")
			k.fail(t, fmt.Sprintf("stuck: no progress for %s after %d of %d iterations", limit, t.done, t.iterations), now)
		}
	}
}
