package distance

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/serf/coordinate"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
)

const (
	// young is how long a measured round trip counts, and what hosts report of zones.
	young = 5 * time.Minute
	// placeLife is how long a coordinate counts: in the largest clusters a host hears
	// that of another every ten minutes.
	placeLife = 15 * time.Minute
	// reporters is how many must say how far a zone is.
	reporters = 3
	// zonesPerBeat is how many zones a heartbeat tells of, maxZones of how many in turn.
	zonesPerBeat = 8
	maxZones     = 256
	maxError     = 0.5                    // of coordinates that say something
	tripUnit     = 100 * time.Microsecond // of a reported round trip
)

// Source says where a distance is from.
type Source string

// Values of Source, the best first.
const (
	Measured  Source = "measured"  // by this host
	Reported  Source = "reported"  // the median of what hosts report
	Estimated Source = "estimated" // by coordinates
)

// Zone is how far a zone is.
type Zone struct {
	RTT  time.Duration
	From Source
}

// peer is what is known of another host.
type peer struct {
	trip, tripAt   time.Duration // at 0: none
	place          *coordinate.Coordinate
	placeAt        time.Duration
	reports        map[string]report
	alive, arrived bool // as of the last Round
	zone           string
}

type report struct{ trip, at time.Duration }

// Distances is what a host knows of how far the others are.
type Distances struct {
	place *place
	peers map[cluster.NodeID]*peer
	names []string // of zones, in order
	home  string   // the zone of this host
	from  int      // the first zone that the next heartbeats tell of

	zones map[string]Zone // as of the last Round; never changed
	count *prometheus.CounterVec
	err   prometheus.Gauge
}

// New returns one that knows nothing. The registerer may be nil.
func New(self cluster.NodeID, r prometheus.Registerer) (*Distances, error) {
	p, err := newPlace(self)
	if err != nil {
		return nil, err
	}
	d := &Distances{
		place: p, peers: map[cluster.NodeID]*peer{},
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_coord_coordinates_total", Help: "Coordinates of other hosts, by what became of them: used, doubted (far from what was measured), refused (none at which a host can be).",
		}, []string{"result"}),
		err: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_coord_coordinate_error", Help: "How far what coordinates said of the latest round trips was off, at the median: 0.1 is a tenth. 1: too little was measured.",
		}),
	}
	for _, result := range []string{"used", "doubted", "refused"} {
		d.count.WithLabelValues(result)
	}
	if r != nil {
		if err := errors.Join(r.Register(d.count), r.Register(d.err)); err != nil {
			return nil, fmt.Errorf("register metrics of distances: %w", err)
		}
	}
	return d, nil
}

func (d *Distances) of(node cluster.NodeID) *peer {
	p := d.peers[node]
	if p == nil {
		p = &peer{reports: map[string]report{}}
		d.peers[node] = p
	}
	return p
}

// Trip notes the round trip to a host, smoothed, as of now.
func (d *Distances) Trip(node cluster.NodeID, mean, now time.Duration) {
	p := d.of(node)
	p.trip, p.tripAt = mean, now
}

// Coordinate takes what a host says of where it is, with the round trip that it was said
// in. An empty one says nothing.
func (d *Distances) Coordinate(node cluster.NodeID, text string, trip, now time.Duration) {
	if text == "" {
		return
	}
	c, err := decode(text)
	if err == nil {
		p := d.of(node)
		p.place, p.placeAt = c, now
		err = d.place.update(node, c, trip)
	}
	switch {
	case errors.Is(err, errDoubted):
		d.peers[node].place = nil // nor is it where it says
		d.count.WithLabelValues("doubted").Inc()
	case err != nil:
		d.count.WithLabelValues("refused").Inc()
	default:
		d.count.WithLabelValues("used").Inc()
	}
}

