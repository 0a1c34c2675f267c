package topo

import (
	"net/netip"
	"slices"
)

// Reasons of Refusals.
const (
	WhyOwnKey    = "own key"
	WhyZeroKey   = "no key"
	WhyRepeated  = "key wanted twice"
	WhyNotHost   = "not a single unicast address"
	WhyOwnAddr   = "own address"
	WhyOwned     = "address belongs to"
	WhyOwnedLive = "address belongs to live"
)

// Diff returns the steps from seen to want, in the order in which they must be
// done: port, MTU and own addresses; peers and prefixes taken away; peers
// added; prefixes, endpoints and keepalive given. Within each group they are
// sorted by key or address. A peer that goes and whose address another one
// gets is replaced in one step. Of a peer with two keys Resolve tells which
// counts.
//
// A prefix that two wanted peers ask for stays with the one that has it if
// that one is live; otherwise the earlier in want.Peers gets it. The other is
// refused and keeps the rest of what it asks for. A prefix moves from a live
// peer only if want no longer gives it to that peer.
func Diff(want Desired, seen Observed) ([]Op, []Refusal) {
	have := make(map[Key]ObservedPeer, len(seen.Peers))
	for _, p := range seen.Peers {
		have[p.Key] = p
	}
	want = Resolve(want, seen)
	peers, refused := accept(want)
	owners, more := assign(want, peers, have)
	refused = append(refused, more...)

	d := diff{peers: peers, have: have, owners: owners, heir: map[Key]ObservedPeer{}}
	ops := diffDevice(want, seen)
	ops = append(ops, d.gone(seen)...)
	ops = append(ops, d.wanted()...)
	return ops, refused
}

// diff is what the steps for peers are made from.
type diff struct {
	peers  []Peer
	have   map[Key]ObservedPeer
	owners map[netip.Prefix]Key
	heir   map[Key]ObservedPeer // whom a peer replaces
}

// accept returns the peers of want that can be peers at all, by key, in the
// order of want.
func accept(want Desired) ([]Peer, []Refusal) {
	var (
		peers   []Peer
		refused []Refusal
		known   = make(map[Key]bool, len(want.Peers))
	)
	for _, p := range want.Peers {
		switch {
		case p.Key == want.Key:
			refused = append(refused, Refusal{Key: p.Key, Why: WhyOwnKey})
		case p.Key.IsZero():
			refused = append(refused, Refusal{Key: p.Key, Why: WhyZeroKey})
		case known[p.Key]:
			refused = append(refused, Refusal{Key: p.Key, Why: WhyRepeated})
		default:
			known[p.Key] = true
			peers = append(peers, p)
		}
	}
	return peers, refused
}

// assign decides which peer gets which prefix.
func assign(want Desired, peers []Peer, have map[Key]ObservedPeer) (map[netip.Prefix]Key, []Refusal) {
	own := make(map[netip.Addr]bool, len(want.Addrs))
	for _, a := range want.Addrs {
		own[a.Addr()] = true
	}
	owners := make(map[netip.Prefix]Key)
	live := make(map[netip.Prefix]bool)
	for _, p := range peers {
		h, ok := have[p.Key]
		if !ok || !h.Live() {
			continue
		}
		for _, a := range p.Allowed {
			if hostPrefix(a) && !own[a.Addr()] && slices.Contains(h.Allowed, a) {
				owners[a], live[a] = p.Key, true
			}
		}
	}
	var refused []Refusal
	for _, p := range peers {
		for i, a := range p.Allowed {
			owner, taken := owners[a]
			r := Refusal{Key: p.Key, Prefix: a}
			switch {
			case slices.Contains(p.Allowed[:i], a):
				continue
			case !hostPrefix(a):
				r.Why = WhyNotHost
			case own[a.Addr()]:
				r.Why = WhyOwnAddr
			case !taken:
				owners[a] = p.Key
				continue
			case owner == p.Key:
				continue
			case live[a]:
				r.Why, r.Owner = WhyOwnedLive, owner
			default:
				r.Why, r.Owner = WhyOwned, owner
			}
			refused = append(refused, r)
		}
	}
	return owners, refused
}

