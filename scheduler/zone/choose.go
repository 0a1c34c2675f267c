package zone

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Candidate is a zone in which work could run.
type Candidate struct {
	Zone   string
	Health Health
	RTT    time.Duration // to its hosts, from who gives out the work; 0: not known
	Slots  int
	Free   int // slots that have nothing to do
	Queued int // attempts that wait for one
}

// Want is what zones are chosen for.
type Want struct {
	Count  int      // of zones, 1 at least; for Each 0 as well: all
	Among  []string // only these; none: all
	Prefer []string // those before others that are as well
	// Random is the only chance in the choice: the same gives the same zones.
	Random uint64
}

// RefusedError says why zones cannot be chosen.
type RefusedError struct {
	Want    int
	Zones   int      // that there are to choose from
	Unknown []string // that are wanted or preferred, and no host is in
	// Unusable are those from which nothing can be expected, by what is wrong with them.
	Unusable []string
}

// Error implements error.
func (e *RefusedError) Error() string {
	switch {
	case len(e.Unknown) > 0:
		return "no host is in zone " + strings.Join(e.Unknown, ", ")
	case len(e.Unusable) > 0:
		return fmt.Sprintf("%d zones are wanted, and of %d unhealthy ones nothing is to be expected: %s", e.Want, len(e.Unusable), strings.Join(e.Unusable, ", "))
	}
	return fmt.Sprintf("%d zones are wanted of %d", e.Want, e.Zones)
}

const (
	nearRTT  = 20 * time.Millisecond  // what is nearer is as good
	farRTT   = 100 * time.Millisecond // costs as much as no free slot
	alike    = 1.2                    // how much worse a zone may be than the best to be as good
	unknownR = 150 * time.Millisecond // where nothing was measured
)

// Cost is what a zone costs beside others of the same health: how far it is, how full,
// and how much waits there.
func (c Candidate) Cost() float64 {
	rtt := c.RTT
	if rtt <= 0 {
		rtt = unknownR
	}
	cost := max(rtt, nearRTT).Seconds() / farRTT.Seconds()
	if c.Slots <= 0 {
		return cost + 2
	}
	slots, free, queued := float64(c.Slots), float64(min(max(0, c.Free), c.Slots)), float64(max(0, c.Queued))
	return cost + (1 - free/slots) + queued/(queued+slots)
}

// Choose chooses zones, the best first: the healthier before others, of those the
// preferred, of those by Cost the better of two at random among those that are about as
// good as the best. It never takes an unhealthy one.
func Choose(list []Candidate, w Want) ([]string, error) {
	known := func(name string) bool {
		return slices.ContainsFunc(list, func(c Candidate) bool { return c.Zone == name })
	}
	e := &RefusedError{Want: w.Count}
	for _, name := range slices.Concat(w.Among, w.Prefer) {
		if !known(name) && !slices.Contains(e.Unknown, name) {
			e.Unknown = append(e.Unknown, name)
		}
	}
	var left []Candidate
	for _, c := range list {
		if len(w.Among) > 0 && !slices.Contains(w.Among, c.Zone) {
			continue
		}
		if e.Zones++; c.Health == Unhealthy {
			e.Unusable = append(e.Unusable, c.Zone)
			continue
		}
		left = append(left, c)
	}
	slices.Sort(e.Unusable)
	if e.Zones < w.Count {
		e.Unusable = nil
	}
	if len(e.Unknown) > 0 || len(left) < w.Count || w.Count < 1 {
		return nil, e
	}
	rank := func(c Candidate) int {
		r := 2 * int(c.Health)
		if !slices.Contains(w.Prefer, c.Zone) {
			r++
		}
		return r
	}
	slices.SortFunc(left, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Cost(), b.Cost()), cmp.Compare(a.Zone, b.Zone))
	})
	out := make([]string, 0, w.Count)
	for range w.Count {
		n := 1 // as good as the best
		for n < len(left) && rank(left[n]) == rank(left[0]) && left[n].Cost() <= alike*left[0].Cost() {
			n++
		}
		a, b := draw(&w.Random, n), draw(&w.Random, n)
		i := min(a, b) // they are in order: the earlier is the better
		out = append(out, left[i].Zone)
		left = slices.Delete(left, i, i+1)
	}
	return out, nil
}

// Each are the zones of what runs once in each of them, by name: so many as Choose chooses,
// or without a number all that are named or, if none is, all that there are.
func Each(list []Candidate, w Want) ([]string, error) {
	if w.Count > 0 {
		out, err := Choose(list, w)
		slices.Sort(out)
		return out, err
	}
	var there []string
	for _, c := range list {
		there = append(there, c.Zone)
	}
	e := &RefusedError{Want: max(1, len(w.Among)), Zones: len(there)}
	for _, name := range w.Among {
		if !slices.Contains(there, name) && !slices.Contains(e.Unknown, name) {
			e.Unknown = append(e.Unknown, name)
		}
	}
	out := there
	if len(w.Among) > 0 {
		out = slices.Clone(w.Among)
	}
	if len(e.Unknown) > 0 || len(out) == 0 {
		return nil, e
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// draw takes a number below n from a stream of numbers: splitmix64.
func draw(state *uint64, n int) int {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n)) //nolint:gosec // n is positive, the result below it
}
