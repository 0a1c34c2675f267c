package policy

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher/descriptor"
)

var (
	key   = descriptor.Address{1}
	other = descriptor.Address{2}
)

// TestPublishes: a host that has the key stands in for a publisher that has none.
func TestPublishes(t *testing.T) {
	keeper := func(n cluster.NodeID, priority uint32) Host {
		return Host{Node: n, Priority: priority, Health: cluster.Alive, Known: true, Keys: []descriptor.Address{key}}
	}
	all := []Host{{Node: "n1", Health: cluster.Alive, Known: true}, keeper("n2", 10), keeper("n3", 5), keeper("n4", 5)}
	for _, c := range []struct {
		name  string
		self  cluster.NodeID
		d     lease.Duty
		hosts []Host
		want  bool
	}{
		{"has duty and key", "n2", lease.Duty{Publisher: "n2", Publishing: true}, all, true},
		{"has the duty, no key", "n1", lease.Duty{Publisher: "n1", Publishing: true}, all, false},
		{"the publisher has the key", "n3", lease.Duty{Publisher: "n2"}, all, false},
		{"stands in: best priority, first name", "n3", lease.Duty{Publisher: "n1"}, all, true},
		{"another stands in", "n4", lease.Duty{Publisher: "n1"}, all, false},
		{"nobody is known yet", "n3", lease.Duty{}, all, false},
		{"alone", "n2", lease.Duty{Publisher: "n1"}, all[:2], true},
	} {
		if got := publishes(Input{Self: c.self, Duty: c.d}, keepers(c.hosts, key), true); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if got := publishes(Input{Self: c.self, Duty: c.d}, keepers(c.hosts, key), false); got != (c.want && c.d.Publishing) {
			t.Errorf("%s, publisher not known: %t", c.name, got)
		}
	}
}

// TestAwaitedPublisher: a publisher whose share was not read keeps its place for a
// minute, in a large cluster for ever.
func TestAwaitedPublisher(t *testing.T) {
	in := Input{
		Self: "n2", Duty: lease.Duty{Publisher: "n1"}, Addresses: []descriptor.Address{key},
		Hosts: []Host{{Node: "n1", Health: cluster.Alive}, {Node: "n2", Health: cluster.Alive, Known: true, Keys: []descriptor.Address{key}}},
	}
	p := New()
	at := func(now time.Duration) bool {
		in.Now = now
		return p.Decide(in).Addresses[0].Publish
	}
	start := time.Hour
	if at(start) || at(start+awaitTime-1) {
		t.Error("stands in too early")
	}
	if !at(start + awaitTime) {
		t.Error("does not stand in")
	}
	in.Hosts[0].Known = true
	if !at(start + awaitTime + 1) {
		t.Error("does not stand in for a publisher that has no key")
	}
	in.Hosts[0].Known = false
	if at(start + awaitTime + 2) {
		t.Error("the time did not begin anew")
	}
	if in.Large = true; at(start + 5*awaitTime) {
		t.Error("stands in among shares of few hosts")
	}
}

// TestPublishTerm: a host that claims to hold some term changes nobody's, and no
// term is one that revisions have no room for.
func TestPublishTerm(t *testing.T) {
	for _, c := range []struct {
		name         string
		d            lease.Duty
		logged, want cluster.Term
	}{
		{"own lease, not yet in the log", lease.Duty{Publisher: "n1", Publishing: true, ByLease: true, Term: 7}, 6, 7},
		{"another's word", lease.Duty{Publisher: "n2", ByLease: true, Term: 1 << 40}, 6, 6},
		{"stands in", lease.Duty{Publisher: "n1", Publishing: true}, 6, 6},
		{"a log beyond all terms", lease.Duty{}, 1 << 40, descriptor.MaxRevisionTerm},
	} {
		in := Input{Self: "n1", Duty: c.d, Logged: c.logged}
		if got := New().Decide(in).Term; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		if got, want := New().Decide(in).ByLease, c.d.Publishing && c.d.ByLease; got != want {
			t.Errorf("%s: by lease %t", c.name, got)
		}
		if in.Split = true; New().Decide(in).ByLease {
			t.Errorf("%s: a lease that others may have as well excludes them", c.name)
		}
	}
}

