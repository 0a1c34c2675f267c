package topo

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func TestDiffRotates(t *testing.T) {
	one := Peer{
		Node: "a", Key: key(1), Next: key(3), Keepalive: NATKeepalive,
		Allowed:   []netip.Prefix{pfx("10.0.0.1/32"), pfx("fd00::1/128")},
		Endpoints: []netip.AddrPort{ep("192.0.2.1:1"), ep("192.0.2.1:2")},
	}
	changed := one
	changed.Key, changed.Next = key(3), Key{}
	old := ObservedPeer{Key: key(1), Allowed: one.Allowed, Endpoint: ep("192.0.2.1:2"), Keepalive: NATKeepalive}
	staged := ObservedPeer{Key: key(3), Age: Never, Endpoint: ep("192.0.2.1:2")}
	live := ObservedPeer{Key: key(3), Endpoint: ep("198.51.100.1:1")}
	with := func(p ObservedPeer, change func(*ObservedPeer)) ObservedPeer {
		change(&p)
		return p
	}
	for _, c := range []struct {
		name string
		want []Peer
		seen []ObservedPeer
		ops  string
	}{
		{
			"announced: a peer without address or keepalive, where the host is",
			[]Peer{one},
			[]ObservedPeer{old},
			"peer + k3\nendpoint k3 192.0.2.1:2",
		},
		{"announced, nothing more to do", []Peer{one}, []ObservedPeer{old, staged}, ""},
		{
			"its handshake is seen: one step",
			[]Peer{one},
			[]ObservedPeer{old, live},
			"replace k1 by k3 with [10.0.0.1/32 fd00::1/128]\nkeepalive k3 25s",
		},
		{
			"its handshake was seen, its announcement is still the old one",
			[]Peer{one},
			[]ObservedPeer{with(live, func(p *ObservedPeer) { p.Allowed, p.Keepalive = one.Allowed, NATKeepalive })},
			"",
		},
		{
			"told before any handshake: the same step, and where it was",
			[]Peer{changed},
			[]ObservedPeer{old, with(staged, func(p *ObservedPeer) { p.Endpoint = netip.AddrPort{} })},
			"replace k1 by k3 with [10.0.0.1/32 fd00::1/128]\nendpoint k3 192.0.2.1:2",
		},
		{
			"told without announcement: the same step",
			[]Peer{changed},
			[]ObservedPeer{old},
			"replace k1 by k3 with [10.0.0.1/32 fd00::1/128]\nendpoint k3 192.0.2.1:2",
		},
		{
			"came back with the old key",
			[]Peer{one},
			[]ObservedPeer{with(live, func(p *ObservedPeer) { p.Allowed, p.Age = one.Allowed, LiveFor })},
			"allow k3 - 10.0.0.1/32\nallow k3 - fd00::1/128\npeer + k1\n" +
				"allow k1 + 10.0.0.1/32\nallow k1 + fd00::1/128\nendpoint k1 192.0.2.1:1\n" +
				"endpoint k3 192.0.2.1:1",
		},
		{
			"taken back",
			[]Peer{with2(one, func(p *Peer) { p.Next = Key{} })},
			[]ObservedPeer{old, staged},
			"peer - k3",
		},
		{
			"another's key is nobody's next one",
			[]Peer{one, {Node: "b", Key: key(3), Allowed: []netip.Prefix{pfx("10.0.0.3/32")}}},
			[]ObservedPeer{old, with(live, func(p *ObservedPeer) { p.Allowed = []netip.Prefix{pfx("10.0.0.3/32")} })},
			"",
		},
		{
			"own key is nobody's next one",
			[]Peer{with2(one, func(p *Peer) { p.Next = key(9) })},
			[]ObservedPeer{old},
			"",
		},
	} {
		want, seen := base(), seenBase()
		want.Peers, seen.Peers = c.want, c.seen
		ops, refused := Diff(want, seen)
		if got := short(lines(ops)); got != c.ops {
			t.Errorf("%s: operations:\n%s\nwant:\n%s", c.name, got, c.ops)
		}
		if len(refused) > 0 {
			t.Errorf("%s: refused %v", c.name, refused)
		}
	}
}

func with2(p Peer, change func(*Peer)) Peer {
	change(&p)
	return p
}

