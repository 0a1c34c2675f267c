package topo

import (
	"net/netip"
	"slices"
)

// usableEndpoint reports whether ap can be a host on the underlay.
func usableEndpoint(ap netip.AddrPort) bool {
	a := ap.Addr()
	return ap.IsValid() && ap.Port() != 0 && !a.IsUnspecified() && !a.IsMulticast()
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
