package pace

import (
	"time"

	"github.com/skein-project/skein/load"
)

// Peak is the highest rate that is planned, and the most users.
func Peak(p *load.Plan) (rate float64, users int) {
	for i := range p.Traffics {
		t := &p.Traffics[i]
		if t.Open {
			rate += New(t.Start, t.Rate).Most() * float64(max(1, len(p.Flows[t.Flow].Steps)))
			users += t.MaxUsers
			continue
		}
		users += int(New(t.Start, t.Users).Most())
	}
	return rate, users
}

// Rate is how many requests a second are due at a time, if each iteration sends one for each
// of its steps; 0: some of the traffic has no rate.
func Rate(p *load.Plan, at time.Duration) (sum float64) {
	for i := range p.Traffics {
		t := &p.Traffics[i]
		if !t.Open { // who sends as fast as it is answered has no rate that is due
			return 0
		}
		sum += New(t.Start, t.Rate).Level(at-time.Millisecond) * float64(max(1, len(p.Flows[t.Flow].Steps)))
	}
	return sum
}

// Rise is how many requests a second more each second a plan asks for: its rate at a time,
// over the seconds until the end of that one. Of traffic without a rate nothing is known.
func Rise(p *load.Plan) float64 {
	times, curves, weights := []time.Duration{}, []Curve{}, []float64{}
	for i := range p.Traffics {
		t := &p.Traffics[i]
		if !t.Open {
			continue
		}
		c := New(t.Start, t.Rate)
		curves, weights = append(curves, c), append(weights, float64(max(1, len(p.Flows[t.Flow].Steps))))
		for _, x := range c.parts { // between them the rate and the time are straight lines, and their quotient rises or falls
			times = append(times, x.begin, x.begin+time.Duration(x.seconds*float64(time.Second))-1)
		}
	}
	most := 0.0
	for _, at := range times {
		sum := 0.0
		for i, c := range curves {
			sum += weights[i] * c.Level(at)
		}
		most = max(most, sum/(1+at.Seconds()))
	}
	return most
}

// Length is when the last traffic of a plan ends.
func Length(p *load.Plan) time.Duration {
	d := time.Duration(0)
	for i := range p.Traffics {
		d = max(d, p.Traffics[i].Length())
	}
	return d
}