func TestPlanNextKey(t *testing.T) {
	next := func(b byte, at int64) func(*cluster.Member) {
		return func(m *cluster.Member) { k := key(b); m.NextWG, m.NextAt = k[:], at }
	}
	for _, c := range []struct {
		name      string
		now       int64
		two       func(*cluster.Member)
		key, next Key
	}{
		{"none", 100, nil, key(2), Key{}},
		{"announced", 99, next(4, 100), key(2), key(4)},
		{"due", 100, next(4, 100), key(4), Key{}},
		{"no clock", 0, next(4, 100), key(2), key(4)},
		{"no time", 100, next(4, 0), key(2), key(4)},
		{"another's key", 99, next(3, 100), key(2), Key{}},
		{"another's key when due", 100, next(3, 100), key(2), Key{}},
		{"our key", 100, next(1, 100), key(2), Key{}},
		{"no key", 100, func(m *cluster.Member) { m.NextWG, m.NextAt = []byte{1}, 1 }, key(2), Key{}},
	} {
		d, conflicts := Plan(Input{
			Self: member(1, nil), Members: []cluster.Member{member(2, c.two), member(3, nil)}, MTU: 1420, Now: c.now,
		})
		if len(conflicts) != 0 || len(d.Peers) != 2 {
			t.Fatalf("%s: %v, %v", c.name, d.Peers, conflicts)
		}
		if p := d.Peers[0]; p.Key != c.key || p.Next != c.next {
			t.Errorf("%s: key %s next %s", c.name, p.Key, p.Next)
		}
		if p := d.Peers[1]; p.Key != key(3) {
			t.Errorf("%s: the other lost its key", c.name)
		}
	}
	// Two announce the same key: one has it, whatever the order.
	for _, turn := range []bool{false, true} {
		ms := []cluster.Member{member(2, next(4, 0)), member(3, next(4, 0))}
		if turn {
			ms[0], ms[1] = ms[1], ms[0]
		}
		d, _ := Plan(Input{Self: member(1, nil), Members: ms, MTU: 1420})
		if d.Peers[0].Next != key(4) || !d.Peers[1].Next.IsZero() {
			t.Errorf("next keys %v", d.Peers)
		}
	}
}

// After a restored backup two certificates name one address: the earlier one
// wins, and the loser learns that it is the one.
func TestPlanEarlierCertificateWins(t *testing.T) {
	issued := func(n byte, at int64) cluster.Member {
		return member(n, func(m *cluster.Member) {
			m.CertIssued, m.IP4 = at, netip.MustParseAddr("10.0.0.77")
		})
	}
	older, younger := issued(3, 100), issued(2, 200)
	for _, ms := range [][]cluster.Member{{older, younger}, {younger, older}} {
		d, conflicts := Plan(Input{Self: member(1, nil), Members: ms, MTU: 1420})
		if len(d.Peers) != 1 || d.Peers[0].Node != "n3" || lines(conflicts) != "n2: same mesh address as n3" || conflicts[0].Self {
			t.Errorf("peers %v, conflicts %v", d.Peers, conflicts)
		}
	}
	d, conflicts := Plan(Input{Self: older, Members: []cluster.Member{younger}, MTU: 1420})
	if len(d.Peers) != 0 || lines(conflicts) != "n2: same mesh address as n3" || conflicts[0].Self {
		t.Errorf("the winner: peers %v, conflicts %v", d.Peers, conflicts)
	}
	d, conflicts = Plan(Input{Self: younger, Members: []cluster.Member{older}, MTU: 1420})
	if len(conflicts) != 1 || !conflicts[0].Self || conflicts[0].Loser != "n2" {
		t.Errorf("the loser does not know: %v", conflicts)
	}
	if len(d.Peers) != 1 || len(d.Peers[0].Allowed) != 1 || d.Peers[0].Allowed[0].Addr() != older.IP6 {
		t.Errorf("the loser's peers: %v", d.Peers)
	}
	if _, refused := Diff(d, Observed{}); len(refused) != 0 {
		t.Errorf("refused: %v", refused)
	}
}

