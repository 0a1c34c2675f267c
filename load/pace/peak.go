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

// Length is when the last traffic of a plan ends.
func Length(p *load.Plan) time.Duration {
	d := time.Duration(0)
	for i := range p.Traffics {
		d = max(d, p.Traffics[i].Length())
	}
	return d
}
