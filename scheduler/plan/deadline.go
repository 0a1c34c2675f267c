package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// limit is the longest time for one attempt that need not queue.
func (j *openJob) limit(cfg Config) time.Duration {
	return max(cfg.MinDeadline, 5*j.times.Quantile(0.99), j.spec.Timeout()+cfg.Overrun)
}

// shorten brings an attempt's deadline forward.
func (p *Plan) shorten(t *try, at time.Duration) {
	if at < t.timer.at {
		p.set(&t.timer, at)
	}
}

// overdue ends an attempt whose deadline came, or puts it off: for half of what
// the job's hard timeout leaves, and only if the attempt got on since.
func (p *Plan) overdue(t *try, now time.Duration) {
	most := max(0, t.job.spec.HardTimeout()-t.job.spec.Timeout())
	if left := (most - t.extended) / 2; !t.lost && t.worker.healthy() && left >= minExtension && t.done > 0 && t.moved > t.started && t.granted == 0 {
		t.extended += left
		t.granted++
		p.set(&t.timer, now+left)
		return
	}
	w := t.worker
	if w.connected {
		p.cancel(w, t.ref(), "its time is up")
	}
	switch {
	case t.lost:
		p.reclaim(t, "worker does not have it any more", now)
	case !w.healthy():
		p.reclaim(t, fmt.Sprintf("no result within %s and no healthy worker", t.limit+t.extended), now)
	default:
		p.fail(t, fmt.Sprintf("no result within %s", t.limit+t.extended), now)
	}
}

// armJob sets the timer to the next time at which the job could be over.
func (p *Plan) armJob(j *openJob, now time.Duration) {
	at := time.Duration(math.MaxInt64)
	if d := j.spec.Deadline(); d > 0 {
		at = j.added + d
	}
	if d := j.spec.Stuck(); d > 0 && len(j.tries) > 0 {
		at = min(at, j.idle+d)
	}
	if at == math.MaxInt64 {
		p.timers.Remove(&j.timer)
		return
	}
	p.set(&j.timer, max(at, now))
}

// timeUp ends a job that took too long, if it is so still.
func (p *Plan) timeUp(j *openJob, now time.Duration) {
	cause, reason := job.StopCause(""), ""
	switch d, stuck := j.spec.Deadline(), j.spec.Stuck(); {
	case d > 0 && now >= j.added+d:
		cause, reason = job.StopDeadline, fmt.Sprintf("its deadline of %s has come", d)
	case stuck > 0 && len(j.tries) > 0 && now >= j.idle+stuck:
		cause, reason = job.StopStuck, fmt.Sprintf("none of its chunks got on for %s", stuck)
	default:
		p.armJob(j, now)
		return
	}
	p.emit(step.Stop{Job: j.id, Cause: cause, Reason: reason})
	p.finish(j, timeout, fmt.Sprintf("%s: %s accepted", reason, j.share(accepted)))
}

// progress takes in how far a worker's attempts are. An attempt that reported
// progress and then reports none for too long is stuck.
func (p *Plan) progress(w *worker, list []step.Progress, now time.Duration) {
	for _, r := range list {
		j := p.byID[r.Job]
		if j == nil || r.Chunk < 0 || r.Chunk >= len(j.chunks) {
			continue
		}
		t := j.chunks[r.Chunk].at(w)
		if t == nil || t.attempt != r.Number {
			continue
		}
		if !t.runs {
			// It queued until now, and has its time from here.
			t.runs = true
			p.shorten(t, now+j.limit(p.cfg))
		}
		if r.Done > t.done {
			t.done, t.moved, t.granted = min(r.Done, t.iterations), now, 0
			w.output, j.idle = now, now
			continue
		}
		limit := p.cfg.Stuck
		if t.done > 0 && now-t.moved >= limit {
			p.cancel(w, t.ref(), "it is stuck")
			p.fail(t, fmt.Sprintf("stuck: no progress for %s after %d of %d iterations", limit, t.done, t.iterations), now)
		}
	}
}

// holds compares what a worker says it has with what the plan thinks. Only what
// differs twice in a row is believed: one list may cross an assignment.
func (p *Plan) holds(e step.WorkerHolds, now time.Duration) {
	w := p.worker(e.Worker, now)
	has := make(map[job.Attempt]bool, len(e.Refs)+len(e.Kept))
	for _, list := range [][]job.Attempt{e.Refs, e.Kept} {
		for _, r := range list {
			has[r.At(w.node)] = true
		}
	}
	for _, t := range w.tries {
		switch {
		case has[t.ref()]:
			t.misses = 0
		case now-t.started < p.cfg.Recover:
		default:
			if t.misses++; t.misses >= 2 && !t.lost {
				t.lost = true
				p.shorten(t, now)
			}
		}
	}
	var stray map[job.Attempt]bool
	for _, r := range e.Refs {
		r = r.At(w.node)
		if p.wanted(w, r) {
			continue
		}
		if w.stray[r] {
			p.emit(step.Notice{What: step.NoticeStray, Worker: w.node, Job: r.Job, Reason: fmt.Sprintf("it runs %s, and nobody asked for that", r)})
			p.cancel(w, r, "nobody asked for it")
			continue
		}
		if stray == nil {
			stray = make(map[job.Attempt]bool)
		}
		stray[r] = true
	}
	w.stray = stray
	p.expire(now)
}

// wanted reports that an attempt at w is one of the plan's.
func (p *Plan) wanted(w *worker, r job.Attempt) bool {
	j := p.byID[r.Job]
	if j == nil || r.Chunk < 0 || r.Chunk >= len(j.chunks) {
		return false
	}
	t := j.chunks[r.Chunk].at(w)
	return t != nil && t.attempt == r.Number
}
