package coord

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/internal/simnet"
)

// apart are the zones of zoned worlds, and how long a packet takes from one to another.
var apart = map[[2]string]time.Duration{{"ams", "fra"}: 25 * time.Millisecond, {"ams", "syd"}: 150 * time.Millisecond, {"fra", "syd"}: 100 * time.Millisecond}

// zonedWorld is a cluster of three zones, 50-300 ms apart with one packet in a hundred
// lost, with so many hosts each; it runs, and has a holder.
func zonedWorld(t *testing.T, each int) *world {
	t.Helper()
	w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{Delay: 300 * time.Microsecond, Jitter: 200 * time.Microsecond})
	w.zones = []string{"ams", "fra", "syd"}
	hosts := w.many(3 * each)
	for i, a := range hosts {
		for _, b := range hosts[:i] {
			x := []string{w.zoneOf(a), w.zoneOf(b)}
			slices.Sort(x)
			if d := apart[[2]string{x[0], x[1]}]; d > 0 {
				w.net.SetLink(a.addr, b.addr, simnet.Link{Delay: d, Jitter: d / 10, Loss: 0.01})
			}
		}
	}
	for _, h := range hosts {
		h.start()
	}
	// Of many hosts only those that may vote know who does.
	w.until("a holder and its voters", 3*time.Minute, func() bool {
		holder := w.holder()
		if holder == "" {
			return false
		}
		st := w.hosts[holder].svc.View().Lease
		return len(st.Config.Voters) == min(5, 3*each) && !st.Pending
	})
	return w
}

func (w *world) zoneOf(h *host) string { return w.zones[slices.Index(w.order, h.node)%len(w.zones)] }

// loseZone crashes the hosts of a zone, and returns how long the others then had no holder.
func (w *world) loseZone(zone string) time.Duration {
	w.t.Helper()
	var left []cluster.NodeID
	for _, n := range w.order {
		if h := w.hosts[n]; w.zoneOf(h) == zone {
			h.crash()
		} else {
			left = append(left, n)
		}
	}
	return w.until("a holder without "+zone, time.Minute, func() bool {
		return slices.ContainsFunc(w.acters(), func(n cluster.NodeID) bool { return slices.Contains(left, n) })
	})
}

// TestZones: each zone is lost, the holder's first, and the others have a holder; hosts
// know how far the zones are by what they measured.
func TestZones(t *testing.T) {
	large(t)
	sizes := []int{3}
	if prove() {
		sizes = []int{3, 30}
	}
	for _, each := range sizes {
		t.Run(fmt.Sprint("3x", each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonedWorld(t, each)
				defer w.stopAll()
				far := func(from string) map[string]time.Duration {
					i := slices.IndexFunc(w.order, func(n cluster.NodeID) bool { return w.zoneOf(w.hosts[n]) == from })
					out := map[string]time.Duration{}
					for name, z := range w.hosts[w.order[i]].svc.View().Zones {
						if z.From == distance.Measured {
							out[name] = z.RTT
						}
					}
					return out
				}
				w.until("all zones are measured", 6*time.Minute, func() bool {
					for pair, d := range apart {
						for _, x := range [][2]string{pair, {pair[1], pair[0]}} {
							if got := far(x[0])[x[1]]; got < 2*d || got > 2*d+d/2 {
								return false
							}
						}
					}
					return true
				})
				t.Logf("from ams: %v; coordinates used by the first host: %.0f, refused %.0f", far("ams"),
					w.hosts[w.order[0]].metric("skein_coord_coordinates_total", "used"), w.hosts[w.order[0]].metric("skein_coord_coordinates_total", "refused"))
				if h := w.hosts[w.order[0]]; h.metric("skein_coord_coordinates_total", "used") < 20 || h.metric("skein_coord_coordinates_total", "refused") > 0 {
					t.Error("coordinates do not travel")
				}
				lost := w.zoneOf(w.hosts[w.acters()[0]])
				for _, zone := range append([]string{lost}, slices.DeleteFunc(slices.Clone(w.zones), func(z string) bool { return z == lost })...) {
					took := w.loseZone(zone)
					t.Logf("zone %s is lost: the others have a holder after %s", zone, took)
					if took > 20*time.Second {
						t.Errorf("no holder for %s", took)
					}
					for _, n := range w.order {
						if h := w.hosts[n]; h.svc == nil {
							h.restart()
						}
					}
					w.until("all are back", 3*time.Minute, func() bool { return w.holder() != "" && w.wrong() == 0 })
				}
			})
		})
	}
}

// TestZoneWithoutRoundTrips: a host that measured no round trip to a zone goes by what
// three hosts of its own report, and one that is in no zone by coordinates.
func TestZoneWithoutRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{Delay: 300 * time.Microsecond})
		w.zones = []string{"ams", "ams", "ams", "ams", "fra", ""}
		hosts := w.many(6)
		fra := hosts[4]
		for _, h := range hosts {
			if h != fra {
				w.net.SetLink(h.addr, fra.addr, simnet.Link{Delay: 40 * time.Millisecond, Jitter: time.Millisecond})
			}
			h.start()
		}
		defer w.stopAll()
		is := func(h *host, from distance.Source, low, high time.Duration) func() bool {
			return func() bool {
				z := h.svc.View().Zones["fra"]
				return z.From == from && z.RTT >= low && z.RTT <= high
			}
		}
		measures := is(hosts[0], distance.Measured, 80*time.Millisecond, 84*time.Millisecond)
		w.until("all measure it", time.Minute, func() bool {
			return measures() && is(hosts[5], distance.Measured, 80*time.Millisecond, 84*time.Millisecond)()
		})
		// The packets of two get lost from now on, but they hear of fra from the others.
		for _, h := range []*host{hosts[0], hosts[5]} {
			w.net.CutBoth(h.addr, fra.addr)
		}
		w.until("the silence is noticed", 10*time.Minute, func() bool { return w.hosts[hosts[0].node].svc.View().Zones["fra"].From != distance.Measured })
		w.until("others report it", 10*time.Minute, is(hosts[0], distance.Reported, 80*time.Millisecond, 84*time.Millisecond))
		if z := hosts[5].svc.View().Zones; z["fra"].From == distance.Reported {
			t.Errorf("a host of no zone goes by reports: %v", maps.Collect(maps.All(z)))
		}
	})
}
