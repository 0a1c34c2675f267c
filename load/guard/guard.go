package guard

import (
	"fmt"
	"net/netip"
	"slices"
)

// PublicRate and PublicUsers bound what goes to an address of the internet, unless
// somebody says that more may.
const (
	PublicRate  = 1000
	PublicUsers = 1000
)

// metadata are the addresses at which clouds tell their machines' secrets.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"),
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	shared      = netip.MustParsePrefix("100.64.0.0/10")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local  = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	teredo      = netip.MustParsePrefix("2001::/32")
	compatible  = netip.MustParsePrefix("::/96")
)

// Guard refuses addresses. The zero value refuses what everybody refuses.
type Guard struct {
	// Never are networks of this host that are nobody's target, as that of a mesh.
	Never []netip.Prefix
}

// Reason is why nothing may be sent to an address, as figures name it. The set is closed.
type Reason string

// Reasons.
const (
	Unlisted    Reason = "unlisted" // the host's list does not have it
	Metadata    Reason = "metadata"
	Unspecified Reason = "unspecified"
	Multicast   Reason = "multicast"
	LinkLocal   Reason = "link_local"
	Mesh        Reason = "mesh"
	NoAddress   Reason = "no_address"
	Unproven    Reason = "unproven" // the target does not show that it is meant
)

// Reasons are all of them.
var Reasons = []Reason{Unlisted, Metadata, Unspecified, Multicast, LinkLocal, Mesh, NoAddress, Unproven}

// Refuse says why nothing may be sent to an address; empty: it may be.
func (g Guard) Refuse(a netip.Addr) string {
	_, why := g.Why(a)
	return why
}

// Why is Refuse with its reason.
func (g Guard) Why(a netip.Addr) (Reason, string) {
	if !a.IsValid() {
		return NoAddress, "it is no address"
	}
	if r, why := g.refuse(a.WithZone("").Unmap()); why != "" {
		return r, why
	}
	if inner, how := inside(a.WithZone("")); inner.IsValid() {
		if r, why := g.refuse(inner); why != "" {
			return r, fmt.Sprintf("as %s it means %s: %s", how, inner, why)
		}
	}
	return "", ""
}

func (g Guard) refuse(a netip.Addr) (Reason, string) {
	switch {
	case slices.Contains(metadata, a):
		return Metadata, "clouds tell their machines' secrets there"
	case a.IsUnspecified() || thisNetwork.Contains(a):
		return Unspecified, "it is the unspecified address"
	case a.IsMulticast() || a == broadcast:
		return Multicast, "it is of many hosts"
	case a.IsLinkLocalUnicast():
		return LinkLocal, "it is link-local"
	}
	for _, p := range g.Never {
		if p.Contains(a) {
			return Mesh, fmt.Sprintf("it is of the mesh, %s", p)
		}
	}
	return "", ""
}

// inside is the IPv4 address that an IPv6 one stands for.
func inside(a netip.Addr) (inner netip.Addr, how string) {
	if !a.Is6() || a.Is4In6() {
		return netip.Addr{}, ""
	}
	b := a.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(a):
		return at(12), "NAT64"
	case nat64Local.Contains(a):
		return at(12), "NAT64"
	case sixToFour.Contains(a):
		return at(2), "6to4"
	case teredo.Contains(a):
		inner := at(12).As4()
		for i := range inner {
			inner[i] ^= 0xff
		}
		return netip.AddrFrom4(inner), "Teredo"
	case compatible.Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return at(12), "an IPv4-compatible address"
	}
	return netip.Addr{}, ""
}

// Public reports whether an address is one of the internet: neither of this
// machine nor of a network of its own.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if inner, _ := inside(a.WithZone("")); inner.IsValid() {
		a = inner // where it leads
	}
	return !a.IsLoopback() && !a.IsPrivate() && !shared.Contains(a)
}
