package membership

import (
	"net/netip"
	"slices"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Networks returns the addresses inside the mesh, over which no peer is reached.
func Networks(id *join.Identity) []netip.Prefix {
	out := []netip.Prefix{id.Network.Masked()}
	if p, err := member.ULA(id.Cluster, id.IDPub).Prefix(48); err == nil {
		out = append(out, p)
	}
	return out
}

// withSeen puts where the others see this host behind its own endpoints.
func withSeen(own []netip.AddrPort, at netip.AddrPort) []netip.AddrPort {
	return append(slices.Clone(own[:min(len(own), member.MaxEndpoints-1)]), at)
}
