package engine

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/skein-project/skein/load/pace"
)

// redeal is what of the plan is this slice's from a time on.
type redeal struct {
	from   time.Duration
	told   time.Time
	deal   pace.Deal
	before *redeal
}

// begin is when it holds: what was due before it was told, the deal before it did. A
// generator that is late at that time sends late what is due behind it, as always.
func (r *redeal) begin(began time.Time) time.Duration { return max(r.from, r.told.Sub(began)) }

// Redeal has this slice do what a deal says from a time of the run on, which is seconds
// ahead. Rows and the numbers of users stay as they were dealt: none is given twice.
func (e *Engine) Redeal(from time.Duration, d pace.Deal) {
	e.redealt.Store(&redeal{from, time.Now(), d, e.redealt.Load()})
}

// dealAt is what is this slice's at a time.
func (e *Engine) dealAt(at time.Duration) pace.Deal {
	for r := e.redealt.Load(); r != nil; r = r.before {
		if at >= r.begin(e.began) {
			return r.deal
		}
	}
	return e.o.Deal
}

// redealAfter is the redeal behind another; nil: there is none yet.
func (e *Engine) redealAfter(seen *redeal) *redeal {
	r := e.redealt.Load()
	if r == seen {
		return nil
	}
	for r.before != seen {
		r = r.before
	}
	return r
}

// redealing is how long before its time a redeal is told at least.
const redealing = time.Second

// due waits for the next arrival that is this slice's; ok is false when there is none any
// more.
type due struct {
	t    *traffic
	next func() (time.Duration, bool)
	seen *redeal
}

// wait waits until it is due, by a timer; false: that was ended.
func (d *due) wait(until func(time.Time) bool) (at time.Time, ok bool) {
	e := d.t.e
	after, some := d.next()
	for {
		if r := e.redealAfter(d.seen); r != nil && (!some || after >= r.begin(e.began)) {
			begin := r.begin(e.began)
			d.seen, d.next = r, d.t.sequence(r.from, r.deal) // all count from the same arrival
			d.t.resize(r.deal)
			if begin > r.from {
				e.remark(fmt.Sprintf("it was told %s too late to take over what others had", (begin - r.from).Round(time.Millisecond)))
			}
			for after, some = d.next(); some && after < begin; {
				after, some = d.next()
			}
			continue
		}
		if !some { // the last gap is part of the plan
			after = d.t.curve.End()
		}
		at = e.began.Add(after)
		if soon := time.Now().Add(redealing); at.After(soon) {
			if !until(soon) {
				return at, false
			}
			continue
		}
		return at, until(at) && some
	}
}

// sequence says when one after the other is due, of those from a time on.
func (t *traffic) sequence(from time.Duration, deal pace.Deal) func() (time.Duration, bool) {
	own := uint64(0)
	if t.t.Poisson {
		p, rng := t.curve.Poisson(), rand.New(rand.NewPCG(t.e.o.Seed, 1<<63))
		// All slices throw the same dice.
		all, first := uint64(0), uint64(0)
		at, ok := time.Duration(0), true
		for from > 0 && ok && at < from {
			at, ok = p.Next(rng.Float64())
			first = all
			all++
		}
		return func() (time.Duration, bool) {
			for mine := first + deal.Number(own); ok && all <= mine; all++ {
				at, ok = p.Next(rng.Float64())
			}
			own++
			return at, ok
		}
	}
	first := uint64(0)
	if from > 0 {
		first = uint64(sort.Search(int(t.curve.Arrivals()), func(n int) bool { //nolint:gosec // as many as a day has
			at, _ := t.curve.Even(uint64(n)) //nolint:gosec // not below 0
			return at >= from
		}))
	}
	return func() (time.Duration, bool) {
		at, ok := t.curve.Even(first + deal.Number(own))
		own++
		return at, ok
	}
}

// resize has as many users at most as a deal says.
func (t *traffic) resize(d pace.Deal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = max(1, int(d.Count(uint64(t.t.MaxUsers)))) //nolint:gosec // a few thousand
}
