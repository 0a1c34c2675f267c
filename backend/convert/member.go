package convert

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/overload"
)

// Member shows a member; own is how many events this host has, now the local time.
func Member(v *coord.View, m coord.MemberView, own uint64, now time.Duration) api.Member {
	self := m.Node == v.Self
	am := api.Member{
		Node: m.Node, Self: self, Addr: AddrText(m.IP4), Addr6: AddrText(m.IP6), State: m.Health, Stopped: m.Stopped, Role: m.Role,
		Voter: v.Lease.Config.Has(m.Node), Publisher: m.Publishing, Term: m.Term, Version: m.Version, Zone: m.Zone, Priority: m.Priority,
		Witness: m.Witness, Stale: m.Stale, NAT: m.NAT, Endpoints: EndpointTexts(m.Endpoints),
		Sponsor: slices.Contains(m.Caps, member.CapSponsor),
	}
	if m.Load != nil {
		am.Load = overload.Level(m.Load[wire.LoadLevel]).String() //nolint:gosec // bounded where it was read
	}
	if m.CertExpires != 0 {
		am.CertExpiresAt = new(time.Unix(m.CertExpires, 0).UTC())
	}
	switch {
	case self:
		am.Path = "self"
	case m.Heard:
		am.Path = cmp.Or(m.Path, "direct")
		am.SeenSeconds = new((now - m.LastHeard).Seconds())
		am.SkewSeconds = new(m.Skew.Seconds())
		am.LagEvents = new(own - min(own, m.LogEvents))
		if m.RTT > 0 {
			am.RTTSeconds = new(m.RTT.Seconds())
		}
	}
	return am
}

// Retired shows a host that is no longer a member.
func Retired(r member.Retired) api.Member {
	return api.Member{
		Node: r.Node, Addr: AddrText(r.Cert.IP4), Addr6: AddrText(r.Cert.IP6), State: cluster.Left, Endpoints: []string{},
		Removed: !r.Left, GoneAt: new(r.At), Reason: r.Reason,
	}
}

// AddrText is empty for an address that a host does not have.
func AddrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// EndpointTexts is a list that is never nil.
func EndpointTexts(list []netip.AddrPort) []string {
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, e.String())
	}
	return out
}

// Ailing says in words how a host is that is not alive. One that this host knows and has
// not heard since its start need not be new.
func Ailing(m coord.MemberView) string {
	switch {
	case m.Stopped:
		return string(m.Node) + " stopped"
	case m.Health == cluster.Joining:
		return string(m.Node) + " not heard yet"
	}
	return fmt.Sprintf("%s %s", m.Node, m.Health)
}