// Report takes what a host says of how far the zones are from it. Zones are numbered by
// the members that it knows: a host that knows other members must not be asked to read
// it.
func (d *Distances) Report(node cluster.NodeID, text string, now time.Duration) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 3 || len(b)%2 != 1 || len(b) > 1+2*zonesPerBeat {
		return
	}
	p := d.of(node)
	for i := 0; 2*i+2 < len(b); i++ {
		if at := int(b[0]) + i; at < len(d.names) {
			if trip := binary.BigEndian.Uint16(b[1+2*i:]); trip > 0 {
				p.reports[d.names[at]] = report{trip: time.Duration(trip) * tripUnit, at: now}
			} else {
				delete(p.reports, d.names[at])
			}
		}
	}
}

// Own is where this host is.
func (d *Distances) Own() string { return encode(d.place.client.GetCoordinate()) }

// Say is what this host reports of zones, empty if it has measured none: the number of
// the first, and the round trips.
func (d *Distances) Say() string {
	if len(d.names) == 0 {
		return ""
	}
	b, said := []byte{byte(d.from)}, false //nolint:gosec // below maxZones
	for _, name := range d.names[d.from:min(d.from+zonesPerBeat, len(d.names))] {
		z, trip := d.zones[name], time.Duration(0)
		if z.From == Measured {
			trip, said = min(max(1, (z.RTT+tripUnit/2)/tripUnit), 0xffff), true
		}
		b = binary.BigEndian.AppendUint16(b, uint16(trip)) //nolint:gosec // bounded
	}
	if !said {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Members are the members, this host included, each with whether it lives.
type Members = iter.Seq2[cluster.Member, bool]

// Round finds out anew how far the zones are.
func (d *Distances) Round(self cluster.NodeID, members Members, now time.Duration) {
	d.look(self, members)
	zones := make(map[string]Zone, len(d.names))
	for _, name := range d.names {
		if z, ok := d.zone(name, now); ok {
			zones[name] = z
		}
	}
	d.zones = zones
	if d.from += zonesPerBeat; d.from >= len(d.names) {
		d.from = 0
	}
	d.err.Set(d.place.sure())
}

// look learns who is where.
func (d *Distances) look(self cluster.NodeID, members Members) {
	seen := map[string]bool{}
	for _, p := range d.peers {
		p.arrived = false
	}
	for m, alive := range members {
		if m.Zone != "" {
			seen[m.Zone] = true
		}
		if m.Node == self {
			d.home = m.Zone
			continue
		}
		p := d.of(m.Node)
		p.zone, p.alive, p.arrived = m.Zone, alive, true
	}
	for node, p := range d.peers {
		if !p.arrived {
			d.Forget(node)
		}
	}
	d.names = slices.Sorted(maps.Keys(seen))
	d.names = d.names[:min(len(d.names), maxZones)]
}

// zone is how far a zone is, by the best source that tells.
func (d *Distances) zone(name string, now time.Duration) (Zone, bool) {
	var measured, reported, estimated []time.Duration
	for _, p := range d.peers {
		if d.home != "" && name != d.home {
			about := name // by those that are where this host is
			if p.zone == name {
				about = d.home
			}
			if r, ok := p.reports[about]; ok && (p.zone == name || p.zone == d.home) && now-r.at < young {
				reported = append(reported, r.trip)
			}
		}
		if p.zone != name || !p.alive {
			continue
		}
		if p.tripAt > 0 && now-p.tripAt < young {
			measured = append(measured, p.trip)
		}
		if p.place != nil && now-p.placeAt < placeLife {
			estimated = append(estimated, d.place.distance(p.place))
		}
	}
	switch {
	case len(measured) > 0:
		return Zone{RTT: median(measured), From: Measured}, true
	case len(reported) >= reporters:
		return Zone{RTT: median(reported), From: Reported}, true
	case len(estimated) > 0 && d.place.sure() < maxError:
		return Zone{RTT: median(estimated), From: Estimated}, true
	}
	return Zone{}, false
}

func median(v []time.Duration) time.Duration {
	slices.Sort(v)
	return v[len(v)/2]
}

// Zones is how far the zones are, as of the last Round. Nobody changes it.
func (d *Distances) Zones() map[string]Zone { return d.zones }

// Forget drops what is known of a host.
func (d *Distances) Forget(node cluster.NodeID) {
	delete(d.peers, node)
	d.place.forget(node)
}
