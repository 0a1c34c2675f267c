package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// intake decides about results: whether one counts, and what a chunk's are in the
// end.
type intake struct {
	cfg    *Config
	out    *actions
	roster *roster
	work   *work
}

// result decides what a worker's answer means.
func (in *intake) result(e step.Result, now time.Duration) {
	w := in.roster.get(e.Worker, now)
	j := in.work.byID[e.Job]
	if j == nil {
		// Its job has ended, or was never logged: nobody will ask for it.
		in.unasked(w, e, now)
		return
	}
	if !j.has(e.Chunk) || e.Number < 1 || e.Number > maxAttempt {
		in.out.emit(step.Offence{Worker: e.Worker, Reason: fmt.Sprintf("result for chunk %d attempt %d of a job of %d chunks", e.Chunk, e.Number, len(j.chunks))})
		return
	}
	c := &j.chunks[e.Chunk]
	own := c.at(w)
	if own != nil && own.attempt != e.Number {
		own = nil
	}
	if c.state == accepted || c.state == givenUp && !j.welcomes(e, w) || own == nil && w.stranger && !slices.Contains(c.avoid, w.node) {
		in.unasked(w, e, now)
		return
	}
	reason := e.Error
	if e.Result != nil {
		reason = j.reject(e.Chunk, *e.Result)
	} else if reason == "" {
		reason = "no result and no reason"
	}
	in.spend(w, now)
	switch {
	case reason == "":
		in.valid(j, e, w, own, now)
	case own == nil:
		// The attempt was taken back before; it counts no second time.
		in.out.emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.FailedInfra:
		// No verdict about the work: it is not the chunk that failed. The
		// worker may forget it once that is logged.
		in.work.blame(w, j, reason, now)
		in.work.reclaim(own, reason, now)
		in.out.emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.HandedBack:
		in.work.reclaim(own, reason, now)
		in.out.emit(step.Settled{Attempt: e.Attempt})
	default:
		in.work.fail(own, reason, now)
	}
}

// welcomes reports that a result may close a chunk that was given up: it came too
// late, and there is no better.
func (j *openJob) welcomes(e step.Result, w *worker) bool {
	return e.Result != nil && !w.stranger && !j.mustCheck(w, e.Chunk, false)
}

// unasked lets a worker forget a result that nobody waits for. One that sends
// many of them is told to stop.
func (in *intake) unasked(w *worker, e step.Result, now time.Duration) {
	in.spend(w, now)
	if r := in.cfg.Completions; r.PerSecond > 0 && w.spent.Used() > floodFactor*max(r.Burst, r.PerSecond) {
		in.out.emit(step.Offence{Worker: w.node, Reason: fmt.Sprintf("flood: %.0f results beyond %g per second", w.spent.Used()-r.Burst, r.PerSecond)})
	}
	in.out.emit(step.Settled{Attempt: e.Attempt})
}

// spend counts a result against the worker's rate. Beyond it no result is
// lost: the worker gets nothing new for a while.
func (in *intake) spend(w *worker, now time.Duration) {
	if wait := w.spent.Spend(in.cfg.Completions, 1, now); wait > 0 && now+wait > w.until {
		in.roster.rest(w, now+wait, now)
	}
}

// reject returns why a result cannot be accepted, or "".
func (j *openJob) reject(index int, r job.ChunkResult) string {
	_, iterations := j.spec.ChunkRange(index)
	if err := r.Validate(iterations); err != nil {
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
func (in *intake) valid(j *openJob, e step.Result, w *worker, own *try, now time.Duration) {
	seconds := min(max(e.Seconds, pace.MinSeconds), pace.MaxSeconds)
	if own != nil {
		// A worker that claims to be slow cannot have been slower than it was.
		seconds = max(pace.MinSeconds, min(seconds, max((now-own.started).Seconds(), pace.MinSeconds)))
		if e.Seconds <= 0 {
			seconds = pace.MinSeconds
		}
	}
	w.pace.Measure(j.kind, e.Result.Iterations, seconds)
	w.answers(now)
	j.term.idle = now
	j.times.Add(seconds)
	odd := j.metrics.Odd(*e.Result)
	if odd != "" {
		in.out.emit(step.Notice{What: step.NoticeAlarm, Worker: w.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: %s", e.Chunk, odd)})
	}
	if own != nil {
		in.work.close(own, now)
	} else {
		in.roster.place(w, now) // its window may have changed
	}
	o := opinion{node: w.node, attempt: e.Number, result: e.Result, seconds: seconds}
	c := &j.chunks[e.Chunk]
	if c.check == nil && !j.mustCheck(w, e.Chunk, odd != "") {
		in.accept(j, e.Chunk, o, now)
		return
	}
	in.weigh(j, e.Chunk, o, now)
}

func (in *intake) accept(j *openJob, index int, o opinion, now time.Duration) {
	j.metrics.Add(*o.result)
	ref := job.Attempt{Job: j.id, Chunk: index, Number: o.attempt}
	in.out.emit(step.Accept{Attempt: ref.At(o.node), Result: *o.result, Seconds: o.seconds, Settles: j.chunks[index].disputed})
	in.work.leave(j, index, accepted, now)
	if in.work.conclude(j, now) {
		return
	}
	if reason := j.enough(); reason != "" {
		in.work.finish(j, completed, reason, now)
	}
}
