package offline

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/tor"
)

// About returns what this host announces about itself, according to its
// configuration and its state directory; addresses inside own, the prefixes of the
// mesh, are left out.
func About(cfg config.Fixed, live config.Live, own ...netip.Prefix) (join.About, error) {
	endpoints := live.Advertise
	if len(endpoints) == 0 {
		var err error
		if endpoints, err = localEndpoints(cfg.Mesh.Listen, own); err != nil {
			return join.About{}, err
		}
	}
	return join.About{
		Zone: live.Zone, Priority: live.Priority, Witness: cfg.Node.Witness,
		Endpoints: slices.Clone(endpoints[:min(len(endpoints), member.MaxEndpoints)]),
		Onion:     ownOnion(cfg),
		Tor:       cfg.Tor.Enabled,
	}, nil
}

// localEndpoints lists where listen is reachable: that address itself if it names
// one, otherwise the addresses of this machine's interfaces, public before private
// before loopback, without those inside one of the mesh's networks.
func localEndpoints(listen netip.AddrPort, own []netip.Prefix) ([]netip.AddrPort, error) {
	if !listen.Addr().IsUnspecified() {
		return []netip.AddrPort{listen}, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	var classes [3][]netip.AddrPort
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(ipnet.IP)
		addr = addr.Unmap()
		if !ok || addr.IsLinkLocalUnicast() || listen.Addr().Is4() && !addr.Is4() || slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			continue
		}
		class := 0
		switch {
		case addr.IsLoopback():
			class = 2
		case addr.IsPrivate():
			class = 1
		}
		classes[class] = append(classes[class], netip.AddrPortFrom(addr, listen.Port()))
	}
	out := append(classes[0], classes[1]...)
	if len(out) == 0 {
		out = classes[2]
	}
	return out, nil
}

// NodeService is the directory of the host's own onion service.
func NodeService(stateDir string) string { return filepath.Join(stateDir, "onion", "node") }

// ownOnion returns this host's own onion service, zero if it has none or tor has
// not started yet, which makes the key.
func ownOnion(cfg config.Fixed) member.Onion {
	if !cfg.Tor.Enabled || cfg.Tor.Control != "" {
		return member.Onion{}
	}
	service := tor.Service{Dir: NodeService(cfg.StateDir)}
	text, err := service.Address()
	if err != nil {
		return member.Onion{}
	}
	o, err := member.ParseOnion(text)
	if err != nil {
		return member.Onion{}
	}
	return o
}
