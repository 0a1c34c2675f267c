package pace

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestDeal: slices together do each thing once, each about as often as its share, and
// Count agrees with Number.
func TestDeal(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		shares := make([]int, 1+rng.IntN(6))
		total := 0
		for i := range shares {
			shares[i] = 1 + rng.IntN(9)
			total += shares[i]
		}
		const most = 1000
		who := map[uint64]int{}
		for i := range shares {
			d := NewDeal(shares, i)
			for n := uint64(0); d.Number(n) < most; n++ {
				at := d.Number(n)
				if _, twice := who[at]; twice {
					t.Fatalf("%v: %d is dealt twice", shares, at)
				}
				who[at] = i
				if d.Count(at) != n || d.Count(at+1) != n+1 {
					t.Fatalf("%v, slice %d: %d of the first %d, it is the %dth", shares, i, d.Count(at), at, n)
				}
			}
			for _, n := range []uint64{1, 17, most} {
				want := float64(n) * float64(shares[i]) / float64(total)
				if got := float64(d.Count(n)); got < want-float64(len(shares)) || got > want+float64(len(shares)) {
					t.Errorf("%v: slice %d has %g of %d, its share is %g", shares, i, got, n, want)
				}
			}
			if part := d.Part(); part < 0.999*float64(shares[i])/float64(total) || part > 1.001*float64(shares[i])/float64(total) {
				t.Errorf("%v: part %g", shares, part)
			}
		}
		if len(who) != most {
			t.Fatalf("%v: %d of %d dealt", shares, len(who), most)
		}
	}
}

// TestDealtArrivals: the arrivals of all slices are those of one generator.
func TestDealtArrivals(t *testing.T) {
	c := New(0, []load.Stage{{To: 10}, {To: 50, Over: 4 * time.Second}, {To: 0, Over: time.Second}})
	seen := map[uint64]time.Duration{}
	for i := range 3 {
		d := NewDeal([]int{1, 2, 1}, i)
		for n := uint64(0); ; n++ {
			at, ok := c.Even(d.Number(n))
			if !ok {
				break
			}
			seen[d.Number(n)] = at
		}
	}
	if uint64(len(seen)) != c.Arrivals() {
		t.Fatalf("%d arrivals of %d", len(seen), c.Arrivals())
	}
	for n, at := range seen {
		if want, _ := c.Even(n); at != want {
			t.Errorf("arrival %d at %s, want %s", n, at, want)
		}
	}
}
