package fair

import (
	"fmt"
	"slices"
	"time"
)

// Giver gives out the chunks of jobs.
type Giver[J any] interface {
	// Room reports that some worker may get something now.
	Room() bool
	// Ready reports that the job has a chunk to give out.
	Ready(job J) bool
	// Cost is how long the job's next chunk is expected to take; 0: nobody
	// knows. It is not ok while no worker that may run the job has room.
	Cost(job J) (d time.Duration, ok bool)
	// Give gives out one chunk of the job, if a worker takes it.
	Give(job J, now time.Duration) bool
}

// Place is where a job stands. It is part of the job, so that standing in line
// takes no memory. The zero value belongs to no round yet.
type Place[J any] struct {
	job   J
	owner *account[J]
	lag   time.Duration // how much longer it waits than one that got something at the same time
	turn  time.Duration
	order uint64
	pos   int // in the owner's line, see order.Element
}

// Before implements order.Element.
func (p *Place[J]) Before(o *Place[J]) bool {
	if p.turn != o.turn {
		return p.turn < o.turn
	}
	return p.order < o.order
}

// Place implements order.Element.
func (p *Place[J]) Place() *int { return &p.pos }

// Waits reports that the job stands in line.
func (p *Place[J]) Waits() bool { return p.pos != 0 }

// served sends a job to the end of the line of its priority.
func (r *Round[J]) served(p *Place[J], now time.Duration) {
	r.count++
	p.order = r.count
	p.turn = now + p.lag
}

// Round is the owners of open jobs and whose turn it is. NewRound makes one.
type Round[J any] struct {
	limits   Limits
	most     int // open jobs; 0: no limit
	open     int // jobs
	accounts map[string]*account[J]
	count    uint64 // orders jobs in line and the use of accounts

	ring    []*account[J] // with jobs that wait
	turn    int           // whose turn it is
	quantum time.Duration // the share of this round
	dearest time.Duration // chunk of this round
	passed  []*Place[J]   // scratch
}

// NewRound returns a round without owners. Each may submit within limits; in
// all there may be most open jobs, 0: any number.
func NewRound[J any](limits Limits, most int) *Round[J] {
	return &Round[J]{limits: limits, most: most, accounts: make(map[string]*account[J])}
}

// Open takes in that a job of the owner is open, and where it keeps its place:
// it waits for lag longer than one that got something at the same time.
func (r *Round[J]) Open(p *Place[J], job J, owner string, lag time.Duration) {
	*p = Place[J]{job: job, owner: r.account(owner), lag: lag}
	p.owner.open++
	r.open++
}

// Close takes a job that ended out.
func (r *Round[J]) Close(p *Place[J]) {
	p.owner.jobs.Remove(p)
	r.leave(p.owner)
	p.owner.open--
	r.open--
	r.forget()
}

// Wait puts a job into its owner's line, behind those that wait since first,
// unless it got something before.
func (r *Round[J]) Wait(p *Place[J], first time.Duration) {
	if p.order == 0 {
		r.served(p, first)
	}
	a := p.owner
	a.jobs.Fix(p)
	if !a.ringed {
		a.ringed, a.visited, a.deficit = true, false, 0
		r.ring = append(r.ring, a)
	}
}

// leave takes an owner without waiting jobs out of the round.
func (r *Round[J]) leave(a *account[J]) {
	if len(a.jobs.Items()) > 0 || !a.ringed {
		return
	}
	for i, o := range r.ring {
		if o == a {
			r.ring = slices.Delete(r.ring, i, i+1)
			if r.turn > i {
				r.turn--
			}
			break
		}
	}
	a.ringed = false
}

// Fill has chunks given out as long as a worker has room.
func (r *Round[J]) Fill(g Giver[J], now time.Duration) {
	for blocked := 0; blocked < len(r.ring) && g.Room(); {
		if r.turn >= len(r.ring) {
			r.turn = 0
		}
		a := r.ring[r.turn]
		if !a.visited {
			a.visited = true
			a.deficit = min(a.deficit, r.quantum) + r.quantum
		}
		switch r.serve(a, g, now) {
		case gave:
			blocked = 0
		case broke: // what it wants costs more than it has
			blocked = 0
			r.pass(a)
		case stuckFast:
			if a.ringed { // one that left, as its jobs have nothing any more, is none of those that are
				blocked++
			}
			r.pass(a)
		}
	}
}

// pass lets the next owner choose.
func (r *Round[J]) pass(a *account[J]) {
	a.visited = false
	if r.turn < len(r.ring) && r.ring[r.turn] == a {
		r.turn++
	}
	if r.turn >= len(r.ring) { // a round is over: a share is what the dearest chunk of it costs
		r.turn, r.quantum, r.dearest = 0, r.dearest, 0
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

// serve gives out one chunk of the owner's first job that can give one out. A
// chunk of which nothing is known takes the whole share.
func (r *Round[J]) serve(a *account[J], g Giver[J], now time.Duration) outcome {
	out := stuckFast
	r.passed = r.passed[:0]
	for out == stuckFast && len(a.jobs.Items()) > 0 {
		p := a.jobs.Items()[0]
		if cost, ok := g.Cost(p.job); ok {
			if cost == 0 {
				cost = max(r.quantum, leastShare)
			}
			r.quantum, r.dearest = max(r.quantum, cost), max(r.dearest, cost)
			if cost > a.deficit {
				out = broke
				break
			}
			if g.Give(p.job, now) {
				out = gave
				a.deficit -= cost
				r.served(p, now)
			}
		}
		a.jobs.Remove(p)
		r.passed = append(r.passed, p)
	}
	for _, p := range r.passed {
		if g.Ready(p.job) {
			a.jobs.Fix(p)
		}
	}
	r.leave(a)
	return out
}

// Check returns how many jobs stand in line, and what is wrong with the round.
// It is for tests.
func (r *Round[J]) Check() (waiting int, err error) {
	for _, a := range r.ring {
		waiting += len(a.jobs.Items())
		if !a.ringed || len(a.jobs.Items()) == 0 {
			return 0, fmt.Errorf("owner %s is in the round with %d jobs", a.name, len(a.jobs.Items()))
		}
	}
	return waiting, nil
}
