package pace

import (
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/load"
)

// Curve is a level over time: a rate in arrivals a second, or a number of users.
type Curve struct {
	parts []part
	end   time.Duration
	area  float64
}

// part is one ramp; levels are those at its ends.
type part struct {
	begin    time.Duration
	seconds  float64
	from, to float64
	before   float64 // area under the parts before
}

// New is the curve of stages that begin at start: before that the level is 0.
func New(start time.Duration, stages []load.Stage) Curve {
	c := Curve{end: start}
	level := 0.0
	for _, s := range stages {
		p := part{begin: c.end, seconds: s.Over.Seconds(), from: level, to: s.To, before: c.area}
		level = s.To
		if s.Over <= 0 {
			continue
		}
		c.parts = append(c.parts, p)
		c.end += s.Over
		c.area += p.seconds * (p.from + p.to) / 2
	}
	return c
}

// End is when the last stage ends.
func (c Curve) End() time.Duration { return c.end }

// Most is the highest level.
func (c Curve) Most() float64 {
	most := 0.0
	for _, p := range c.parts {
		most = max(most, p.from, p.to)
	}
	return most
}

// Level is that at a time. Where a stage begins with a jump, it is the one after it.
func (c Curve) Level(at time.Duration) float64 {
	for _, p := range slices.Backward(c.parts) {
		if at < p.begin || at >= c.end {
			continue
		}
		return p.from + (p.to-p.from)*min(1, (at-p.begin).Seconds()/p.seconds)
	}
	return 0
}

// Arrivals counts what is due in all.
func (c Curve) Arrivals() uint64 {
	// The area of whole stages is rarely a whole number to the last bit.
	return uint64(math.Ceil(c.area - 1e-9*max(1, c.area)))
}

// Due is when the area under the curve reaches x; ok is false beyond its end.
func (c Curve) Due(x float64) (at time.Duration, ok bool) {
	if x < 0 || x >= c.area {
		return c.end, false
	}
	low, high := 0, len(c.parts)
	for high-low > 1 {
		if mid := (low + high) / 2; c.parts[mid].before <= x {
			low = mid
		} else {
			high = mid
		}
	}
	p := c.parts[low]
	x -= p.before
	// The area from*t + k*t*t/2 is x; this root of it is exact where k is 0, and
	// loses no digits where it is small.
	k := (p.to - p.from) / p.seconds
	t := 0.0
	if x > 0 {
		t = 2 * x / (p.from + math.Sqrt(max(0, p.from*p.from+2*k*x)))
	}
	return p.begin + time.Duration(math.Round(min(t, p.seconds)*1e9)), true
}

// Even is when arrival n is due, from 0, if they come evenly.
func (c Curve) Even(n uint64) (time.Duration, bool) {
	if n >= c.Arrivals() {
		return c.end, false
	}
	return c.Due(float64(n))
}

// Poisson has arrivals come at random: the gaps are exponential in the area.
type Poisson struct {
	curve Curve
	area  float64
}

// Poisson begins such a sequence.
func (c Curve) Poisson() *Poisson { return &Poisson{curve: c} }

// Next is when the next one is due; uniform is a number of [0, 1).
func (p *Poisson) Next(uniform float64) (time.Duration, bool) {
	p.area -= math.Log1p(-uniform)
	return p.curve.Due(p.area)
}
