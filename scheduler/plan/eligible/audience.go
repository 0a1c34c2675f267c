package eligible

import "github.com/skein-project/skein/scheduler/plan/order"

// Audience is to whom of those that may run a job something of it may go.
type Audience uint8

// Values of Audience, each a part of the one before.
const (
	All  Audience = iota
	Firm          // those whose word counts: members, and strangers that have shown enough
	Own           // members
	audiences
)

// Admits reports whether w is one of them.
func (a Audience) Admits(w *Worker) bool {
	switch a {
	case Firm:
		return !w.Stranger || w.Established
	case Own:
		return !w.Stranger
	}
	return true
}

// parts counts the workers of a class by audience.
type parts struct {
	in  [audiences]order.Set
	fit [audiences]int
	own order.Queue // members with room
}

// put says whether w, which the class may be for, is in it.
func (p *parts) put(w *Worker, is bool) {
	for a := range audiences {
		is := is && a.Admits(w)
		if p.in[a].Has(w.Index) == is {
			continue
		}
		p.in[a].Put(w.Index, is)
		if is {
			p.fit[a]++
		} else {
			p.fit[a]--
		}
	}
}

// Fit is how many of an audience may run the jobs now.
func (c *Class) Fit(a Audience) int { return c.fit[a] }

// Strange reports that strangers are among them.
func (c *Class) Strange() bool { return c.fit[Own] < c.fit[All] }

// Has reports that the worker of that index is one of them.
func (c *Class) Has(index int32) bool { return c.in[All].Has(index) }

// Room is those with room for more, the first that drain first. The caller must
// not change it.
func (c *Class) Room() *order.Queue { return &c.open }

// RoomOwn is Room of members alone.
func (c *Class) RoomOwn() *order.Queue { return &c.own }
