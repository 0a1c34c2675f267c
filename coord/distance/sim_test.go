package distance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"github.com/skein-project/skein/cluster"
)

// estimator is a host that learns where it is.
type estimator interface {
	update(node cluster.NodeID, there *coordinate.Coordinate, trip time.Duration) error
	at() *coordinate.Coordinate
	distance(there *coordinate.Coordinate) time.Duration
}

func (p *place) at() *coordinate.Coordinate { return p.client.GetCoordinate() }

// bare is serf's own client, which believes everybody.
type bare struct{ *coordinate.Client }

func (b bare) update(node cluster.NodeID, there *coordinate.Coordinate, trip time.Duration) error {
	_, err := b.Update(string(node), there, trip)
	return err
}

func (b bare) distance(c *coordinate.Coordinate) time.Duration { return b.DistanceTo(c) }

func (b bare) at() *coordinate.Coordinate { return b.GetCoordinate() }

// landscape is where hosts really are: in three zones 50, 200 and 300 ms apart.
type landscape struct {
	rng  *rand.Rand
	zone []int
	last []float64 // of the way from each host to its site, in seconds
}

func (l *landscape) trip(a, b int) float64 {
	between := [3][3]float64{{0.0005, 0.08, 0.2}, {0.08, 0.0005, 0.25}, {0.2, 0.25, 0.0005}}
	return between[l.zone[a]][l.zone[b]] + l.last[a] + l.last[b]
}

// measured is a round trip as it is measured: a little longer, now and then much.
func (l *landscape) measured(a, b int) time.Duration {
	trip := l.trip(a, b) * (1 + 0.05*l.rng.ExpFloat64())
	if l.rng.IntN(50) == 0 {
		trip *= 1 + 2*l.rng.Float64()
	}
	return time.Duration(trip * float64(time.Second))
}

// kind is what liars are like.
type kind string

const (
	fixed  kind = "fixed"  // always at the same wrong place
	moving kind = "moving" // each time at another
	nearby kind = "nearby" // among the honest
)

// lying is what a liar says: to be anywhere, and sure of it.
func lying(rng *rand.Rand, k kind, was *coordinate.Coordinate) *coordinate.Coordinate {
	if was != nil && k != moving {
		return was
	}
	size := 1.2 // about a second from the origin
	if k == nearby {
		size = 0.3
	}
	c := coordinate.NewCoordinate(coordinate.DefaultConfig())
	for i := range c.Vec {
		c.Vec[i] = size * (rng.Float64() - 0.5)
	}
	c.Error = 0.001
	return c
}

// run has 100 hosts measure one another for so many seconds, one sample each second,
// and returns the median and the 95th percentile of how wrong the honest ones are about
// each other.
func run(t *testing.T, seed uint64, guarded bool, liars, seconds int, k kind) (median, p95 float64) {
	t.Helper()
	const hosts = 100
	rng := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test
	l := &landscape{rng: rng}
	list := make([]estimator, hosts)
	lies := make([]*coordinate.Coordinate, hosts)
	for i := range list {
		l.zone, l.last = append(l.zone, i%3), append(l.last, 0.0002+0.002*rng.Float64())
		p, err := newPlace(cluster.NodeID(fmt.Sprint("n", i)))
		if err != nil {
			t.Fatal(err)
		}
		if list[i] = p; !guarded {
			list[i] = bare{p.client} // begins at the same place
		}
	}
	for range seconds {
		for i := range list {
			j := rng.IntN(hosts - 1)
			if j >= i {
				j++
			}
			there := list[j].at()
			if j < liars {
				lies[j] = lying(rng, k, lies[j])
				there = lies[j]
			}
			there, err := decode(encode(there)) // as it travels
			if err != nil {
				if j < liars {
					continue // refused
				}
				t.Fatal(err)
			}
			_ = list[i].update(cluster.NodeID(fmt.Sprint("n", j)), there, l.measured(i, j))
		}
	}
	var wrong []float64
	for i := liars; i < hosts; i++ {
		for j := liars; j < i; j++ {
			truth := l.trip(i, j)
			wrong = append(wrong, math.Abs(list[i].distance(list[j].at()).Seconds()-truth)/truth)
		}
	}
	slices.Sort(wrong)
	return wrong[len(wrong)/2], wrong[len(wrong)*95/100]
}

// TestError: coordinates are as good as those of serf's own client where nobody lies, and
// good where one host in ten does; those of serf's are not. docs/zones.md has the figures of SKEIN_PROVE.
func TestError(t *testing.T) {
	seeds := 1
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 10
	}
	of := func(guarded bool, liars, seconds int, k kind) (m, p float64) {
		for seed := range uint64(seeds) { //nolint:gosec // small
			a, b := run(t, seed+1, guarded, liars, seconds, k)
			m, p = m+a/float64(seeds), p+b/float64(seeds)
		}
		return m, p
	}
	for _, c := range []struct {
		liars, seconds int
		kind           kind
		most           float64
	}{
		{0, 20, fixed, 0.3},
		{0, 60, fixed, 0.15},
		{0, 120, fixed, 0.12},
		{0, 300, fixed, 0.1},
		{1, 120, fixed, 0.12},
		{10, 120, fixed, 0.15},
		{10, 120, moving, 0.15},
		{10, 120, nearby, 0.15},
	} {
		m, p := of(true, c.liars, c.seconds, c.kind)
		sm, sp := of(false, c.liars, c.seconds, c.kind)
		t.Logf("%2d liars of 100 (%s), %3d s: median error %5.1f %%, p95 %5.1f %%; serf's client %5.1f %%, %5.1f %%", c.liars, c.kind, c.seconds, 100*m, 100*p, 100*sm, 100*sp)
		if m > c.most || c.seconds >= 120 && m > 1.05*sm {
			t.Errorf("%d liars, %d s: median error %.3f, at most %.2f, serf's %.3f", c.liars, c.seconds, m, c.most, sm)
		}
		if c.liars > 1 && sm < c.most {
			t.Errorf("serf's client is not misled: %.3f: the test says nothing", sm)
		}
	}
}