func diffDevice(want Desired, seen Observed) []Op {
	var ops []Op
	// Port 0 means whatever port the device got.
	if want.Port != 0 && want.Port != seen.Port {
		ops = append(ops, SetPort{want.Port})
	}
	if want.MTU != seen.MTU {
		ops = append(ops, SetMTU{want.MTU})
	}
	for _, a := range sortedPrefixes(seen.Addrs) {
		if !slices.Contains(want.Addrs, a) {
			ops = append(ops, RemoveAddr{a})
		}
	}
	for _, a := range sortedPrefixes(want.Addrs) {
		if !slices.Contains(seen.Addrs, a) {
			ops = append(ops, AddAddr{a})
		}
	}
	return ops
}

// gone removes what nobody wants: first, so that nothing is ever moved from
// one wanted peer to another by giving it.
func (d *diff) gone(seen Observed) []Op {
	wanted := make(map[Key]bool, len(d.peers))
	for _, p := range d.peers {
		wanted[p.Key] = true
	}
	old := slices.SortedFunc(slices.Values(seen.Peers), func(a, b ObservedPeer) int { return compareKeys(a.Key, b.Key) })
	var gone, less []Op
	for _, h := range old {
		if !wanted[h.Key] {
			gone = append(gone, d.end(h))
			continue
		}
		for _, a := range sortedPrefixes(h.Allowed) {
			if owner, ok := d.owners[a]; !ok || owner != h.Key {
				less = append(less, Disallow{h.Key, a})
			}
		}
	}
	return append(gone, less...)
}

// end removes a peer, or replaces it by the one that gets its first address.
func (d *diff) end(h ObservedPeer) Op {
	r := Replace{Old: h.Key}
	for _, a := range sortedPrefixes(h.Allowed) {
		owner, ok := d.owners[a]
		if _, taken := d.heir[owner]; !ok || taken || !r.New.IsZero() && owner != r.New {
			continue
		}
		r.New, r.Allowed = owner, append(r.Allowed, a)
	}
	if r.New.IsZero() {
		return RemovePeer{h.Key}
	}
	d.heir[r.New] = h
	return r
}

// wanted adds peers and gives them what they lack.
func (d *diff) wanted() []Op {
	peers := slices.SortedFunc(slices.Values(d.peers), func(a, b Peer) int { return compareKeys(a.Key, b.Key) })
	places := make(map[Key]netip.AddrPort, len(peers))
	for _, p := range peers {
		if p.Follows.IsZero() {
			places[p.Key] = d.place(p)
		}
	}
	var add, set []Op
	for _, p := range peers {
		h, known := d.have[p.Key]
		old, heir := d.heir[p.Key]
		if !known {
			h.Age = Never
			if !heir {
				add = append(add, AddPeer{p.Key})
			}
		}
		for _, a := range sortedPrefixes(p.Allowed) {
			if d.owners[a] == p.Key && !slices.Contains(h.Allowed, a) && !slices.Contains(old.Allowed, a) {
				set = append(set, Allow{p.Key, a})
			}
		}
		place := places[p.Key]
		if !p.Follows.IsZero() {
			place = places[p.Follows] // the same host
		}
		if place.IsValid() && place != h.Endpoint && !h.Live() {
			set = append(set, SetEndpoint{p.Key, place})
		}
		if p.Keepalive != h.Keepalive && (p.Keepalive == 0 || h.Age >= 0) {
			set = append(set, SetKeepalive{p.Key, p.Keepalive})
		}
	}
	return append(add, set...)
}

// place is where a peer is, as far as is known: what the device has if that
// is live or a candidate, where the peer that it replaces was if that is a
// candidate, or the first candidate.
func (d *diff) place(p Peer) netip.AddrPort {
	h := d.have[p.Key]
	c := Candidates(p.Endpoints)
	switch old := d.heir[p.Key].Endpoint; {
	case h.Key == p.Key && h.Live(), len(c) == 0, slices.Contains(c, h.Endpoint):
		return h.Endpoint
	case slices.Contains(c, old):
		return old
	}
	return c[0]
}

// sortedPrefixes returns ps sorted and without duplicates.
func sortedPrefixes(ps []netip.Prefix) []netip.Prefix {
	out := slices.Clone(ps)
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
