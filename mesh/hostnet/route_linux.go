package hostnet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// netlinkTimeout bounds each question to the kernel.
	netlinkTimeout = 5 * time.Second
	// dumpTries is how often a list that changed while it was read is read.
	dumpTries = 5
)

// openNetlink returns a handle for the network namespace of this thread. All
// families at once would fail on a kernel without xfrm.
func openNetlink() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := h.SetSocketTimeout(netlinkTimeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return h, nil
}

// dump repeats a listing that was interrupted by a change.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	var (
		all []T
		err error
	)
	for range dumpTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func checkOverlap(iface string, networks []netip.Prefix) error {
	h, err := openNetlink()
	if err != nil {
		return err
	}
	defer h.Close()
	host, err := usedBy(h, iface)
	if err != nil {
		return err
	}
	return findOverlap(networks, host)
}

// usedBy lists addresses and routes of all interfaces but except.
func usedBy(h *netlink.Handle, except string) ([]used, error) {
	names, err := linkNames(h)
	if err != nil {
		return nil, err
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := allRoutes(h)
	if err != nil {
		return nil, err
	}
	var host []used
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && names[a.LinkIndex] != except {
			host = append(host, used{prefix: p, dev: names[a.LinkIndex]})
		}
	}
	for _, r := range routes {
		if p, ok := prefixOf(r.Dst); ok && (r.LinkIndex == 0 || names[r.LinkIndex] != except) {
			host = append(host, used{prefix: p, route: true, dev: cmp.Or(names[r.LinkIndex], "several interfaces")})
		}
	}
	return host, nil
}

// allRoutes lists the routes of all tables that lead somewhere: not those to
// own, broadcast or multicast addresses, nor refusals.
func allRoutes(h *netlink.Handle) ([]netlink.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) {
		return h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return slices.DeleteFunc(routes, func(r netlink.Route) bool {
		return r.Type != unix.RTN_UNICAST || r.Table == unix.RT_TABLE_LOCAL
	}), nil
}

func linkNames(h *netlink.Handle) (map[int]string, error) {
	links, err := dump(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names, nil
}

// prefixOf converts what netlink uses; ok is false for nil.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	if ip4 := n.IP.To4(); ip4 != nil {
		a, ok = netip.AddrFromSlice(ip4)
	}
	ones, _ := n.Mask.Size()
	p := netip.PrefixFrom(a, ones)
	return p, ok && p.IsValid()
}

// ipNet is the other way round.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func pathMTU(dst netip.Addr) (int, error) {
	h, err := openNetlink()
	if err != nil {
		return 0, err
	}
	defer h.Close()
	routes, err := h.RouteGet(dst.AsSlice())
	if err != nil {
		return 0, fmt.Errorf("find route: %w", err)
	}
	if len(routes) == 0 {
		return 0, errors.New("no route")
	}
	link, err := h.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return 0, fmt.Errorf("interface of the route: %w", err)
	}
	mtu := link.Attrs().MTU
	if m := routes[0].MTU; m > 0 {
		mtu = min(mtu, m)
	}
	return mtu, nil
}

func readUnderlay(iface string) (Underlay, error) {
	h, err := openNetlink()
	if err != nil {
		return Underlay{}, err
	}
	defer h.Close()
	host, err := usedBy(h, iface)
	if err != nil {
		return Underlay{}, err
	}
	var u Underlay
	for _, x := range host {
		switch a := x.prefix.Addr(); {
		case a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || x.prefix.Bits() <= defaultBits:
		case x.route:
			u.Routes = append(u.Routes, x.prefix)
		default:
			u.Addrs = append(u.Addrs, x.prefix)
		}
	}
	return u, nil
}
