package pace

// Deal says which of the things that one generator would do, numbered from 0, are of
// one slice: arrivals, users, rows. All slices together do each of them once. The zero
// value has them all.
type Deal struct {
	of int   // how many are dealt in one round
	at []int // which of a round are this slice's, rising
}

// NewDeal is the deal of slice i of slices with these shares, each at least 1: as even as
// shares are, nobody gets many in a row.
func NewDeal(shares []int, i int) Deal {
	total := 0
	for _, s := range shares {
		total += s
	}
	if len(shares) < 2 {
		return Deal{}
	}
	d := Deal{of: total}
	// Smooth weighted round robin: whoever lags most behind the share is next.
	credit := make([]int, len(shares))
	for n := range total {
		best := 0
		for k, s := range shares {
			if credit[k] += s; credit[k] > credit[best] {
				best = k
			}
		}
		credit[best] -= total
		if best == i {
			d.at = append(d.at, n)
		}
	}
	return d
}

// Number is the number, among all, of the slice's own nth thing.
func (d Deal) Number(n uint64) uint64 {
	if d.of == 0 {
		return n
	}
	k := uint64(len(d.at))
	return n/k*uint64(d.of) + uint64(d.at[n%k])
}

// Count is how many of the first n are the slice's.
func (d Deal) Count(n uint64) uint64 {
	if d.of == 0 {
		return n
	}
	c := n / uint64(d.of) * uint64(len(d.at))
	for _, at := range d.at {
		if uint64(at) < n%uint64(d.of) {
			c++
		}
	}
	return c
}

// Part is the slice's share of all, 1 where it has them all.
func (d Deal) Part() float64 {
	if d.of == 0 {
		return 1
	}
	return float64(len(d.at)) / float64(d.of)
}
