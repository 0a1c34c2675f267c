package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// result decides what a worker's answer means.
func (p *Plan) result(e Result, now time.Duration) {
	j := p.byID[e.Job]
	if j == nil {
		// Its job has ended, or was never logged: nobody will ask for it.
		p.emit(Settled{Ref: e.Ref, Worker: e.Worker})
		return
	}
	if e.Chunk < 0 || e.Chunk >= len(j.chunks) || e.Attempt < 1 || e.Attempt > maxAttempt {
		p.emit(Offence{Worker: e.Worker, Reason: fmt.Sprintf("result for chunk %d attempt %d of a job of %d chunks", e.Chunk, e.Attempt, len(j.chunks))})
		return
	}
	c := &j.chunks[e.Chunk]
	if c.state > assigned {
		p.emit(Settled{Ref: e.Ref, Worker: e.Worker})
		return
	}
	var own *try
	if i := slices.IndexFunc(c.tries, func(t *try) bool { return t.attempt == e.Attempt && t.worker.node == e.Worker }); i >= 0 {
		own = c.tries[i]
	}
	reason := e.Error
	if e.Result != nil {
		reason = j.reject(e.Chunk, *e.Result)
	} else if reason == "" {
		reason = "no result and no reason"
	}
	switch {
	case reason == "":
		p.accept(j, e, own, now)
	case own != nil && e.Result == nil && e.Class != cluster.FailedWork:
		// No verdict about the work: it is not the chunk that failed. The
		// worker may forget it once that is logged.
		p.reclaim(own, reason, now)
		p.emit(Settled{Ref: e.Ref, Worker: e.Worker})
	case own != nil:
		p.fail(own, reason, now)
	default:
		// The attempt was taken back before; it counts no second time.
		p.emit(Settled{Ref: e.Ref, Worker: e.Worker})
	}
}

// reject returns why a result cannot be accepted, or "".
func (j *job) reject(index int, r cluster.ChunkResult) string {
	_, n := j.spec.ChunkRange(index)
	if err := r.Validate(n); err != nil {
		return err.Error()
	}
	names := len(j.metrics)
	for name := range r.Metrics {
		if !j.metrics[name] {
			names++
		}
	}
	if limit := min(cluster.MaxMetrics, max(1, MaxCells/len(j.chunks))); names > limit && names > len(j.metrics) {
		return fmt.Sprintf("%v: the job has %d different metrics, at most %d are allowed for %d chunks", cluster.ErrResult, names, limit, len(j.chunks))
	}
	return ""
}

func (p *Plan) accept(j *job, e Result, own *try, now time.Duration) {
	seconds := min(max(e.Seconds, minSeconds), maxSeconds)
	w := p.worker(e.Worker, now)
	w.setRate(e.Result.Iterations, seconds)
	j.observe(seconds)
	for name := range e.Result.Metrics {
		j.metrics[name] = true
	}
	if own != nil {
		p.close(own)
	}
	p.emit(Accept{Ref: e.Ref, Worker: e.Worker, Result: *e.Result, Seconds: seconds})
	p.leave(j, e.Chunk, accepted)
	j.accepted++
	p.conclude(j)
}
