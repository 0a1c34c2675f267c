package plan

import (
	"fmt"
	"slices"
	"time"
)

// Check returns the first invariant that does not hold: every chunk is in
// exactly one state, every attempt has a deadline and stands in its chunk, its
// job and its worker, no attempt is at a worker that may not run it, every
// count is the sum of what it counts, and every queue holds what it must. It is
// for tests.
func (p *Plan) Check() error {
	tries, waiting, err := p.work.check(p.now)
	if err != nil {
		return err
	}
	lined, err := p.round.Check()
	if err != nil {
		return err
	}
	if lined != waiting {
		return fmt.Errorf("%d jobs wait, %d stand in line", waiting, lined)
	}
	n, err := p.roster.check()
	if err == nil && n != tries {
		err = fmt.Errorf("chunks have %d attempts, workers %d", tries, n)
	}
	if err != nil {
		return err
	}
	return p.timers.check()
}

// check returns how many attempts are open, and how many jobs wait.
func (k *work) check(now time.Duration) (tries, waiting int, err error) {
	for _, j := range k.jobs {
		n, err := k.checkJob(j, now)
		if err != nil {
			return 0, 0, err
		}
		tries += n
		if j.place.Waits() {
			waiting++
		}
		if len(j.tries) != n {
			return 0, 0, fmt.Errorf("job %s has %d attempts, its chunks %d", j.id, len(j.tries), n)
		}
	}
	return tries, waiting, nil
}

func (k *work) checkJob(j *openJob, now time.Duration) (tries int, err error) {
	var count [chunkStates]int
	waiting := 0
	for i := range j.chunks {
		c := &j.chunks[i]
		count[c.state]++
		if (len(c.tries) > 0) != (c.state == assigned) {
			return 0, fmt.Errorf("chunk %s/%d is %s and has %d attempts", j.id, i, c.state, len(c.tries))
		}
		later := c.wait != nil && c.wait.pos != 0
		if later {
			waiting++
		}
		if c.state == pending && !c.queued && !later && (c.attempts > 0 || i < j.fresh) {
			return 0, fmt.Errorf("pending chunk %s/%d is in no line", j.id, i)
		}
		tries += len(c.tries)
		for _, t := range c.tries {
			if err := k.checkTry(j, i, t, now); err != nil {
				return 0, err
			}
		}
	}
	switch {
	case count != j.count:
		return 0, fmt.Errorf("job %s counts %v, its chunks are %v", j.id, j.count, count)
	case waiting != j.waiting:
		return 0, fmt.Errorf("job %s has %d chunks that wait, counts %d", j.id, waiting, j.waiting)
	case count[accepted]+count[givenUp] == len(j.chunks) && !j.waits:
		return 0, fmt.Errorf("job %s has nothing open and has not ended", j.id)
	case j.ready() && !j.place.Waits():
		return 0, fmt.Errorf("job %s could give out work and is in no line", j.id)
	}
	return tries, nil
}

func (k *work) checkTry(j *openJob, index int, t *try, now time.Duration) error {
	c := &j.chunks[index]
	switch {
	case t.gone, t.chunk != index, t.job != j, t.attempt > int(c.attempts), t.worker.tries[t.inWorker] != t, j.tries[t.inJob] != t:
		return fmt.Errorf("attempt %s is out of place", t.ref())
	case t.timer.pos == 0, t.timer.at < now:
		return fmt.Errorf("attempt %s has no deadline that is still to come: %s", t.ref(), t.timer.at)
	case k.roster.byNode[t.worker.node] != t.worker:
		return fmt.Errorf("attempt %s is at a worker that is forgotten", t.ref())
	case slices.ContainsFunc(c.tries, func(o *try) bool { return o != t && o.worker == t.worker }):
		return fmt.Errorf("chunk of %s is at %s twice", t.ref(), t.worker.node)
	}
	return nil
}

func (r *roster) check() (tries int, err error) {
	roomy, spare := 0, 0
	for _, w := range r.workers {
		if w == nil {
			continue
		}
		tries += len(w.tries)
		backlog, load := uint64(0), time.Duration(0)
		for _, t := range w.tries {
			backlog += t.iterations
			load += t.load
		}
		if backlog != w.backlog || load != w.load {
			return 0, fmt.Errorf("worker %s has a backlog of %d for %s, its attempts %d for %s", w.node, w.backlog, w.load, backlog, load)
		}
		if w.open {
			roomy++
			if len(w.tries) < w.slots {
				spare++
			}
		}
		if w.open && (!w.serves() || len(w.tries) >= w.holds(r.cfg)) {
			return 0, fmt.Errorf("worker %s has no room and is offered work", w.node)
		}
		if slices.Contains(r.doubtful, w) != w.doubtful {
			return 0, fmt.Errorf("worker %s: doubtful is %t, the list says otherwise", w.node, w.doubtful)
		}
		if err := r.classes.Check(&w.host, w.standing()); err != nil {
			return 0, fmt.Errorf("worker %s %w", w.node, err)
		}
	}
	if roomy != r.roomy || spare != r.spare {
		return 0, fmt.Errorf("%d workers have room and %d a free slot, %d and %d counted", roomy, spare, r.roomy, r.spare)
	}
	return tries, nil
}
