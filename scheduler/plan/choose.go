package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// choose returns the worker for a chunk: with room for it, and done soonest.
// One on which the chunk failed before, or which is left out of its kind of
// work, is taken only if there is no other. It returns nil when the chunk has
// to wait. With idle only workers with a free slot count.
func (p *Plan) choose(j *openJob, index int, idle bool, now time.Duration) *worker {
	c := &j.chunks[index]
	var second *worker
	for i := range j.class.open.All {
		w := p.workers[i]
		if idle && len(w.tries) >= w.slots || c.at(w) != nil || c.check.knows(w) {
			continue
		}
		if !slices.Contains(c.avoid, w.node) && !w.excluded(j.kind, now) {
			return w
		}
		if second == nil {
			second = w
		}
	}
	if second == nil || p.others(j, c, now) {
		return nil
	}
	return second
}

// others reports that there are workers, all of them busy, that the chunk
// should rather wait for.
func (p *Plan) others(j *openJob, c *chunk, now time.Duration) bool {
	n := j.class.fit
	counts := func(w *worker) bool { return w != nil && j.class.member.Has(w.index) }
	for _, node := range c.avoid {
		if counts(p.byNode[node]) {
			n--
		}
	}
	for _, w := range j.kind.excluded {
		if counts(w) && w.excluded(j.kind, now) && !slices.Contains(c.avoid, w.node) {
			n--
		}
	}
	for _, t := range c.tries {
		if counts(t.worker) && !slices.Contains(c.avoid, t.worker.node) && !t.worker.excluded(j.kind, now) {
			n--
		}
	}
	if c.check != nil {
		for _, o := range c.check.seen {
			if w := p.byNode[o.node]; counts(w) && !slices.Contains(c.avoid, o.node) && !w.excluded(j.kind, now) && c.at(w) == nil {
				n--
			}
		}
	}
	return n > 0
}

// assignNext assigns one chunk of j: one that was tried before if it can, else
// the next untried one.
func (p *Plan) assignNext(j *openJob, now time.Duration) bool {
	for k := 0; k < min(scanLimit, len(j.retry)); k++ {
		i := int(j.retry[k])
		c := &j.chunks[i]
		if c.state != pending {
			continue
		}
		if w := p.choose(j, i, false, now); w != nil {
			c.queued = false
			j.retry = slices.Delete(j.retry, k, k+1)
			why := step.WhyRetry
			if c.check != nil {
				why = step.WhyCheck
			}
			p.assign(j, i, w, why, now)
			return true
		}
	}
	for ; j.fresh < len(j.chunks); j.fresh++ {
		if c := &j.chunks[j.fresh]; c.state == pending && c.attempts == 0 {
			w := p.choose(j, j.fresh, false, now)
			if w == nil {
				return false
			}
			p.assign(j, j.fresh, w, step.WhyFirst, now)
			j.fresh++
			return true
		}
	}
	return false
}

func (p *Plan) assign(j *openJob, index int, w *worker, why step.Why, now time.Duration) *try {
	attempt := int(j.chunks[index].attempts) + 1
	t := p.open(j, index, attempt, w, now)
	add := job.Attempt{Chunk: index, Number: attempt, Worker: w.node}
	copies := 0
	if why == step.WhyDoubt || why == step.WhyEnd {
		copies = 1
	}
	if w.toldIn != p.steps {
		w.toldIn, w.told = p.steps, w.told[:0]
	}
	for _, i := range w.told {
		if a := p.out[i].(step.Assign); a.Job == j.id && a.Why == why {
			a.Chunks = append(a.Chunks, add)
			a.Copies += copies
			p.out[i] = a
			return t
		}
	}
	w.told = append(w.told, len(p.out))
	p.emit(step.Assign{Worker: w.node, Job: j.id, Why: why, Chunks: []job.Attempt{add}, Copies: copies})
	return t
}

// copyDoubtful gives free slots, for which nothing is pending, attempts at
// chunks that only doubtful workers have.
func (p *Plan) copyDoubtful(now time.Duration) {
	if p.spare == 0 || len(p.doubtful) == 0 {
		return
	}
	for _, w := range p.doubtful {
		for _, t := range w.tries {
			c := &t.job.chunks[t.chunk]
			if slices.ContainsFunc(c.tries, func(o *try) bool { return !o.worker.doubtful }) {
				continue // it runs at a good worker already
			}
			if p.spare == 0 {
				return
			}
			if to := p.choose(t.job, t.chunk, true, now); to != nil {
				p.assign(t.job, t.chunk, to, step.WhyDoubt, now)
			}
		}
	}
}

// copyLast gives free slots, for which nothing is pending, copies of attempts
// that take much longer than the job's others: at most one copy more of each,
// and few in all.
func (p *Plan) copyLast(now time.Duration) {
	if p.spare == 0 {
		return
	}
	limit := max(1, p.slots()/20)
	for _, j := range p.jobs {
		if p.copies >= limit || p.spare == 0 {
			return
		}
		if len(j.tries) == 0 || j.count[pending] > 0 || j.times.Len() < minTimed {
			continue
		}
		slow := max(minCopyAge, 2*j.times.Quantile(0.5))
		var late []*try
		for _, t := range j.tries {
			if now-t.started >= slow && len(j.chunks[t.chunk].tries) == 1 {
				late = append(late, t)
			}
		}
		slices.SortFunc(late, func(a, b *try) int { return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.chunk, b.chunk)) })
		for _, t := range late {
			if p.copies >= limit || p.spare == 0 {
				return
			}
			if to := p.choose(j, t.chunk, true, now); to != nil {
				p.assign(j, t.chunk, to, step.WhyEnd, now).copied = true
				p.copies++
				j.copies++
			}
		}
	}
}

// slots counts the slots of all workers that take part.
func (p *Plan) slots() int {
	n := 0
	for _, w := range p.workers {
		if w != nil && w.serves() {
			n += w.slots
		}
	}
	return n
}

// starve tells of jobs that wait while no worker is fit.
func (p *Plan) starve(now time.Duration) {
	for _, j := range p.jobs {
		if j.count[assigned] > 0 || j.count[pending] == 0 || j.class.fit > 0 {
			j.starving, j.told = 0, false
			continue
		}
		if j.starving == 0 {
			j.starving = max(now, 1)
		}
		if !j.told && now-j.starving >= p.cfg.Starve {
			j.told = true
			p.emit(step.Starved{Job: j.id, Reason: p.eligible(j.class)})
		}
	}
}
