package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func key(b byte) Key { return Key{0: b, 31: 1} }

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func ep(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func base() Desired {
	return Desired{Key: key(9), Port: 51820, MTU: 1420, Addrs: []netip.Prefix{pfx("10.0.0.9/32")}}
}

func seenBase() Observed {
	return Observed{Port: 51820, MTU: 1420, Addrs: []netip.Prefix{pfx("10.0.0.9/32")}}
}

func lines[T fmt.Stringer](xs []T) string {
	var out []string
	for _, x := range xs {
		out = append(out, x.String())
	}
	return strings.Join(out, "\n")
}

// short replaces keys by k1, k2...
func short(s string) string {
	for b := range byte(10) {
		s = strings.ReplaceAll(s, key(b).String(), fmt.Sprintf("k%d", b))
	}
	return s
}

func TestDiff(t *testing.T) {
	one := Peer{Node: "a", Key: key(1), Allowed: []netip.Prefix{pfx("10.0.0.1/32")}, Endpoints: []netip.AddrPort{ep("192.0.2.1:1"), ep("192.0.2.1:2")}}
	two := Peer{Node: "b", Key: key(2), Allowed: []netip.Prefix{pfx("10.0.0.2/32")}}
	obs := func(p Peer, age time.Duration, e string) ObservedPeer {
		o := ObservedPeer{Key: p.Key, Allowed: p.Allowed, Age: age}
		if e != "" {
			o.Endpoint = ep(e)
		}
		return o
	}
	with := func(p Peer, change func(*Peer)) Peer {
		change(&p)
		return p
	}
	for _, c := range []struct {
		name    string
		want    func(*Desired)
		seen    func(*Observed)
		ops     string
		refused string
	}{
		{name: "nothing to do"},
		{
			name: "device",
			want: func(d *Desired) {
				d.Port, d.MTU = 1, 1280
				d.Addrs = []netip.Prefix{pfx("fd00::9/128"), pfx("10.0.0.8/32")}
			},
			ops: "port 1\nmtu 1280\naddr - 10.0.0.9/32\naddr + 10.0.0.8/32\naddr + fd00::9/128",
		},
		{name: "any port", want: func(d *Desired) { d.Port = 0 }},
		{
			name: "new peers, sorted by key",
			want: func(d *Desired) { d.Peers = []Peer{two, one} },
			ops:  "peer + k1\npeer + k2\nallow k1 + 10.0.0.1/32\nendpoint k1 192.0.2.1:1\nallow k2 + 10.0.0.2/32",
		},
		{
			name: "peer gone",
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(two, 0, ""), obs(one, 0, "")} },
			ops:  "peer - k1\npeer - k2",
		},
		{
			name: "live endpoint stays",
			want: func(d *Desired) { d.Peers = []Peer{one} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(one, LiveFor-1, "198.51.100.7:7")} },
		},
		{
			name: "endpoint of a dead session is replaced",
			want: func(d *Desired) { d.Peers = []Peer{one} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(one, LiveFor, "198.51.100.7:7")} },
			ops:  "endpoint k1 192.0.2.1:1",
		},
		{
			name: "a candidate in use stays",
			want: func(d *Desired) { d.Peers = []Peer{one} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(one, Never, "192.0.2.1:2")} },
		},
		{
			name: "no candidate keeps what is there",
			want: func(d *Desired) { d.Peers = []Peer{two} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(two, Never, "192.0.2.1:2")} },
		},
		{
			name: "keepalive waits for the handshake",
			want: func(d *Desired) { d.Peers = []Peer{with(two, func(p *Peer) { p.Keepalive = NATKeepalive })} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(two, Never, "")} },
		},
		{
			name: "keepalive after the handshake",
			want: func(d *Desired) { d.Peers = []Peer{with(two, func(p *Peer) { p.Keepalive = NATKeepalive })} },
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(two, 0, "")} },
			ops:  "keepalive k2 25s",
		},
		{
			name: "own key",
			want: func(d *Desired) { d.Peers = []Peer{with(one, func(p *Peer) { p.Key = key(9) })} },
			ops:  "", refused: "peer k9: own key",
		},
		{
			name:    "own key that a device has is removed",
			want:    func(d *Desired) { d.Peers = []Peer{with(one, func(p *Peer) { p.Key = key(9) })} },
			seen:    func(o *Observed) { o.Peers = []ObservedPeer{{Key: key(9), Age: Never}} },
			ops:     "peer - k9",
			refused: "peer k9: own key",
		},
		{
			name: "wide, odd and own prefixes",
			want: func(d *Desired) {
				d.Peers = []Peer{with(two, func(p *Peer) {
					p.Allowed = []netip.Prefix{pfx("10.0.0.0/24"), pfx("10.0.0.2/32"), pfx("224.0.0.1/32"), pfx("10.0.0.9/32"), {}}
				})}
			},
			ops: "peer + k2\nallow k2 + 10.0.0.2/32",
			refused: "peer k2 prefix 10.0.0.0/24: not a single unicast address\n" +
				"peer k2 prefix 224.0.0.1/32: not a single unicast address\n" +
				"peer k2 prefix 10.0.0.9/32: own address\n" +
				"peer k2: not a single unicast address",
		},
		{
			name: "stolen from a live peer",
			want: func(d *Desired) {
				d.Peers = []Peer{with(two, func(p *Peer) { p.Allowed = append(p.Allowed[:1:1], one.Allowed...) }), one}
			},
			seen:    func(o *Observed) { o.Peers = []ObservedPeer{obs(one, 0, "192.0.2.1:1"), obs(two, 0, "")} },
			refused: "peer k2 prefix 10.0.0.1/32: address belongs to live k1",
		},
		{
			name:    "wanted twice, nobody live: the earlier",
			want:    func(d *Desired) { d.Peers = []Peer{with(two, func(p *Peer) { p.Allowed = one.Allowed }), one} },
			seen:    func(o *Observed) { o.Peers = []ObservedPeer{obs(one, Never, "192.0.2.1:1"), obs(two, Never, "")} },
			ops:     "allow k1 - 10.0.0.1/32\nallow k2 - 10.0.0.2/32\nallow k2 + 10.0.0.1/32",
			refused: "peer k1 prefix 10.0.0.1/32: address belongs to k2",
		},
		{
			name: "moved on purpose: taken first, then given",
			want: func(d *Desired) {
				d.Peers = []Peer{with(one, func(p *Peer) { p.Allowed = nil }), with(two, func(p *Peer) { p.Allowed = one.Allowed })}
			},
			seen: func(o *Observed) { o.Peers = []ObservedPeer{obs(one, 0, "192.0.2.1:1"), obs(two, 0, "")} },
			ops:  "allow k1 - 10.0.0.1/32\nallow k2 - 10.0.0.2/32\nallow k2 + 10.0.0.1/32",
		},
		{
			name:    "same key twice",
			want:    func(d *Desired) { d.Peers = []Peer{two, with(one, func(p *Peer) { p.Key = two.Key })} },
			ops:     "peer + k2\nallow k2 + 10.0.0.2/32",
			refused: "peer k2: key wanted twice",
		},
	} {
		want, seen := base(), seenBase()
		if c.want != nil {
			c.want(&want)
		}
		if c.seen != nil {
			c.seen(&seen)
		}
		ops, refused := Diff(want, seen)
		if got := short(lines(ops)); got != c.ops {
			t.Errorf("%s: operations:\n%s\nwant:\n%s", c.name, got, c.ops)
		}
		if got := short(lines(refused)); got != c.refused {
			t.Errorf("%s: refused:\n%s\nwant:\n%s", c.name, got, c.refused)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := base().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Desired){
		"key":     func(d *Desired) { d.Key = Key{} },
		"small":   func(d *Desired) { d.MTU = MinMTU - 1 },
		"large":   func(d *Desired) { d.MTU = MaxMTU + 1 },
		"no addr": func(d *Desired) { d.Addrs = nil },
		"net":     func(d *Desired) { d.Addrs = []netip.Prefix{pfx("10.0.0.0/24")} },
		"zone":    func(d *Desired) { d.Addrs = []netip.Prefix{{}} },
		"peers":   func(d *Desired) { d.Peers = make([]Peer, MaxPeers+1) },
	} {
		d := base()
		change(&d)
		if err := d.Validate(); !errors.Is(err, ErrDesired) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeys(t *testing.T) {
	k := key(7)
	got, err := ParseKey(k.String())
	if err != nil || got != k {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "x", Key{}.String(), k.String()[1:], k.String() + "A", strings.Repeat("A", 44)} {
		if _, err := ParseKey(bad); !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if !Initiates(key(1), key(2)) || Initiates(key(2), key(1)) {
		t.Error("the lower key must start")
	}
}

func TestEndpoints(t *testing.T) {
	got := Candidates(
		[]netip.AddrPort{ep("192.0.2.1:1"), ep("0.0.0.0:1"), ep("192.0.2.1:0"), {}, ep("224.0.0.1:1"), ep("[::ffff:192.0.2.1]:1")},
		[]netip.AddrPort{ep("192.0.2.2:1"), ep("192.0.2.1:1"), ep("[2001:db8::1]:1"), ep("192.0.2.3:1")},
		[]netip.AddrPort{ep("192.0.2.4:1"), ep("192.0.2.5:1")})
	want := []netip.AddrPort{ep("192.0.2.1:1"), ep("192.0.2.2:1"), ep("[2001:db8::1]:1"), ep("192.0.2.3:1"), ep("192.0.2.4:1")}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, c := range []struct {
		list    []netip.AddrPort
		current netip.AddrPort
		next    netip.AddrPort
		ok      bool
	}{
		{nil, want[0], want[0], false},
		{want[:1], want[0], want[0], false},
		{want[:1], netip.AddrPort{}, want[0], true},
		{want[:2], want[0], want[1], true},
		{want[:2], want[1], want[0], true},
		{want[:2], want[4], want[0], true},
	} {
		if next, ok := NextEndpoint(c.list, c.current); next != c.next || ok != c.ok {
			t.Errorf("after %s of %v: %s, %t", c.current, c.list, next, ok)
		}
	}
}

func member(n byte, change func(*cluster.Member)) cluster.Member {
	k := key(n)
	m := cluster.Member{
		Node: cluster.NodeID(fmt.Sprintf("n%d", n)), IDPub: []byte{n}, WGPub: k[:],
		IP4: netip.AddrFrom4([4]byte{10, 0, 0, n}), IP6: netip.MustParseAddr(fmt.Sprintf("fd00::%d", n)),
		Endpoints: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 51820)},
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestPlan(t *testing.T) {
	self := member(1, nil)
	d, conflicts := Plan(Input{
		Self: self, Members: []cluster.Member{member(3, nil), self, member(2, func(m *cluster.Member) { m.NAT = true })},
		Static: map[cluster.NodeID][]netip.AddrPort{"n3": {ep("203.0.113.3:3")}},
		Cached: map[cluster.NodeID][]netip.AddrPort{"n2": {ep("203.0.113.2:2")}},
		Port:   51820, MTU: 1420,
	})
	if len(conflicts) != 0 || d.Validate() != nil {
		t.Fatalf("%v, %v", conflicts, d.Validate())
	}
	if got := fmt.Sprint(d.Addrs); got != "[10.0.0.1/32 fd00::1/128]" {
		t.Error(got)
	}
	var got []string
	for _, p := range d.Peers {
		got = append(got, fmt.Sprint(p.Node, p.Allowed, p.Endpoints, p.Keepalive))
	}
	want := []string{
		"n2[10.0.0.2/32 fd00::2/128] [192.0.2.2:51820 203.0.113.2:2] 25s",
		"n3[10.0.0.3/32 fd00::3/128] [203.0.113.3:3 192.0.2.3:51820] 0s",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestPlanConflicts(t *testing.T) {
	self := member(1, nil)
	for _, c := range []struct {
		name  string
		with  []cluster.Member
		peers string
		want  string
	}{
		{"no key", []cluster.Member{member(2, func(m *cluster.Member) { m.WGPub = nil })}, "", "n2: no usable wireguard key"},
		{"zero key", []cluster.Member{member(2, func(m *cluster.Member) { m.WGPub = make([]byte, 32) })}, "", "n2: no usable wireguard key"},
		{"no address", []cluster.Member{member(2, func(m *cluster.Member) { m.IP4, m.IP6 = netip.Addr{}, netip.Addr{} })}, "", "n2: no usable mesh address"},
		{"bad address", []cluster.Member{member(2, func(m *cluster.Member) { m.IP4 = netip.MustParseAddr("0.0.0.0") })}, "", "n2: no usable mesh address"},
		{"our key", []cluster.Member{member(2, func(m *cluster.Member) { m.WGPub = self.WGPub })}, "", "n2: same wireguard key as n1"},
		{"our address", []cluster.Member{member(2, func(m *cluster.Member) { m.IP6 = self.IP6 })}, "", "n2: same mesh address as n1"},
		{"our name", []cluster.Member{member(2, func(m *cluster.Member) { m.Node = "n1" })}, "", "n1: same node id as n1"},
		{
			"one address, the lower identity key wins",
			[]cluster.Member{member(3, func(m *cluster.Member) { m.IP4 = netip.MustParseAddr("10.0.0.2") }), member(2, nil)},
			"n2", "n3: same mesh address as n2",
		},
		{
			"one key, the lower identity key wins",
			[]cluster.Member{member(2, func(m *cluster.Member) { m.IDPub = []byte{8} }), member(3, func(m *cluster.Member) { k := key(2); m.WGPub = k[:] })},
			"n3", "n2: same wireguard key as n3",
		},
	} {
		var first []string
		for turn := range 2 {
			slices.Reverse(c.with)
			d, conflicts := Plan(Input{Self: self, Members: c.with, MTU: 1420})
			var peers []string
			for _, p := range d.Peers {
				peers = append(peers, string(p.Node))
			}
			if got := strings.Join(peers, " "); got != c.peers {
				t.Errorf("%s: peers %q, want %q", c.name, got, c.peers)
			}
			if got := lines(conflicts); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			if turn == 1 && !slices.Equal(first, peers) {
				t.Errorf("%s: depends on the order", c.name)
			}
			first = peers
		}
	}
}
