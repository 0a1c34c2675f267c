package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/order"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// chooser gives chunks to workers: first what is pending, in the order that a
// round says, then copies of what may be lost or late.
type chooser struct {
	out    *step.Actions
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

// maxStrangers is how many workers are looked at for one chunk where strangers may be
// among them.
const maxStrangers = 64

// pick is whom a chunk is for.
type pick struct {
	c    *chunk
	of   eligible.Audience
	idle bool // only workers with a free slot
}

// choose returns the worker for a chunk: with room for it, and done soonest.
// One on which the chunk failed before, or which is left out of its kind of
// work, is taken only if there is no other. It returns nil when the chunk has
// to wait. With idle only workers with a free slot count.
func (h *chooser) choose(j *openJob, index int, idle bool, now time.Duration) *worker {
	c := &j.chunks[index]
	return h.choosePick(j, pick{c: c, of: h.work.audience(j, c), idle: idle}, now)
}

func (h *chooser) choosePick(j *openJob, p pick, now time.Duration) *worker {
	var first, second, other *worker
	if p.of == eligible.All {
		most := maxStrangers
		if !j.class.Strange() {
			most = math.MaxInt
		}
		first, second = h.look(j, j.class.Room(), p, most, now)
	}
	if first == nil && j.class.Strange() {
		if first, other = h.look(j, j.class.RoomOwn(), p, math.MaxInt, now); first == nil && p.of == eligible.Firm {
			first, second = h.look(j, j.class.Room(), p, maxStrangers, now)
		}
		if second == nil {
			second = other
		}
	}
	if first != nil || second == nil || h.others(j, p.c, p.of, now) {
		return first
	}
	return second
}

// look returns the first of a queue for a chunk, and the first that is taken if there is
// no other.
func (h *chooser) look(j *openJob, q *order.Queue, p pick, most int, now time.Duration) (first, second *worker) {
	n := 0
	for i := range q.All {
		w := h.roster.workers[i]
		if n++; n > most {
			break
		}
		if p.idle && len(w.tries) >= w.slots || !p.of.Admits(&w.host) || p.c.at(w) != nil || p.c.check.Knows(w.node) || !h.roster.kept.Admits(w.host.Keeps(), j.owner) {
			continue
		}
		if !slices.Contains(p.c.avoid, w.node) && !w.pace.LeftOut(j.kind, now) {
			return w, second
		}
		if second == nil {
			second = w
		}
	}
	return nil, second
}

// others reports that there are workers, all of them busy, that the chunk
// should rather wait for.
func (h *chooser) others(j *openJob, c *chunk, of eligible.Audience, now time.Duration) bool {
	n := j.class.Fit(of)
	counts := func(w *worker) bool { return w != nil && j.class.Has(w.host.Index) && of.Admits(&w.host) }
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
		for _, o := range c.check.Seen {
			if w := h.roster.byNode[o.Node]; counts(w) && !slices.Contains(c.avoid, o.Node) && !w.pace.LeftOut(j.kind, now) && c.at(w) == nil {
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
	h.out.Assign(&w.orders, j.id, job.Attempt{Chunk: index, Number: attempt, Worker: w.node}, why)
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
			of := h.reliable(t.job)
			if slices.ContainsFunc(c.tries, func(o *try) bool { return !o.worker.doubtful && of.Admits(&o.worker.host) }) || int(c.failed) >= t.job.spec.Attempts {
				continue // it runs at a good worker already, or has no further try
			}
			if h.roster.spare == 0 {
				return
			}
			if to := h.choosePick(t.job, pick{c: c, of: max(of, h.work.audience(t.job, c)), idle: true}, now); to != nil {
				h.assign(t.job, t.chunk, to, step.WhyDoubt, now)
			}
		}
	}
}

// reliable is to whom copies of what may be lost go: to members, if there are any.
func (h *chooser) reliable(j *openJob) eligible.Audience {
	if j.class.Strange() && j.class.Fit(eligible.Own) > 0 {
		return eligible.Own
	}
	return eligible.All
}

// copyLast gives free slots, for which nothing is pending, copies of attempts
// that take much longer than the job's others: at most one copy more of each,
// and few in all. What strangers have is copied to members without such a bound: a
// stranger may say that it gets on, and have nothing.
func (h *chooser) copyLast(now time.Duration) {
	limit := max(1, h.roster.slots("")/20)
	for _, j := range h.work.jobs {
		if h.roster.spare == 0 {
			return
		}
		of := h.reliable(j)
		few := h.work.copies >= limit || j.times.Len() < minTimed
		if len(j.tries) == 0 || j.count[pending] > 0 || few && (of == eligible.All || j.strange == 0) {
			continue
		}
		slow := max(minCopyAge, 2*j.times.Quantile(0.5))
		var late []*try
		for _, t := range j.tries {
			c := &j.chunks[t.chunk]
			if now-t.started < slow || int(c.failed) >= j.spec.Attempts {
				continue
			}
			if of == eligible.Own && t.strange {
				if !slices.ContainsFunc(c.tries, func(o *try) bool { return !o.strange }) {
					late = append(late, t)
				}
			} else if !few && len(c.tries) == 1 {
				late = append(late, t)
			}
		}
		slices.SortFunc(late, func(a, b *try) int { return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.chunk, b.chunk)) })
		for _, t := range late {
			bounded := of == eligible.All || !t.strange
			c := &j.chunks[t.chunk]
			if bounded && h.work.copies >= limit || !bounded && slices.ContainsFunc(c.tries, func(o *try) bool { return !o.strange }) {
				continue
			}
			if h.roster.spare == 0 {
				return
			}
			if to := h.choosePick(j, pick{c: c, of: max(of, h.work.audience(j, c)), idle: true}, now); to != nil {
				made := h.assign(j, t.chunk, to, step.WhyEnd, now)
				if made.copied = bounded; bounded {
					h.work.copies++
				}
			}
		}
	}
}
