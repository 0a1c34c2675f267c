package topo

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// source deals small decisions from fuzz input, zeros when it is used up.
type source struct{ b []byte }

func (s *source) n(limit int) int {
	if len(s.b) == 0 {
		return 0
	}
	v := int(s.b[0]) % limit
	s.b = s.b[1:]
	return v
}

func (s *source) prefixes() []netip.Prefix {
	var ps []netip.Prefix
	for range s.n(4) {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(s.n(6))})
		bits := 32
		if s.n(8) == 7 {
			bits = 24
		}
		ps = append(ps, netip.PrefixFrom(a, bits))
	}
	return ps
}

func (s *source) endpoint() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(s.n(3))}), uint16(s.n(3)))
}

func (s *source) desired() Desired {
	d := base()
	d.Port, d.MTU = uint16(s.n(3)), MinMTU+s.n(2)
	for i := range s.n(3) {
		d.Addrs = append(d.Addrs, HostPrefix(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})))
	}
	for range s.n(6) {
		p := Peer{Key: key(byte(s.n(10))), Allowed: s.prefixes(), Keepalive: time.Duration(s.n(2)) * NATKeepalive}
		for range s.n(4) {
			p.Endpoints = append(p.Endpoints, s.endpoint())
		}
		if s.n(3) == 2 {
			p.Next = key(byte(s.n(10)))
		}
		d.Peers = append(d.Peers, p)
	}
	return d
}

// observed is any device that can exist: one owner per prefix.
func (s *source) observed() *model {
	m := &model{o: Observed{Port: uint16(s.n(3)), MTU: MinMTU + s.n(2), Addrs: base().Addrs[:s.n(2)]}}
	for range s.n(6) {
		k := key(byte(s.n(9)))
		m.apply(AddPeer{k})
		for _, p := range s.prefixes() {
			m.apply(Allow{k, p})
		}
		p := m.peer(k)
		p.Age = []time.Duration{Never, 0, LiveFor - 1, LiveFor}[s.n(4)]
		p.Keepalive = time.Duration(s.n(2)) * NATKeepalive
		if s.n(2) == 1 {
			p.Endpoint = s.endpoint()
		}
	}
	return m
}

// model is a device that behaves as WireGuard does: a prefix given to one
// peer silently leaves the other.
type model struct {
	o     Observed
	moved []netip.Prefix // silently
}

func (m *model) peer(k Key) *ObservedPeer {
	if i := slices.IndexFunc(m.o.Peers, func(p ObservedPeer) bool { return p.Key == k }); i >= 0 {
		return &m.o.Peers[i]
	}
	return nil
}

func remove(ps []netip.Prefix, p netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ps), func(x netip.Prefix) bool { return x == p })
}

func (m *model) allow(k Key, a netip.Prefix) {
	for i := range m.o.Peers {
		if slices.Contains(m.o.Peers[i].Allowed, a) {
			m.o.Peers[i].Allowed = remove(m.o.Peers[i].Allowed, a)
			m.moved = append(m.moved, a)
		}
	}
	p := m.peer(k)
	p.Allowed = append(p.Allowed, a)
}

func (m *model) apply(op Op) {
	switch o := op.(type) {
	case SetPort:
		m.o.Port = o.Port
	case SetMTU:
		m.o.MTU = o.MTU
	case AddAddr:
		m.o.Addrs = append(slices.Clone(m.o.Addrs), o.Addr)
	case RemoveAddr:
		m.o.Addrs = remove(m.o.Addrs, o.Addr)
	case AddPeer:
		if m.peer(o.Key) == nil {
			m.o.Peers = append(m.o.Peers, ObservedPeer{Key: o.Key, Age: Never})
		}
	case RemovePeer:
		m.o.Peers = slices.DeleteFunc(slices.Clone(m.o.Peers), func(p ObservedPeer) bool { return p.Key == o.Key })
	case Allow:
		m.allow(o.Key, o.Prefix)
	case Replace:
		m.apply(AddPeer{o.New})
		old := m.peer(o.Old)
		for _, a := range o.Allowed {
			old.Allowed = remove(old.Allowed, a)
			m.allow(o.New, a)
		}
		m.apply(RemovePeer{o.Old})
	case Disallow:
		p := m.peer(o.Key)
		p.Allowed = remove(p.Allowed, o.Prefix)
	case SetEndpoint:
		m.peer(o.Key).Endpoint = o.Endpoint
	case SetKeepalive:
		m.peer(o.Key).Keepalive = o.Interval
	default:
		panic(fmt.Sprintf("unknown operation %T", op))
	}
}

