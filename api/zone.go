package api

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/zone"
)

// Zones answers GET /v1/zones, sorted by zone: how the zones are that members name, as
// the holder judges it. If no holder answers, it is what this host sees by itself, which
// says nothing of workers.
type Zones struct {
	Header
	Holder cluster.NodeID `json:"holder"` // who judged; empty: this host did
	Term   cluster.Term   `json:"term"`
	Zones  []Zone         `json:"zones"`
	// Unzoned counts the members that name none.
	Unzoned int `json:"unzoned"`
	// Omitted is how many zones more there are: the list has the first MaxZones.
	Omitted int `json:"omitted,omitempty"`
}

// MaxZones bounds Zones.Zones.
const MaxZones = 512

// Zone is one of them. Its hosts are the members that name it and were not drained.
type Zone struct {
	Zone string `json:"zone"`
	// Health is unhealthy: no host lives, or no worker is reached; degraded: fewer than
	// half of the hosts live, or half of the workers and more are stuck, not ready or
	// overloaded; busy: no room for 5 s; or healthy. It is worse at once and better after 10 s.
	Health string `json:"health"`
	Why    string `json:"why,omitempty"` // in words; empty: it is healthy
	// ForSeconds is how long it has been so, as far as who judges knows.
	ForSeconds float64 `json:"for_seconds"`
	Hosts      int     `json:"hosts"`
	Alive      int     `json:"alive"`   // of Hosts
	Drained    int     `json:"drained"` // members that are not in Hosts
	Slots      int     `json:"slots"`   // of workers that are reached and ready
	Free       int     `json:"free"`    // slots that have nothing to do
	Queued     int     `json:"queued"`  // attempts that wait there for one
	Voters     int     `json:"voters"`
	// RTTSeconds is how far the zone is from the host that answers; null: it does not
	// know. RTTFrom says how it knows: measured (the median of its own round trips to the
	// hosts there, of the last 5 minutes), reported (the median of what at least 3 other
	// hosts measured between the two zones) or estimated (by network coordinates).
	RTTSeconds *float64 `json:"rtt_seconds"`
	RTTFrom    string   `json:"rtt_from,omitempty"`
}

// Candidates are the zones as zone.Choose takes them.
func (z Zones) Candidates() []zone.Candidate {
	out := make([]zone.Candidate, 0, len(z.Zones))
	for _, x := range z.Zones {
		c := zone.Candidate{Zone: x.Zone, Health: zone.Unhealthy, Slots: x.Slots, Free: x.Free, Queued: x.Queued}
		if i := slices.Index(zone.Healths, x.Health); i >= 0 {
			c.Health = zone.Healthy + zone.Health(i) //nolint:gosec // one of four
		}
		if x.RTTSeconds != nil {
			c.RTT = time.Duration(*x.RTTSeconds * float64(time.Second))
		}
		out = append(out, c)
	}
	return out
}