func TestPlanEndpoints(t *testing.T) {
	parse := func(s string) []netip.AddrPort {
		var out []netip.AddrPort
		for f := range strings.FieldsSeq(s) {
			out = append(out, ep(f))
		}
		return out
	}
	nets := func(s string) []netip.Prefix {
		var out []netip.Prefix
		for f := range strings.FieldsSeq(s) {
			out = append(out, pfx(f))
		}
		return out
	}
	for _, c := range []struct {
		name                                string
		static, announced, observed, cached string
		underlay, routes                    string
		want                                string
	}{
		{
			name: "order", static: "203.0.113.1:1", announced: "203.0.113.2:1 192.0.2.5:1",
			observed: "203.0.113.3:1", cached: "203.0.113.4:1", underlay: "192.0.2.9/24",
			want: "192.0.2.5:1 203.0.113.1:1 203.0.113.2:1 203.0.113.3:1 203.0.113.4:1",
		},
		{
			name: "at most five", announced: "203.0.113.1:1 203.0.113.2:1 203.0.113.3:1 203.0.113.4:1",
			observed: "203.0.113.2:1 203.0.113.5:1", cached: "203.0.113.6:1",
			want: "203.0.113.1:1 203.0.113.2:1 203.0.113.3:1 203.0.113.4:1 203.0.113.5:1",
		},
		{
			name:      "private ones only over a route of their own",
			announced: "10.1.0.1:1 172.16.0.1:1 [fd01::1]:1 100.64.0.1:1", observed: "203.0.113.1:1", cached: "192.168.1.1:1 169.254.1.1:1",
			underlay: "192.0.2.9/24", routes: "0.0.0.0/0 ::/0 172.16.0.0/12",
			want: "172.16.0.1:1 203.0.113.1:1",
		},
		{
			name: "the operator's are not judged", static: "10.1.0.1:1", announced: "10.1.0.2:1",
			underlay: "192.0.2.9/24", want: "10.1.0.1:1",
		},
		{name: "nothing known of the networks", announced: "10.1.0.1:1 172.16.0.1:1", want: "10.1.0.1:1 172.16.0.1:1"},
		{
			name: "not through the mesh, no link-local", announced: "10.0.0.3:1 [fd00::2]:1 [fe80::1]:1 [::ffff:203.0.113.1]:1",
			want: "203.0.113.1:1",
		},
		{name: "same host", announced: "127.0.0.1:1", underlay: "192.0.2.9/24", want: "127.0.0.1:1"},
	} {
		d, _ := Plan(Input{
			Self:     member(1, nil),
			Members:  []cluster.Member{member(2, func(m *cluster.Member) { m.Endpoints = parse(c.announced) }), member(3, nil)},
			Static:   map[cluster.NodeID][]netip.AddrPort{"n2": parse(c.static)},
			Observed: map[cluster.NodeID][]netip.AddrPort{"n2": parse(c.observed)},
			Cached:   map[cluster.NodeID][]netip.AddrPort{"n2": parse(c.cached)},
			Underlay: nets(c.underlay), Routes: nets(c.routes), MTU: 1420,
		})
		var got []string
		for _, ap := range d.Peers[0].Endpoints {
			got = append(got, ap.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		paths []Path
		want  int
	}{
		{nil, DefaultMTU},
		{[]Path{{MTU: 1500}}, 1440},
		{[]Path{{MTU: 1500}, {MTU: 1500, V6: true}}, 1420},
		{[]Path{{MTU: 9000}, {MTU: 1500}}, 1440},
		{[]Path{{MTU: 9000}}, MaxMTU},
		{[]Path{{MTU: 65536}}, MaxMTU},
		{[]Path{{MTU: 1400}}, 1340},
		{[]Path{{MTU: 1300}}, MinMTU},
		{[]Path{{MTU: 0}}, MinMTU},
	} {
		if got := MTU(c.paths); got != c.want {
			t.Errorf("%v: %d, want %d", c.paths, got, c.want)
		}
	}
	var steps []int
	for mtu, ok := 1440, true; ok; {
		if mtu, ok = StepDown(mtu); ok {
			steps = append(steps, mtu)
		}
	}
	if len(steps) != 3 || steps[0] != 1380 || steps[1] != 1320 || steps[2] != 1280 {
		t.Errorf("steps %v", steps)
	}
	if _, ok := StepDown(1300); !ok {
		t.Error("1300 can still step down")
	}
}