// TestPlaces: whose points belong in a descriptor.
func TestPlaces(t *testing.T) {
	host := func(n cluster.NodeID, change ...func(*Host)) Host {
		h := Host{Node: n, Health: cluster.Alive, Service: descriptor.Address{9}, Serves: []descriptor.Address{key}, Weight: 1, Points: 3}
		for _, f := range change {
			f(&h)
		}
		return h
	}
	failing := func(h *Host) { h.Failing = true }
	drained := func(h *Host) { h.Weight = 0 }
	pointless := func(h *Host) { h.Points = 0 }
	health := func(x cluster.Health) func(*Host) { return func(h *Host) { h.Health = x } }
	for _, c := range []struct {
		name  string
		hosts []Host
		want  []Place
	}{
		{"all", []Host{host("n1"), host("n2")}, []Place{{"n1", false}, {"n2", false}}},
		{"another address", []Host{host("n1"), host("n2", func(h *Host) { h.Serves = []descriptor.Address{other} })}, []Place{{"n1", false}}},
		{"dead, left and joining", []Host{host("n1"), host("n2", health(cluster.Dead)), host("n3", health(cluster.Left)), host("n4", health(cluster.Joining))}, []Place{{"n1", false}}},
		{"suspect, not asked yet", []Host{host("n1"), host("n2", health(cluster.Suspect))}, []Place{{"n1", false}, {"n2", false}}},
		{"itself in doubt", []Host{host("n1", health(cluster.Suspect))}, []Place{{"n1", false}}},
		{"one fails", []Host{host("n1", failing), host("n2"), host("n3")}, []Place{{"n1", true}, {"n2", false}, {"n3", false}}},
		{"all but one fail", []Host{host("n1", failing), host("n2"), host("n3", failing)}, []Place{{"n1", true}, {"n2", false}, {"n3", true}}},
		{"all fail", []Host{host("n1", failing), host("n2", failing)}, []Place{{"n1", false}, {"n2", false}}},
		{"the only one fails", []Host{host("n1", failing)}, []Place{{"n1", false}}},
		{"the healthy one is drained", []Host{host("n1", failing), host("n2", drained)}, []Place{{"n1", false}, {"n2", false}}},
		{"the healthy one has no points", []Host{host("n1", failing), host("n2", pointless)}, []Place{{"n1", false}, {"n2", false}}},
		{"the healthy one is dead", []Host{host("n1", failing), host("n2", health(cluster.Dead))}, []Place{{"n1", false}}},
		{"drained and failing", []Host{host("n1", failing, drained), host("n2")}, []Place{{"n1", true}, {"n2", false}}},
	} {
		d := New().Decide(Input{Self: "n1", Hosts: c.hosts, Addresses: []descriptor.Address{key}})
		if got := d.Addresses[0].Hosts; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestLeftOut: each host with an onion service whose clients go elsewhere has a
// reason.
func TestLeftOut(t *testing.T) {
	host := func(n cluster.NodeID, health cluster.Health) Host {
		return Host{Node: n, Health: health, Service: descriptor.Address{9}, Serves: []descriptor.Address{key}, Weight: 1, Points: 3}
	}
	in := Input{Self: "n1", Now: time.Hour, Addresses: []descriptor.Address{key}, Hosts: []Host{
		host("n1", cluster.Alive), host("n2", cluster.Alive), host("n3", cluster.Dead), host("n4", cluster.Suspect),
		host("n5", cluster.Suspect), host("n6", cluster.Alive),
		{Node: "n7", Health: cluster.Alive},
	}}
	in.Hosts[1].Failing = true
	in.Hosts[5].Serves = []descriptor.Address{other}
	p := New()
	p.Answered("n4", false, in.Now)
	p.Answered("n5", true, in.Now)
	want := []LeftOut{{"n3", whyGone}, {"n4", whyMute}, {"n6", whyOther}, {"n2", whyReserve}}
	if got := p.Decide(in).Addresses[0].LeftOut; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNobodyIsLeftAlone: whatever fails, of the hosts with points at least one
// is no reserve.
func TestNobodyIsLeftAlone(t *testing.T) {
	for bits := range 1 << 9 {
		var hosts []Host
		for i := range 3 {
			h := Host{Node: cluster.NodeID(fmt.Sprint("n", i)), Health: cluster.Alive, Serves: []descriptor.Address{key}}
			h.Failing = bits>>(3*i)&1 > 0
			h.Weight = uint32(bits >> (3*i + 1) & 1) //nolint:gosec // a bit
			h.Points = bits >> (3*i + 2) & 1
			hosts = append(hosts, h)
		}
		could, does := false, false
		for i, place := range New().Decide(Input{Self: "n0", Hosts: hosts, Addresses: []descriptor.Address{key}}).Addresses[0].Hosts {
			has := hosts[i].Weight > 0 && hosts[i].Points > 0
			could, does = could || has, does || has && !place.Reserve
		}
		if could != does {
			t.Errorf("everybody is left out of %+v", hosts)
		}
	}
}

// TestProbes: a suspected host is asked every ten seconds, stays until it does
// not answer, and what it answered in an earlier suspicion counts no more.
func TestProbes(t *testing.T) {
	p := New()
	in := Input{Self: "n1", Now: time.Hour, Addresses: []descriptor.Address{key, other}, Hosts: []Host{
		{Node: "n1", Health: cluster.Suspect, Serves: []descriptor.Address{key}},
		{Node: "n2", Health: cluster.Suspect, Service: descriptor.Address{7}, Serves: []descriptor.Address{key, other}},
		{Node: "n3", Health: cluster.Alive, Service: descriptor.Address{8}, Serves: []descriptor.Address{key}},
		{Node: "n4", Health: cluster.Suspect},
	}}
	step := func(what string, passed time.Duration, asks, stays bool) {
		t.Helper()
		in.Now += passed
		d := p.Decide(in)
		if want := []Probe{{"n2", descriptor.Address{7}}}; asks != reflect.DeepEqual(d.Probes, want) || !asks && len(d.Probes) > 0 {
			t.Errorf("%s: asks %v", what, d.Probes)
		}
		for _, a := range d.Addresses {
			in := false
			for _, place := range a.Hosts {
				in = in || place.Node == "n2"
			}
			if in != stays {
				t.Errorf("%s: %v", what, a.Hosts)
			}
		}
	}
	step("first", 0, true, true)
	step("under way", time.Minute, false, true)
	p.Answered("n2", false, in.Now)
	step("no answer", time.Second, false, false)
	step("asked again", probeEvery-time.Second, true, false)
	p.Answered("n2", true, in.Now)
	step("answers", 0, false, true)
	step("and again", probeEvery, true, true)
	p.Answered("n2", false, in.Now)
	step("not any more", 0, false, false)
	in.Hosts[1].Health = cluster.Alive
	step("alive", 0, false, true)
	in.Hosts[1].Health = cluster.Suspect
	step("suspected once more, much later", 2*probeEvery, true, true)
}

// TestProbesAreFew: no more than maxProbes at once.
func TestProbesAreFew(t *testing.T) {
	p := New()
	in := Input{Self: "n1", Now: time.Hour, Addresses: []descriptor.Address{key}}
	for i := range 3 * maxProbes {
		in.Hosts = append(in.Hosts, Host{Node: cluster.NodeID(fmt.Sprintf("h%03d", i)), Health: cluster.Suspect, Serves: []descriptor.Address{key}})
	}
	if n := len(p.Decide(in).Probes); n != maxProbes {
		t.Errorf("%d probes at once", n)
	}
	p.Answered("h000", true, in.Now)
	if got := p.Decide(in).Probes; len(got) != 1 || got[0].Node != cluster.NodeID(fmt.Sprintf("h%03d", maxProbes)) {
		t.Errorf("then %v", got)
	}
}

// TestFirstDescriptorIsWhole: the first descriptor of an address waits for the
// points of all hosts that are alive, ten seconds at most; nothing later does.
func TestFirstDescriptorIsWhole(t *testing.T) {
	host := func(n cluster.NodeID, serves ...descriptor.Address) Host {
		return Host{Node: n, Health: cluster.Alive, Known: true, Weight: 100, Points: 3, Serves: serves, Keys: []descriptor.Address{key, other}}
	}
	fresh := func() Input {
		in := Input{
			Self: "n1", Now: time.Hour, Duty: lease.Duty{Publisher: "n1", Publishing: true}, Addresses: []descriptor.Address{key},
			Hosts: []Host{host("n1", key), host("n2"), host("n3"), host("n4"), host("n5"), host("n6"), host("n7", key), {Node: "n8", Health: cluster.Alive}},
		}
		in.Hosts[3].Weight = 0 // drained, or serves nothing
		in.Hosts[4].Failing = true
		in.Hosts[5].Health = cluster.Suspect
		in.Hosts[6].Points = 0
		return in
	}
	p, in := New(), fresh()
	step := func(what string, passed time.Duration, publishes bool, awaited ...cluster.NodeID) {
		t.Helper()
		in.Now += passed
		x := p.Decide(in).Addresses[0]
		if x.Publish != publishes || !reflect.DeepEqual(x.Awaited, awaited) || x.Publisher != "n1" {
			t.Errorf("%s: publishes %t as %s, awaits %v, want %t, %v", what, x.Publish, x.Publisher, x.Awaited, publishes, awaited)
		}
	}
	step("imported", 0, false, "n2", "n3", "n7", "n8")
	in.Hosts[1].Serves = in.Hosts[0].Serves
	in.Hosts[6].Points = 3
	in.Hosts[7].Known = true // it serves nothing
	step("two are there", time.Second, false, "n3")
	in.Hosts[2].Serves = in.Hosts[0].Serves
	step("all are there", time.Second, true)
	in.Hosts[1].Serves = nil
	step("one has no points any more", time.Second, true)

	p, in = New(), fresh()
	step("imported", 0, false, "n2", "n3", "n7", "n8")
	step("nobody comes", gatherTime-1, false, "n2", "n3", "n7", "n8")
	step("long enough", 1, true)
	in.Addresses = nil
	p.Decide(in)
	in.Addresses = []descriptor.Address{key}
	step("removed, and served again", 0, false, "n2", "n3", "n7", "n8")
	in.Large = true
	step("where few shares are read", 0, false, "n2", "n3", "n7")
}

// TestPublisherIsNamed: every host names the same one, as far as it can know.
func TestPublisherIsNamed(t *testing.T) {
	keeper := func(n cluster.NodeID, priority uint32) Host {
		return Host{Node: n, Priority: priority, Health: cluster.Alive, Known: true, Keys: []descriptor.Address{key}}
	}
	without := Host{Node: "n1", Health: cluster.Alive, Known: true}
	for _, c := range []struct {
		name  string
		duty  cluster.NodeID
		hosts []Host
		want  cluster.NodeID
	}{
		{"has duty and key", "n2", []Host{without, keeper("n2", 10), keeper("n3", 5)}, "n2"},
		{"has no key, others stand in", "n1", []Host{without, keeper("n2", 10), keeper("n3", 5)}, "n3"},
		{"nobody has a key", "n1", []Host{without}, ""},
		{"nobody has the duty", "", []Host{without, keeper("n2", 10)}, ""},
	} {
		for _, self := range c.hosts {
			in := Input{Self: self.Node, Duty: lease.Duty{Publisher: c.duty, Publishing: c.duty == self.Node}, Hosts: c.hosts, Addresses: []descriptor.Address{key}}
			if got := New().Decide(in).Addresses[0].Publisher; got != c.want {
				t.Errorf("%s: %s says %q, want %q", c.name, self.Node, got, c.want)
			}
		}
	}
}
