package plan

import "time"

// timer is a time at which something is looked at. It is part of what it is
// for, so that setting it takes no memory.
type timer struct {
	at    time.Duration
	pos   int // in the heap, see order.Element
	order uint64
	// One of these is set.
	try    *try
	worker *worker
	job    *openJob
	chunk  int // with job: a chunk that may be tried again, -1: the job itself
}

func (t *timer) Before(o *timer) bool {
	if t.at != o.at {
		return t.at < o.at
	}
	return t.order < o.order
}

func (t *timer) Place() *int { return &t.pos }

// set arms t, or moves it.
func (p *Plan) set(t *timer, at time.Duration) {
	p.armed++
	t.at, t.order = at, p.armed
	p.timers.Fix(t)
}

// expire handles everything that is due, in the order of time.
func (p *Plan) expire(now time.Duration) {
	for len(p.timers.Items()) > 0 && p.timers.Items()[0].at <= now {
		t := p.timers.Items()[0]
		p.timers.Remove(t)
		switch {
		case t.try != nil:
			p.overdue(t.try, now)
		case t.worker != nil:
			p.wake(t.worker, now)
		case t.chunk >= 0:
			t.job.waiting--
			t.job.requeue(t.chunk)
			p.line(t.job)
		default:
			p.timeUp(t.job, now)
		}
	}
}
