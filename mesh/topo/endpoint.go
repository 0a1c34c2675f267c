package topo

import (
	"net/netip"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// usableEndpoint reports whether ap can be a host on the underlay.
func usableEndpoint(ap netip.AddrPort) bool {
	a := ap.Addr()
	return ap.IsValid() && ap.Port() != 0 && !a.IsUnspecified() && !a.IsMulticast()
}

// carrierNAT is the range behind the NAT of a provider.
var carrierNAT = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)

// network is what decides which endpoints this host can reach.
type network struct {
	underlay []netip.Prefix
	routes   []netip.Prefix
	mesh     map[netip.Addr]bool // a tunnel does not run through itself
}

func newNetwork(in Input) network {
	n := network{underlay: in.Underlay, routes: in.Routes, mesh: map[netip.Addr]bool{}}
	for _, m := range append(slices.Clone(in.Members), in.Self) {
		n.mesh[m.IP4], n.mesh[m.IP6] = true, true
	}
	return n
}

// candidates are the endpoints to try for a node, best first: those in this
// host's own networks, then static, announced, observed and cached ones. What
// the operator has set is not judged.
func (n network) candidates(in Input, node cluster.NodeID, announced []netip.AddrPort) []netip.AddrPort {
	static := in.Static[node]
	told := slices.DeleteFunc(slices.Concat(announced, in.Observed[node], in.Cached[node]), func(ap netip.AddrPort) bool {
		return !n.reaches(ap.Addr().Unmap())
	})
	near := slices.DeleteFunc(slices.Concat(static, told), func(ap netip.AddrPort) bool {
		return !covers(n.underlay, ap.Addr().Unmap())
	})
	return Candidates(near, static, told)
}

// reaches reports whether an address that a member tells can be tried.
func (n network) reaches(a netip.Addr) bool {
	switch {
	case n.mesh[a], a.Is6() && a.IsLinkLocalUnicast():
		return false
	case len(n.underlay) == 0 && len(n.routes) == 0:
		return true
	case a.IsPrivate(), a.IsLinkLocalUnicast(), carrierNAT.Contains(a):
		return covers(n.underlay, a) || covers(n.routes, a)
	}
	return true
}

// covers reports whether one of ps that is no default route contains a.
func covers(ps []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(a) })
}

// Candidates joins lists of endpoints, best first, into at most MaxEndpoints
// usable ones without duplicates. IPv4 addresses in IPv6 form count as IPv4.
func Candidates(lists ...[]netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range lists {
		for _, ap := range l {
			ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
			if len(out) == MaxEndpoints {
				return out
			}
			if usableEndpoint(ap) && !slices.Contains(out, ap) {
				out = append(out, ap)
			}
		}
	}
	return out
}

// NextEndpoint returns the candidate after current, going round; the first
// one if current is none of them. ok is false if there is nothing to change.
func NextEndpoint(candidates []netip.AddrPort, current netip.AddrPort) (next netip.AddrPort, ok bool) {
	if len(candidates) == 0 {
		return current, false
	}
	next = candidates[(slices.Index(candidates, current)+1)%len(candidates)]
	return next, next != current
}
