package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// result decides what a worker's answer means.
func (p *Plan) result(e step.Result, now time.Duration) {
	w := p.worker(e.Worker, now)
	j := p.byID[e.Job]
	if j == nil {
		// Its job has ended, or was never logged: nobody will ask for it.
		p.unasked(w, e, now)
		return
	}
	if e.Chunk < 0 || e.Chunk >= len(j.chunks) || e.Number < 1 || e.Number > maxAttempt {
		p.emit(step.Offence{Worker: e.Worker, Reason: fmt.Sprintf("result for chunk %d attempt %d of a job of %d chunks", e.Chunk, e.Number, len(j.chunks))})
		return
	}
	c := &j.chunks[e.Chunk]
	own := c.at(w)
	if own != nil && own.attempt != e.Number {
		own = nil
	}
	if c.state == accepted || c.state == givenUp && !p.welcome(j, e, w) || own == nil && w.stranger && !slices.Contains(c.avoid, w.node) {
		p.unasked(w, e, now)
		return
	}
	reason := e.Error
	if e.Result != nil {
		reason = j.reject(e.Chunk, *e.Result)
	} else if reason == "" {
		reason = "no result and no reason"
	}
	p.spend(w, now)
	switch {
	case reason == "":
		p.valid(j, e, w, own, now)
	case own == nil:
		// The attempt was taken back before; it counts no second time.
		p.emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.FailedInfra:
		// No verdict about the work: it is not the chunk that failed. The
		// worker may forget it once that is logged.
		p.failed(w, j, reason, now)
		p.reclaim(own, reason, now)
		p.emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.HandedBack:
		p.reclaim(own, reason, now)
		p.emit(step.Settled{Attempt: e.Attempt})
	default:
		p.fail(own, reason, now)
	}
}

// welcome reports that a result may close a chunk that was given up: it came too
// late, and there is no better.
func (p *Plan) welcome(j *openJob, e step.Result, w *worker) bool {
	return e.Result != nil && !w.stranger && !p.mustCheck(j, w, e.Chunk, false)
}

// unasked lets a worker forget a result that nobody waits for. One that sends
// many of them is told to stop.
func (p *Plan) unasked(w *worker, e step.Result, now time.Duration) {
	p.spend(w, now)
	if r := p.cfg.Completions; r.PerSecond > 0 && w.spent.Used() > floodFactor*max(r.Burst, r.PerSecond) {
		p.emit(step.Offence{Worker: w.node, Reason: fmt.Sprintf("flood: %.0f results beyond %g per second", w.spent.Used()-r.Burst, r.PerSecond)})
	}
	p.emit(step.Settled{Attempt: e.Attempt})
}

// spend counts a result against the worker's rate. Beyond it no result is
// lost: the worker gets nothing new for a while.
func (p *Plan) spend(w *worker, now time.Duration) {
	if wait := w.spent.Spend(p.cfg.Completions, 1, now); wait > 0 && now+wait > w.until {
		w.until = now + wait
		p.set(&w.timer, w.until)
		p.place(w, now)
	}
}

// reject returns why a result cannot be accepted, or "".
func (j *openJob) reject(index int, r job.ChunkResult) string {
	_, n := j.spec.ChunkRange(index)
	if err := r.Validate(n); err != nil {
		return err.Error()
	}
	names := j.metrics.LenWith(r)
	if limit := min(job.MaxMetrics, max(1, MaxCells/len(j.chunks))); names > limit && names > j.metrics.Len() {
		return fmt.Sprintf("%v: the job has %d different metrics, at most %d are allowed for %d chunks", job.ErrResult, names, limit, len(j.chunks))
	}
	return ""
}

// valid handles a result that can be accepted, at once or when another host
// has confirmed it.
func (p *Plan) valid(j *openJob, e step.Result, w *worker, own *try, now time.Duration) {
	seconds := min(max(e.Seconds, minSeconds), maxSeconds)
	if own != nil {
		// A worker that claims to be slow cannot have been slower than it was.
		seconds = max(minSeconds, min(seconds, max((now-own.started).Seconds(), minSeconds)))
		if e.Seconds <= 0 {
			seconds = minSeconds
		}
	}
	w.measure(j, e.Result.Iterations, seconds)
	w.output, w.evictions, j.idle = now, 0, now
	j.times.Add(seconds)
	odd := j.metrics.Odd(*e.Result)
	if odd != "" {
		p.emit(step.Notice{What: step.NoticeAlarm, Worker: w.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: %s", e.Chunk, odd)})
	}
	if own != nil {
		p.close(own, now)
	} else {
		p.place(w, now) // its window may have changed
	}
	o := opinion{node: w.node, attempt: e.Number, result: e.Result, seconds: seconds}
	c := &j.chunks[e.Chunk]
	if c.check == nil && !p.mustCheck(j, w, e.Chunk, odd != "") {
		p.accept(j, e.Chunk, o, now)
		return
	}
	p.weigh(j, e.Chunk, o, now)
}

func (p *Plan) accept(j *openJob, index int, o opinion, now time.Duration) {
	j.metrics.Add(*o.result)
	ref := job.Attempt{Job: j.id, Chunk: index, Number: o.attempt}
	p.emit(step.Accept{Attempt: ref.At(o.node), Result: *o.result, Seconds: o.seconds, Settles: j.chunks[index].disputed})
	p.leave(j, index, accepted, now)
	if p.conclude(j) {
		return
	}
	if reason := j.enough(); reason != "" {
		p.finish(j, completed, reason)
	}
}
