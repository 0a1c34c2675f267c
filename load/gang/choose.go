package gang

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Plan is what a run asks for.
type Plan struct {
	Hosts int              // how many; 0: as On says, or as few as carry it
	On    []cluster.NodeID // none: whoever may
	Rate  float64          // the highest, requests a second; 0: only users
	Users int              // of closed traffic
	Rise  float64          // the most by which the rate is above what it would be at 0, each second
	// Connections that closed traffic has at a time; 0: not known.
	Connections int
}

// Host is one that may take part, or why it does not.
type Host struct {
	Node cluster.NodeID
	Offer
}

// never is a limit that is none.
func never(x float64) float64 {
	if x == 0 {
		return math.Inf(1)
	}
	return x
}

// Choose picks who takes part, with which share. Its error says of each host why it does
// not.
func Choose(p Plan, hosts []Host) ([]event.LoadSlice, error) {
	var free []Host
	var why []string
	for _, h := range hosts {
		if len(p.On) > 0 && !slices.Contains(p.On, h.Node) {
			continue
		}
		switch {
		case h.Why != "":
			why = append(why, fmt.Sprintf("%s: %s", h.Node, h.Why))
		default:
			free = append(free, h)
		}
	}
	for _, n := range p.On {
		if !slices.ContainsFunc(hosts, func(h Host) bool { return h.Node == n }) {
			why = append(why, fmt.Sprintf("%s is no member that is up", n))
		}
	}
	slices.Sort(why)
	// Who carries most comes first, of equals the name decides.
	slices.SortFunc(free, func(a, b Host) int {
		return cmp.Or(cmp.Compare(never(b.MaxRate), never(a.MaxRate)), cmp.Compare(never(float64(b.MaxUsers)), never(float64(a.MaxUsers))), cmp.Compare(a.Node, b.Node))
	})
	want := p.Hosts
	switch {
	case len(p.On) > 0:
		want = len(p.On)
	case want == 0:
		for want = 1; want < min(len(free), event.MaxLoadHosts) && !carries(p, free[:want]); {
			want++
		}
	}
	if want > event.MaxLoadHosts {
		return nil, fmt.Errorf("%d hosts, at most %d can take part", want, event.MaxLoadHosts)
	}
	if len(free) < want {
		return nil, fmt.Errorf("%d of %d hosts may take part: %s", len(free), want, cmp.Or(strings.Join(why, "; "), "no other is up"))
	}
	free = free[:want]
	if !carries(p, free) {
		return nil, lacks(p, free)
	}
	return shares(p, free), nil
}

// room is what hosts allow.
type room struct{ rate, users, ramp, connections float64 }

func limits(hosts ...Host) (r room) {
	for _, h := range hosts {
		r.rate += never(h.MaxRate)
		r.users += never(float64(h.MaxUsers))
		r.ramp += never(h.MaxRamp)
		r.connections += never(float64(h.MaxConnections))
	}
	return r
}

// part is which part of a plan is carried; 1: all of it.
func (r room) part(p Plan) float64 {
	x := 1.0
	for _, one := range [][2]float64{{p.Rate, r.rate}, {float64(p.Users), r.users}, {p.Rise, r.ramp}, {float64(p.Connections), r.connections}} {
		if one[0] > 0 {
			x = min(x, one[1]/one[0])
		}
	}
	return x
}

func carries(p Plan, hosts []Host) bool { return limits(hosts...).part(p) >= 1 }

// lacks says what hosts do not carry of a plan.
func lacks(p Plan, hosts []Host) error {
	r := limits(hosts...)
	switch {
	case p.Rate > r.rate || float64(p.Users) > r.users:
		return fmt.Errorf("the plan comes to %g requests/s and %d users; load.max_rate and load.targets of the hosts allow %g requests/s, load.max_users %g users together",
			p.Rate, p.Users, r.rate, r.users)
	case p.Rise > r.ramp:
		return fmt.Errorf("the plan rises by %g requests/s each second; ramp in load.targets of the hosts allows %g together: begin with a stage that is as slow", p.Rise, r.ramp)
	}
	return fmt.Errorf("the plan comes to %d users, each with a connection; connections in load.targets of the hosts allow %g together", p.Connections, r.connections)
}

// shares are equal where each host carries its part, else as their limits are.
func shares(p Plan, hosts []Host) []event.LoadSlice {
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Node, b.Node) })
	out := make([]event.LoadSlice, len(hosts))
	equal := true
	most := 0.0
	room := func(h Host) float64 { return min(1, limits(h).part(p)) }
	for i, h := range hosts {
		out[i] = event.LoadSlice{Host: h.Node, Share: 1}
		equal = equal && room(h)*float64(len(hosts)) >= 1
		most = max(most, room(h))
	}
	if equal {
		return out
	}
	for i, h := range hosts {
		out[i].Share = max(1, int(room(h)/most*64))
	}
	return out
}
