package plan

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// perSlot is what a slot of a worker does that was not measured yet: as much
// as the measured ones on average.
func (p *Plan) perSlot() float64 {
	sum, n := 0.0, 0
	for _, w := range p.workers {
		if w.rate > 0 {
			sum += w.rate
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// drain is the time in which w would be done with all it has and n more
// iterations.
func (w *worker) drain(n uint64, perSlot float64) float64 {
	rate := w.rate
	if rate == 0 {
		rate = perSlot
	}
	return float64(w.backlog+n) / (rate * float64(w.slots))
}

// choose returns the worker for a chunk: with room for it, and done soonest;
// among equals the first by name. It returns nil when the chunk has to wait.
func (p *Plan) choose(j *job, index int, room func(*worker) bool) *worker {
	c := &j.chunks[index]
	_, n := j.spec.ChunkRange(index)
	perSlot := p.perSlot()
	var best, avoided *worker
	var bestTime, avoidedTime float64
	other := false // there is a worker that need not be avoided
	for _, w := range p.workers {
		if !w.fit(j) || slices.ContainsFunc(c.tries, func(t *try) bool { return t.worker == w }) {
			continue
		}
		bad := slices.Contains(c.avoid, w.node)
		other = other || !bad
		if !room(w) {
			continue
		}
		d := w.drain(n, perSlot)
		switch {
		case bad && (avoided == nil || d < avoidedTime):
			avoided, avoidedTime = w, d
		case !bad && (best == nil || d < bestTime):
			best, bestTime = w, d
		}
	}
	if best == nil && !other {
		return avoided
	}
	return best
}

// fill assigns pending chunks as long as a worker has room, one of each job in
// turn.
func (p *Plan) fill(now time.Duration) {
	room := func(w *worker) bool { return len(w.tries) < w.window() }
	if !slices.ContainsFunc(p.workers, func(w *worker) bool { return w.healthy() && room(w) }) {
		return
	}
	for blocked := 0; blocked < len(p.jobs); {
		if p.turn >= len(p.jobs) {
			p.turn = 0
		}
		j := p.jobs[p.turn]
		p.turn++
		if p.assignNext(j, room, now) {
			blocked = 0
		} else {
			blocked++
		}
	}
}

// assignNext assigns one chunk of j: one that was tried before if it can, else
// the next untried one.
func (p *Plan) assignNext(j *job, room func(*worker) bool, now time.Duration) bool {
	j.retry = slices.DeleteFunc(j.retry, func(i int32) bool {
		if j.chunks[i].state == pending {
			return false
		}
		j.chunks[i].queued = false
		return true
	})
	for k := range min(scanLimit, len(j.retry)) {
		i := int(j.retry[k])
		c := &j.chunks[i]
		if now < c.notBefore {
			continue
		}
		if w := p.choose(j, i, room); w != nil {
			c.queued = false
			j.retry = slices.Delete(j.retry, k, k+1)
			p.assign(j, i, w, false, now)
			return true
		}
	}
	for ; j.fresh < len(j.chunks); j.fresh++ {
		if c := &j.chunks[j.fresh]; c.state == pending && c.attempts == 0 {
			w := p.choose(j, j.fresh, room)
			if w == nil {
				return false
			}
			p.assign(j, j.fresh, w, false, now)
			j.fresh++
			return true
		}
	}
	return false
}

func (p *Plan) assign(j *job, index int, w *worker, isCopy bool, now time.Duration) {
	attempt := int(j.chunks[index].attempts) + 1
	p.open(j, index, attempt, w, now)
	try := Try{Chunk: index, Attempt: attempt}
	copies := 0
	if isCopy {
		copies = 1
	}
	for i, a := range slices.Backward(p.out) {
		if a, ok := a.(Assign); ok && a.Worker == w.node && a.Job == j.id {
			a.Chunks = append(a.Chunks, try)
			a.Copies += copies
			p.out[i] = a
			return
		}
	}
	p.emit(Assign{Worker: w.node, Job: j.id, Chunks: []Try{try}, Copies: copies})
}

// copySuspects gives free slots, for which nothing is pending, attempts at
// chunks that only doubtful workers have.
func (p *Plan) copySuspects(now time.Duration) {
	free := func(w *worker) bool { return len(w.tries) < w.slots }
	if !slices.ContainsFunc(p.workers, func(w *worker) bool { return w.healthy() && free(w) }) {
		return
	}
	doubtful := func(t *try) bool { return t.worker.doubtful(p.cfg, now) }
	for _, w := range p.workers {
		if len(w.tries) == 0 || !w.doubtful(p.cfg, now) {
			continue
		}
		for _, t := range slices.Clone(w.tries) {
			c := &t.job.chunks[t.chunk]
			if slices.ContainsFunc(c.tries, func(o *try) bool { return !doubtful(o) }) {
				continue // it runs at a good worker already
			}
			if to := p.choose(t.job, t.chunk, free); to != nil {
				p.assign(t.job, t.chunk, to, true, now)
			}
		}
	}
}

// starve tells of jobs that wait while no worker is fit.
func (p *Plan) starve(now time.Duration) {
	for _, j := range p.jobs {
		if j.assigned > 0 || slices.ContainsFunc(p.workers, func(w *worker) bool { return w.fit(j) }) {
			j.starving, j.told = 0, false
			continue
		}
		if j.starving == 0 {
			j.starving = max(now, 1)
		}
		if !j.told && now-j.starving >= p.cfg.Starve {
			j.told = true
			p.emit(Starved{Job: j.id})
		}
	}
}

// Fit reports the workers that may get chunks of a job.
func (p *Plan) Fit(id cluster.JobID) int {
	n := 0
	if j := p.byID[id]; j != nil {
		for _, w := range p.workers {
			if w.fit(j) {
				n++
			}
		}
	}
	return n
}
