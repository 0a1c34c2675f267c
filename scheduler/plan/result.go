package plan

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// intake decides about results: whether one counts, and what a chunk's are in the
// end.
type intake struct {
	cfg    *Config
	out    *step.Actions
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
		in.out.Emit(step.Offence{Worker: e.Worker, Reason: fmt.Sprintf("result for chunk %d attempt %d of a job of %d chunks", e.Chunk, e.Number, len(j.chunks))})
		return
	}
	c := &j.chunks[e.Chunk]
	own := c.at(w)
	if own != nil && own.attempt != e.Number {
		own = nil
	}
	given := !w.Stranger || own != nil
	if !given {
		_, given = c.past.Began(e.Attempt)
	}
	if c.state == accepted || c.state == givenUp && !in.welcomes(j, e, w) || !given || w.Distrusted() {
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
		in.out.Emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.FailedInfra:
		// No verdict about the work: it is not the chunk that failed. The
		// worker may forget it once that is logged.
		in.work.blame(w, j, reason, now)
		in.work.reclaim(own, reason, now)
		in.out.Emit(step.Settled{Attempt: e.Attempt})
	case e.Result == nil && e.Class == job.HandedBack:
		if w.Stranger {
			in.work.blame(w, j, reason, now)
		}
		in.work.reclaim(own, reason, now)
		in.out.Emit(step.Settled{Attempt: e.Attempt})
	case in.work.forgives(own):
		in.work.fail(own, reason, now)
		in.out.Emit(step.Settled{Attempt: e.Attempt})
	default:
		in.work.fail(own, reason, now)
	}
}

// welcomes reports that a result may close a chunk that was given up: it came too
// late, and there is no better.
func (in *intake) welcomes(j *openJob, e step.Result, w *worker) bool {
	return e.Result != nil && !w.Stranger && !in.mustCheck(j, w, e.Chunk, false)
}

// unasked lets a worker forget a result that nobody waits for. One that sends
// many of them is told to stop.
func (in *intake) unasked(w *worker, e step.Result, now time.Duration) {
	in.spend(w, now)
	if r := in.cfg.Completions; r.PerSecond > 0 && w.spent.Used() > floodFactor*max(r.Burst, r.PerSecond) {
		in.out.Emit(step.Offence{Worker: w.node, Flood: true, Reason: fmt.Sprintf("flood: %.0f results beyond %g per second", w.spent.Used()-r.Burst, r.PerSecond)})
	}
	in.out.Emit(step.Settled{Attempt: e.Attempt})
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
	if err := j.spec.CheckResult(index, r); err != nil {
		return err.Error()
	}
	names := j.metrics.LenWith(r)
	if limit := min(job.MaxMetrics, max(1, MaxCells/len(j.chunks))); names > limit && names > j.metrics.Len() {
		return fmt.Sprintf("%v: the job has %d different metrics, at most %d are allowed for %d chunks", job.ErrResult, names, limit, len(j.chunks))
	}
	return ""
}

// seconds is how long an attempt ran. Members tell it: one that claims to be slow cannot
// have been slower than it was. Of a stranger the holder's own clock does; 0: nobody
// knows, as it began before this plan.
func (in *intake) seconds(c *chunk, e step.Result, w *worker, own *try, now time.Duration) float64 {
	if w.Stranger {
		began, _ := c.past.Began(e.Attempt)
		if own != nil {
			if began = own.started; own.Adopted {
				return 0
			}
		}
		return min(max((now-began).Seconds(), pace.MinSeconds), pace.MaxSeconds)
	}
	seconds := min(max(e.Seconds, pace.MinSeconds), pace.MaxSeconds)
	if own != nil && !own.Adopted {
		seconds = max(pace.MinSeconds, min(seconds, (now-own.started).Seconds()))
	}
	return seconds
}

// valid handles a result that can be accepted, at once or when another host
// has confirmed it.
func (in *intake) valid(j *openJob, e step.Result, w *worker, own *try, now time.Duration) {
	c := &j.chunks[e.Chunk]
	seconds := in.seconds(c, e, w, own, now)
	if !w.Stranger { // of a stranger it counts when the result does, and for itself alone
		w.pace.Succeed(j.kind)
		if own != nil && !own.Adopted { // else this plan has nothing but the worker's word
			w.pace.Measure(j.kind, e.Result.Iterations, seconds)
			j.times.Add(seconds)
		}
		j.term.Idle = now
	}
	w.answers(now)
	odd := j.metrics.Odd(*e.Result)
	if odd != "" {
		in.out.Emit(step.Notice{What: step.NoticeAlarm, Worker: w.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: %s", e.Chunk, odd)})
	}
	if own != nil {
		in.work.close(own, now)
	} else {
		in.roster.place(w, now) // its window may have changed
	}
	voice := j.voice(w)
	o := trust.Opinion{Node: w.node, Attempt: e.Number, Owner: w.host.Owner, Voice: voice, Result: e.Result, Seconds: seconds}
	believed := !in.mustCheck(j, w, e.Chunk, odd != "")
	if c.check == nil && believed && !w.Stranger {
		in.accept(j, e.Chunk, o, now)
		return
	}
	// Strangers alone have spoken: what a member says needs nobody else.
	alone := believed && !c.disputed && (c.check == nil || c.check.Doubtful() && voice != trust.Established)
	in.weigh(j, e.Chunk, o, alone, now)
}

func (in *intake) accept(j *openJob, index int, o trust.Opinion, now time.Duration) {
	j.metrics.Add(*o.Result)
	j.term.Idle = now
	ref := job.Attempt{Job: j.id, Chunk: index, Number: o.Attempt}
	in.out.Emit(step.Accept{Attempt: ref.At(o.Node), Result: *o.Result, Seconds: o.Seconds, Settles: j.chunks[index].disputed})
	in.work.leave(j, index, accepted, now)
	if in.work.conclude(j, now) {
		return
	}
	if reason := j.enough(); reason != "" {
		in.work.finish(j, completed, reason, now)
	}
}