// FuzzDiff checks that carrying out the difference makes any device what was
// wanted, up to what was refused, and never does what is forbidden.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{1, 1, 1, 3, 1, 2, 1, 0, 2, 0, 1, 2, 1, 1, 1}, []byte{1, 0, 1, 2, 1, 1, 1, 0, 1, 0, 1, 2, 2})
	for i := range byte(64) {
		b := make([]byte, 96)
		for j := range b {
			b[j] = byte(j)*(i*2+1) ^ i
		}
		f.Add(b, slices.Concat(b[i:], b[:i]))
	}
	f.Fuzz(func(t *testing.T, wantBytes, seenBytes []byte) {
		want := (&source{wantBytes}).desired()
		m := (&source{seenBytes}).observed()
		before := make(map[Key]ObservedPeer)
		for _, p := range m.o.Peers {
			before[p.Key] = p
		}
		m.moved = nil
		full := want
		want = Resolve(full, m.o)
		if again := Resolve(want, m.o); fmt.Sprint(again) != fmt.Sprint(want) {
			t.Error("resolved twice")
		}
		ops, refused := Diff(want, m.o)
		if again, r := Diff(full, m.o); fmt.Sprint(again, r) != fmt.Sprint(ops, refused) {
			t.Fatal("two differences of the same")
		}
		for _, op := range ops {
			checkOp(t, op, want, before)
			m.apply(op)
		}
		if len(m.moved) > 0 {
			t.Errorf("moved silently: %v", m.moved)
		}
		checkReached(t, want, m.o, refused)
		if more, _ := Diff(want, m.o); len(more) != 0 {
			t.Errorf("not done at once: %v", more)
		}
	})
}

func checkOp(t *testing.T, op Op, want Desired, before map[Key]ObservedPeer) {
	switch o := op.(type) {
	case AddPeer:
		if o.Key == want.Key {
			t.Error("own key added")
		}
	case SetEndpoint:
		if before[o.Key].Live() && before[o.Key].Key == o.Key {
			t.Errorf("live endpoint overwritten: %s", o)
		}
	case SetKeepalive:
		if p, ok := before[o.Key]; o.Interval != 0 && (!ok || p.Age < 0) {
			t.Errorf("keepalive before a handshake: %s", o)
		}
	case Replace:
		if _, seen := before[o.Old]; !seen || slices.ContainsFunc(want.Peers, func(p Peer) bool { return p.Key == o.Old && p.Key != want.Key }) {
			t.Errorf("a wanted peer, or none, is removed: %s", o)
		}
	case Allow:
		if !hostPrefix(o.Prefix) || slices.Contains(want.Addrs, o.Prefix) {
			t.Errorf("forbidden: %s", o)
		}
	}
}

// checkReached compares the device with what was wanted and not refused.
func checkReached(t *testing.T, want Desired, got Observed, refused []Refusal) {
	if want.Port != 0 && got.Port != want.Port || got.MTU != want.MTU ||
		!slices.Equal(sortedPrefixes(got.Addrs), sortedPrefixes(want.Addrs)) {
		t.Errorf("device is %+v, want %+v", got, want)
	}
	no := func(k Key, p netip.Prefix) bool {
		return slices.ContainsFunc(refused, func(r Refusal) bool { return r.Key == k && r.Prefix == p })
	}
	expect := map[Key][]netip.Prefix{}
	for _, p := range want.Peers {
		if _, twice := expect[p.Key]; twice || p.Key == want.Key {
			continue
		}
		expect[p.Key] = []netip.Prefix{}
		for _, a := range p.Allowed {
			if !no(p.Key, a) {
				expect[p.Key] = append(expect[p.Key], a)
			}
		}
	}
	if len(expect) != len(got.Peers) {
		t.Errorf("%d peers, want %d", len(got.Peers), len(expect))
	}
	for _, p := range got.Peers {
		if !slices.Equal(sortedPrefixes(p.Allowed), sortedPrefixes(expect[p.Key])) {
			t.Errorf("peer %s has %v, want %v", p.Key, p.Allowed, expect[p.Key])
		}
	}
}
