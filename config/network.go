package config

import "net/netip"

// DefaultNetwork is the mesh's IPv4 network unless `skein init` names another.
const DefaultNetwork = "10.86.0.0/16"

// privateNetworks returns the networks that are not routed on the internet.
func privateNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	}
}

// PublicNetwork reports whether p holds addresses that belong to others on the
// internet, which the hosts of a cluster in it could not reach.
func PublicNetwork(p netip.Prefix) bool {
	for _, private := range privateNetworks() {
		if private.Bits() <= p.Bits() && private.Contains(p.Addr()) {
			return false
		}
	}
	return true
}
