package distance

import (
	"encoding/base64"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/hashicorp/serf/coordinate"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/cluster"
)

const ms = time.Millisecond

// counted is how many coordinates ended so.
func (f *fixture) counted(t *testing.T, result string) int {
	t.Helper()
	var m dto.Metric
	if err := f.count.WithLabelValues(result).Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

// fixture is a cluster of this host, n0 of zone ams, and others.
type fixture struct {
	*Distances
	members []cluster.Member
	dead    map[cluster.NodeID]bool
}

func newFixture(t *testing.T, home string, zones ...string) *fixture {
	t.Helper()
	d, err := New("n0", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Distances: d, dead: map[cluster.NodeID]bool{}}
	for i, z := range append([]string{home}, zones...) {
		f.members = append(f.members, cluster.Member{Node: cluster.NodeID(fmt.Sprint("n", i)), Zone: z})
	}
	return f
}

func (f *fixture) round(now time.Duration) map[string]Zone {
	f.Round("n0", func(yield func(cluster.Member, bool) bool) {
		for _, m := range f.members {
			if !yield(m, !f.dead[m.Node]) {
				return
			}
		}
	}, now)
	return f.Zones()
}

// says is what a host says that has measured zones so.
func says(t *testing.T, members []cluster.Member, self int, trips map[int]time.Duration) string {
	t.Helper()
	o := newFixture(t, "")
	o.members = members
	of := func(now time.Duration) {
		o.Round(members[self].Node, func(yield func(cluster.Member, bool) bool) {
			for _, m := range members {
				if !yield(m, true) {
					return
				}
			}
		}, now)
	}
	of(1)
	for i, trip := range trips {
		o.Trip(members[i].Node, trip, 1)
	}
	of(2)
	o.from = 0
	return o.Say()
}

// TestSources: what this host measured lately goes before what three hosts report, which
// goes before what coordinates say. One that lies moves nothing.
func TestSources(t *testing.T) {
	f := newFixture(t, "ams", "ams", "ams", "fra", "fra", "fra")
	is := func(now time.Duration, want Zone) {
		t.Helper()
		if got := f.round(now)["fra"]; got != want {
			t.Errorf("at %s: %+v, want %+v", now, got, want)
		}
	}
	now := time.Hour
	is(now, Zone{})
	f.Trip("n3", 80*ms, now)
	f.Trip("n4", 90*ms, now)
	f.Trip("n5", 100*ms, now)
	is(now, Zone{90 * ms, Measured})
	f.dead["n5"], f.dead["n4"] = true, true
	is(now, Zone{80 * ms, Measured})
	clear(f.dead)
	now += young
	is(now, Zone{}) // it is as old as that, and nobody says more
	// Those here say how far fra is, those there how far ams is.
	f.Report("n1", says(t, f.members, 1, map[int]time.Duration{3: 70 * ms}), now)
	f.Report("n3", says(t, f.members, 3, map[int]time.Duration{1: 72 * ms}), now)
	is(now, Zone{}) // of two reporters either may lie
	f.Report("n2", says(t, f.members, 2, map[int]time.Duration{3: 5 * time.Second}), now)
	is(now, Zone{72 * ms, Reported})
	f.Trip("n3", 81*ms, now)
	is(now, Zone{81 * ms, Measured})
	now += young
	is(now, Zone{})
	// At last coordinates, once this host knows where it is.
	for i := range 400 {
		at := now + time.Duration(i)*time.Second/100
		there := coordinate.NewCoordinate(coordinate.DefaultConfig())
		there.Vec[0], there.Error = 0.06, 0.1
		f.Coordinate(cluster.NodeID(fmt.Sprint("n", 3+i%3)), encode(there), 60*ms, at)
		there.Vec[0] = 0
		f.Coordinate(cluster.NodeID(fmt.Sprint("n", 1+i%2)), encode(there), 2*ms, at)
	}
	if got := f.round(now + 4*time.Second)["fra"]; got.From != Estimated || got.RTT < 50*ms || got.RTT > 70*ms {
		t.Errorf("by coordinates: %+v", got)
	}
	is(now+placeLife+4*time.Second, Zone{})
	// A host that is in no zone hears no reports, those that have left are forgotten.
	if f.members[0].Zone = ""; f.round(now)["fra"].From != Estimated {
		t.Error("no zone, no coordinates")
	}
	if f.members = f.members[:1]; len(f.round(now)) != 0 || len(f.peers) != 0 || len(f.place.wrong) != 0 {
		t.Error("those that left are remembered")
	}
}

// TestSay: more zones than fit are told of in turn, and only what was measured.
func TestSay(t *testing.T) {
	var zones []string
	for i := range 11 {
		zones = append(zones, fmt.Sprintf("z%02d", i))
	}
	a, b := newFixture(t, "z00", zones[1:]...), newFixture(t, "z00", zones[1:]...)
	now := time.Hour
	a.round(now)
	b.round(now)
	if a.Say() != "" {
		t.Errorf("it measured nothing, and says %q", a.Say())
	}
	for i := 1; i < 11; i++ {
		a.Trip(a.members[i].Node, time.Duration(i)*10*ms+30*time.Microsecond, now)
	}
	a.Trip("n4", time.Hour, now) // more than there is room for
	for range 4 {
		a.round(now)
		if text := a.Say(); len(text) > 24 {
			t.Errorf("%d bytes", len(text))
		} else {
			b.Report("n7", text, now)
		}
	}
	got := b.peers["n7"].reports
	if len(got) != 10 || got["z10"].trip != 100*ms || got["z01"].trip != 10*ms || got["z04"].trip != 0xffff*tripUnit {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"", "?", "AA", "AAA", "AAAA", base64.RawURLEncoding.EncodeToString(make([]byte, 19)), "_wABAAE"} {
		b.Report("n8", text, now) // no panic, and nothing believed
	}
	if p := b.peers["n8"]; p != nil && len(p.reports) > 0 {
		t.Errorf("%v", p.reports)
	}
}

// TestRefused: what is no coordinate is refused and counted, moves nothing, and leaves the
// next source.
func TestRefused(t *testing.T) {
	f := newFixture(t, "ams", "fra")
	before := f.Own()
	bad := func(change func(c *coordinate.Coordinate)) string {
		c := coordinate.NewCoordinate(coordinate.DefaultConfig())
		change(c)
		return encode(c)
	}
	for i, text := range []string{
		"no base64!", "AAAA", base64.RawURLEncoding.EncodeToString(make([]byte, placeBytes+4)),
		bad(func(c *coordinate.Coordinate) { c.Vec[3] = math.NaN() }),
		bad(func(c *coordinate.Coordinate) { c.Vec[0] = 1e300 }),
		bad(func(c *coordinate.Coordinate) { c.Vec[0] = 2.1 }),
		bad(func(c *coordinate.Coordinate) { c.Vec[0], c.Height = 1.5, 0.6 }),
		bad(func(c *coordinate.Coordinate) { c.Height = math.Inf(1) }),
		bad(func(c *coordinate.Coordinate) { c.Height = -1 }),
		bad(func(c *coordinate.Coordinate) { c.Error = math.NaN() }),
		bad(func(c *coordinate.Coordinate) { c.Error = -1 }),
		bad(func(c *coordinate.Coordinate) { c.Adjustment = 1e30 }),
	} {
		f.Coordinate("n1", text, 60*ms, time.Hour)
		if n := f.counted(t, "refused"); n != i+1 || f.Own() != before {
			t.Errorf("%q: %v are refused; this host is at %s, was at %s", text, n, f.Own(), before)
		}
	}
	if f.Coordinate("n1", "", 60*ms, time.Hour); f.counted(t, "refused") != 12 {
		t.Error("who says nothing is refused")
	}
	f.Coordinate("n1", encode(coordinate.NewCoordinate(coordinate.DefaultConfig())), 60*ms, time.Hour)
	if f.Own() == before || f.counted(t, "used") != 1 {
		t.Error("a good one moves nothing")
	}
}

// FuzzTexts: whatever others say, this host stays where a host can be.
func FuzzTexts(f *testing.F) {
	f.Add("", "", int64(5))
	f.Add(encode(coordinate.NewCoordinate(coordinate.DefaultConfig())), "AAABAfQ", int64(time.Hour))
	f.Fuzz(func(t *testing.T, place, report string, trip int64) {
		x := newFixture(t, "ams", "fra", "rome")
		x.round(1)
		for range 3 {
			x.Coordinate("n1", place, max(1, min(time.Duration(trip), time.Minute)), 1)
			x.Report("n1", report, 1)
		}
		x.round(2)
		if _, err := decode(x.Own()); err != nil {
			t.Fatal(err)
		}
	})
}
