package plan

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/order"
)

// account is an owner of jobs that wait. Owners get equal shares of work, by
// deficit round robin; a job of a better priority goes before the owner's
// others, until these have waited long.
type account struct {
	name    string
	jobs    order.Heap[*openJob]
	deficit time.Duration
	visited bool // has got its share of this round
	ringed  bool
	limits  quota
	used    uint64 // order of use
}

func (j *openJob) Before(o *openJob) bool {
	if j.turn != o.turn {
		return j.turn < o.turn
	}
	return j.order < o.order
}

func (j *openJob) Place() *int { return &j.pos }

// line lets a job wait for workers if it has anything to give out.
func (p *Plan) line(j *openJob) {
	if j.pos != 0 || j.state > running || !j.ready() {
		return
	}
	if j.order == 0 {
		p.served(j, j.added)
	}
	a := j.account
	a.jobs.Fix(j)
	if !a.ringed {
		a.ringed, a.visited, a.deficit = true, false, 0
		p.ring = append(p.ring, a)
	}
}

// served sends a job to the end of the line of its priority. A job waits for
// Config.Ageing longer per step of priority than one that got something at the
// same time.
func (p *Plan) served(j *openJob, now time.Duration) {
	p.armed++
	j.order = p.armed
	j.turn = now + time.Duration(min(j.spec.EffectivePriority(), job.MaxPriority))*p.cfg.Ageing
}

// unline takes a job out of the line.
func (p *Plan) unline(j *openJob) {
	j.account.jobs.Remove(j)
	p.unring(j.account)
}

// unring takes an owner without waiting jobs out of the round.
func (p *Plan) unring(a *account) {
	if len(a.jobs.Items()) > 0 || !a.ringed {
		return
	}
	for i, o := range p.ring {
		if o == a {
			p.ring = slices.Delete(p.ring, i, i+1)
			if p.turn > i {
				p.turn--
			}
			break
		}
	}
	a.ringed = false
}

// fill assigns pending chunks as long as a worker has room.
func (p *Plan) fill(now time.Duration) {
	for blocked := 0; blocked < len(p.ring) && p.roomy > 0; {
		if p.turn >= len(p.ring) {
			p.turn = 0
		}
		a := p.ring[p.turn]
		if !a.visited {
			a.visited = true
			a.deficit = min(a.deficit, p.quantum) + p.quantum
		}
		switch p.serve(a, now) {
		case gave:
			blocked = 0
		case broke: // what it wants costs more than it has
			blocked = 0
			p.pass(a)
		case stuckFast:
			blocked++
			p.pass(a)
		}
	}
}

// pass lets the next owner choose.
func (p *Plan) pass(a *account) {
	a.visited = false
	if p.turn < len(p.ring) && p.ring[p.turn] == a {
		p.turn++
	}
	if p.turn >= len(p.ring) { // a round is over: a share is what the dearest chunk of it costs
		p.turn, p.quantum, p.dearest = 0, p.dearest, 0
	}
}

// leastShare is what an owner gets at least when it is its turn.
const leastShare = time.Millisecond

// outcome is what became of an owner's turn.
type outcome int

const (
	gave outcome = iota
	broke
	stuckFast
)

// serve assigns one chunk of the owner's first job that can give one out.
func (p *Plan) serve(a *account, now time.Duration) outcome {
	out := stuckFast
	p.passed = p.passed[:0]
	for out == stuckFast && len(a.jobs.Items()) > 0 {
		j := a.jobs.Items()[0]
		if cost := p.cost(j); j.class.open.Len() > 0 {
			p.quantum, p.dearest = max(p.quantum, cost), max(p.dearest, cost)
			if cost > a.deficit {
				out = broke
				break
			}
			if p.assignNext(j, now) {
				out = gave
				a.deficit -= cost
				p.served(j, now)
			}
		}
		a.jobs.Remove(j)
		p.passed = append(p.passed, j)
	}
	for _, j := range p.passed {
		if j.ready() {
			a.jobs.Fix(j)
		}
	}
	p.unring(a)
	return out
}

// cost is what a chunk of j takes of its owner's share. One of which nothing is
// known takes all of it.
func (p *Plan) cost(j *openJob) time.Duration {
	if j.kind.rate == 0 {
		return max(p.quantum, leastShare)
	}
	return min(j.typical(j.spec.Chunk), time.Hour)
}
