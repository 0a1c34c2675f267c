package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// chooser gives chunks to workers: first what is pending, in the order that a
// round says, then copies of what may be lost or late.
type chooser struct {
	out    *actions
	roster *roster
	work   *work
}

// Room implements fair.Giver.
func (h *chooser) Room() bool { return h.roster.roomy > 0 }

// Ready implements fair.Giver.
func (h *chooser) Ready(j *openJob) bool { return j.ready() }

// Cost implements fair.Giver.
func (h *chooser) Cost(j *openJob) (time.Duration, bool) {
	switch {
	case j.class.Room().Len() == 0:
		return 0, false
	case !j.kind.Measured():
		return 0, true
	}
	return min(j.kind.Typical(j.spec.Chunk, j.spec.Chunk), time.Hour), true
}

// choose returns the worker for a chunk: with room for it, and done soonest.
// One on which the chunk failed before, or which is left out of its kind of
// work, is taken only if there is no other. It returns nil when the chunk has
// to wait. With idle only workers with a free slot count.
func (h *chooser) choose(j *openJob, index int, idle bool, now time.Duration) *worker {
	c := &j.chunks[index]
	var second *worker
	for i := range j.class.Room().All {
		w := h.roster.workers[i]
		if idle && len(w.tries) >= w.slots || c.at(w) != nil || c.check.knows(w) {
			continue
		}
		if !slices.Contains(c.avoid, w.node) && !w.pace.LeftOut(j.kind, now) {
			return w
		}
		if second == nil {
			second = w
		}
	}
	if second == nil || h.others(j, c, now) {
		return nil
	}
	return second
}

// others reports that there are workers, all of them busy, that the chunk
// should rather wait for.
func (h *chooser) others(j *openJob, c *chunk, now time.Duration) bool {
	n := j.class.Fit()
	counts := func(w *worker) bool { return w != nil && j.class.Has(w.host.Index) }
	for _, node := range c.avoid {
		if counts(h.roster.byNode[node]) {
			n--
		}
	}
	for _, out := range j.kind.LeftOut() {
		if w := h.roster.workers[out.Index]; counts(w) && w.pace.LeftOut(j.kind, now) && !slices.Contains(c.avoid, w.node) {
			n--
		}
	}
	for _, t := range c.tries {
		if counts(t.worker) && !slices.Contains(c.avoid, t.worker.node) && !t.worker.pace.LeftOut(j.kind, now) {
			n--
		}
	}
	if c.check != nil {
		for _, o := range c.check.seen {
			if w := h.roster.byNode[o.node]; counts(w) && !slices.Contains(c.avoid, o.node) && !w.pace.LeftOut(j.kind, now) && c.at(w) == nil {
				n--
			}
		}
	}
	return n > 0
}

// Give implements fair.Giver: it assigns one chunk of j, one that was tried before
// if it can, else the next untried one.
func (h *chooser) Give(j *openJob, now time.Duration) bool {
	for k := 0; k < min(scanLimit, len(j.retry)); k++ {
		i := int(j.retry[k])
		c := &j.chunks[i]
		if c.state != pending {
			continue
		}
		if w := h.choose(j, i, false, now); w != nil {
			j.unqueue(k)
			why := step.WhyRetry
			if c.check != nil {
				why = step.WhyCheck
			}
			h.assign(j, i, w, why, now)
			return true
		}
	}
	for ; j.fresh < len(j.chunks); j.fresh++ {
		if c := &j.chunks[j.fresh]; c.state == pending && c.attempts == 0 {
			w := h.choose(j, j.fresh, false, now)
			if w == nil {
				return false
			}
			h.assign(j, j.fresh, w, step.WhyFirst, now)
			j.fresh++
			return true
		}
	}
	return false
}

func (h *chooser) assign(j *openJob, index int, w *worker, why step.Why, now time.Duration) *try {
	attempt := int(j.chunks[index].attempts) + 1
	t := h.work.open(j, index, attempt, w, now)
	h.out.assign(&w.orders, j.id, job.Attempt{Chunk: index, Number: attempt, Worker: w.node}, why)
	return t
}

// copyDoubtful gives free slots, for which nothing is pending, attempts at
// chunks that only doubtful workers have.
func (h *chooser) copyDoubtful(now time.Duration) {
	if h.roster.spare == 0 || len(h.roster.doubtful) == 0 {
		return
	}
	for _, w := range h.roster.doubtful {
		for _, t := range w.tries {
			c := &t.job.chunks[t.chunk]
			if slices.ContainsFunc(c.tries, func(o *try) bool { return !o.worker.doubtful }) || int(c.failed) >= t.job.spec.Attempts {
				continue // it runs at a good worker already, or has no further try
			}
			if h.roster.spare == 0 {
				return
			}
			if to := h.choose(t.job, t.chunk, true, now); to != nil {
				h.assign(t.job, t.chunk, to, step.WhyDoubt, now)
			}
		}
	}
}

// copyLast gives free slots, for which nothing is pending, copies of attempts
// that take much longer than the job's others: at most one copy more of each,
// and few in all.
func (h *chooser) copyLast(now time.Duration) {
	if h.roster.spare == 0 {
		return
	}
	limit := max(1, h.roster.slots("")/20)
	for _, j := range h.work.jobs {
		if h.work.copies >= limit || h.roster.spare == 0 {
			return
		}
		if len(j.tries) == 0 || j.count[pending] > 0 || j.times.Len() < minTimed {
			continue
		}
		slow := max(minCopyAge, 2*j.times.Quantile(0.5))
		var late []*try
		for _, t := range j.tries {
			if c := &j.chunks[t.chunk]; now-t.started >= slow && len(c.tries) == 1 && int(c.failed) < j.spec.Attempts {
				late = append(late, t)
			}
		}
		slices.SortFunc(late, func(a, b *try) int { return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.chunk, b.chunk)) })
		for _, t := range late {
			if h.work.copies >= limit || h.roster.spare == 0 {
				return
			}
			if to := h.choose(j, t.chunk, true, now); to != nil {
				h.assign(j, t.chunk, to, step.WhyEnd, now).copied = true
				h.work.copies++
			}
		}
	}
}
