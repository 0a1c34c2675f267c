package sim

import (
	"math/rand/v2"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Hosts of zoned worlds lie in zones, their packets take a while from one to another, and
// one in a hundred is lost for ever.
const (
	minZoneRTT = 50 * time.Millisecond
	maxZoneRTT = 300 * time.Millisecond
	fastRTT    = 150 * time.Millisecond // beyond, nobody is to use profile fast
	zoneLoss   = 0.01
)

// zones is where hosts are, and how far.
type zones struct {
	count int // 0: the world has none
	// oneWay is how long a packet takes from zone to zone.
	oneWay [maxNodes][maxNodes]time.Duration
	rtt    time.Duration // the longest of all pairs
	next   int           // how many zones were lost in the examination
	first  int           // the zone that was lost first, that of the holder
	lost   int           // zone that is lost now; -1: none
	again  bool          // the first look after a loss found no holder
}

// NewZonedWorld builds the cluster that seed stands for, in so many zones 50 to 300 ms
// apart, in a third of all worlds 300 ms. It has as many hosts as bear the loss of each.
func NewZonedWorld(seed uint64, count int) *World { return newWorld(seed, count) }

// drawZones says how far the zones are.
func drawZones(rng *rand.Rand, count int) (z zones) {
	z.count, z.lost = count, -1
	far := rng.IntN(3) == 0
	for a := range count {
		for b := range a {
			rtt := minZoneRTT + time.Duration(rng.Int64N(int64(maxZoneRTT-minZoneRTT)))
			if far {
				rtt = maxZoneRTT
			}
			z.oneWay[a][b], z.oneWay[b][a] = rtt/2, rtt/2
			z.rtt = max(z.rtt, rtt)
		}
	}
	return z
}

// zoned makes a new world one with zones.
func (w *World) zoned() (hosts int) {
	w.zones = drawZones(w.rng, w.zones.count)
	w.grown, w.operated, w.leaves, w.setting = false, false, false, cluster.ModeAuto
	if w.Profile == cluster.ProfileFast && w.zones.rtt > fastRTT {
		w.setProfile(cluster.ProfileLAN)
	}
	w.calmNet()
	return []int{3, 3, 3, 5, 5, 6, 7}[w.rng.IntN(7)]
}

// of is the zone of a host.
func (z *zones) of(host int) int { return host % z.count }

// between is how long a packet takes from a host to another, beside what the network
// inside a zone adds.
func (z *zones) between(from, to int) time.Duration {
	if z.count == 0 {
		return 0
	}
	return z.oneWay[z.of(from)][z.of(to)]
}

// loseZone has all hosts of a zone crash, or cuts it off from the others, for a while.
func (w *World) loseZone(zone int, crash bool, d time.Duration) {
	w.tracef("zone %d is lost for %s, crash=%t", zone, d, crash)
	for i, n := range w.nodes {
		if w.zones.of(i) != zone {
			continue
		}
		if crash {
			n.crash()
			w.later(d, n.start)
			continue
		}
		for j := range w.nodes {
			if w.zones.of(j) != zone {
				w.cutLink(i, j, d)
				w.cutLink(j, i, d)
			}
		}
	}
}

// failover bounds how long it takes until there is a holder again. Between zones the first
// renewal may be lost, or come too late for what the votes gave: then the candidates begin
// anew.
func (w *World) failover() time.Duration {
	t := w.timing
	d := max(t.Lease, t.Suspect+t.Grace) + 2*t.Lease + 5*time.Second
	if w.zones.count > 0 {
		d += t.Lease + t.Suspect + t.Grace + t.Defer + 10*w.zones.rtt
	}
	return d
}

// examineZones loses one zone after the other, the holder's first, and expects a holder
// each time. It reports whether it goes on.
func (w *World) examineZones(again func(time.Duration)) bool {
	z := &w.zones
	switch {
	case z.count == 0:
		return false
	case z.lost >= 0:
		if w.crashedAt != 0 {
			w.violate("I10 no new holder %s after the loss of zone %d, which held", w.failover(), z.lost)
			return false
		}
		if w.believer() == nil {
			if !z.again { // it may be changing hands at this very moment
				z.again = true
				again(time.Second + 3*z.rtt)
				return true
			}
			w.violate("I10 no holder after the loss of zone %d", z.lost)
			return false
		}
		z.again = false
		for _, n := range w.nodes {
			n.start()
		}
		z.lost = -1
		again(w.settle())
		return true
	case z.next >= z.count:
		return false
	}
	for _, n := range w.nodes {
		n.start() // the holder that crashed before
	}
	h := w.believer()
	if h == nil {
		if !z.again {
			z.again = true
			again(time.Second + 3*z.rtt)
			return true
		}
		w.violate("I10 no holder before a zone is lost")
		return false
	}
	z.again = false
	switch z.lost = z.next; z.next {
	case 0:
		z.first = z.of(h.i)
		z.lost = z.first
	case z.first:
		z.lost = 0
	}
	z.next++
	w.tracef("examine loss of zone %d", z.lost)
	if z.lost == z.of(h.i) {
		w.crashedAt = w.now
	}
	for i, n := range w.nodes {
		if z.of(i) == z.lost {
			n.crash()
		}
	}
	again(w.failover())
	return true
}
