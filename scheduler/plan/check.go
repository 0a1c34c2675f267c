package plan

import (
	"fmt"
	"slices"
)

// Check returns the first invariant that does not hold: every chunk is in
// exactly one state, every attempt has a deadline and stands in its chunk and
// its worker, every count is the sum of what it counts. It is for tests.
func (p *Plan) Check() error {
	tries := 0
	for _, j := range p.jobs {
		var count [4]int
		for i := range j.chunks {
			c := &j.chunks[i]
			count[c.state]++
			if (len(c.tries) > 0) != (c.state == assigned) {
				return fmt.Errorf("chunk %s/%d in state %d has %d attempts", j.id, i, c.state, len(c.tries))
			}
			waits := c.queued || c.attempts == 0 && i >= j.fresh
			if c.state == pending && !waits {
				return fmt.Errorf("pending chunk %s/%d is in no line", j.id, i)
			}
			tries += len(c.tries)
			for _, t := range c.tries {
				if t.gone || t.chunk != i || t.job != j || t.attempt > int(c.attempts) || !slices.Contains(t.worker.tries, t) {
					return fmt.Errorf("attempt %s is out of place", t.ref())
				}
				if t.deadline <= 0 || t.deadline < p.expiry {
					return fmt.Errorf("attempt %s: deadline %s, looked at only at %s", t.ref(), t.deadline, p.expiry)
				}
			}
		}
		if count[assigned] != j.assigned || count[accepted]+count[givenUp] != j.accepted+j.givenUp {
			return fmt.Errorf("job %s counts %d assigned, %d accepted, %d given up; its chunks %v", j.id, j.assigned, j.accepted, j.givenUp, count)
		}
		if j.accepted+j.givenUp == len(j.chunks) {
			return fmt.Errorf("job %s has nothing open and has not ended", j.id)
		}
	}
	for _, w := range p.workers {
		tries -= len(w.tries)
		backlog := uint64(0)
		for _, t := range w.tries {
			backlog += t.iterations
		}
		if backlog != w.backlog {
			return fmt.Errorf("worker %s has a backlog of %d, its attempts %d", w.node, w.backlog, backlog)
		}
	}
	if tries != 0 {
		return fmt.Errorf("chunks have %d attempts more than workers", tries)
	}
	return nil
}
