package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

const (
	// linkAlias marks an interface as ours; ip link shows it.
	linkAlias = "skein mesh"
	// genModeNone is IN6_ADDR_GEN_MODE_NONE: no link-local address.
	genModeNone = 1
)

// hostLink is the network interface of the kernel and TUN backends. Its
// netlink handle stays in the network namespace in which it was opened.
type hostLink struct {
	nl       *netlink.Handle
	link     netlink.Link
	networks []netip.Prefix
	log      zerolog.Logger
	// noIP6 holds the IPv6 addresses that were wanted of a host on which IPv6
	// is off; the mesh then is IPv4 only.
	noIP6 []netip.Prefix
}

// openHost checks that the networks of the mesh are free and returns a link
// that does not exist yet.
func openHost(o device.Options) (*hostLink, error) {
	if len(o.Networks) == 0 {
		return nil, errors.New("networks of the mesh missing")
	}
	h, err := openNetlink()
	if err != nil {
		return nil, err
	}
	host, err := usedBy(h, o.Interface)
	if err == nil {
		err = findOverlap(o.Networks, host)
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return &hostLink{nl: h, networks: o.Networks, log: o.Logger}, nil
}

// find takes over the interface called name. A name that nobody has is
// os.ErrNotExist.
func (l *hostLink) find(name string) error {
	link, err := linkByName(l.nl, name)
	l.link = link
	return err
}

// linkByName reports a missing interface as unix.ENODEV.
func linkByName(h *netlink.Handle, name string) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	var none netlink.LinkNotFoundError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("interface %s: %w", name, unix.ENODEV)
	case err != nil:
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return link, nil
}

// mark says that the interface is ours.
func (l *hostLink) mark() error {
	if err := l.nl.LinkSetAlias(l.link, linkAlias); err != nil {
		return fmt.Errorf("mark interface: %w", err)
	}
	return nil
}

func (l *hostLink) name() string { return l.link.Attrs().Name }

func (l *hostLink) up() error {
	if err := l.nl.LinkSetUp(l.link); err != nil {
		return fmt.Errorf("bring interface %s up: %w", l.name(), device.PortError(err))
	}
	return nil
}

// Apply carries out op if it is about the interface.
func (l *hostLink) Apply(op topo.Op) (mine bool, err error) {
	switch o := op.(type) {
	case topo.SetMTU:
		err = l.nl.LinkSetMTU(l.link, o.MTU)
	case topo.AddAddr:
		err = l.addAddr(o.Addr)
	case topo.RemoveAddr:
		err = l.removeAddr(o.Addr)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", op, err)
	}
	return true, nil
}

// addAddr gives the interface an address and routes the networks of its
// family there, with the address as their source.
func (l *hostLink) addAddr(p netip.Prefix) error {
	addr := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		// Nobody else can have it: looking for duplicates would only keep
		// sockets from binding to it for seconds.
		addr.Flags = unix.IFA_F_NODAD
	}
	err := l.nl.AddrReplace(l.link, addr)
	if p.Addr().Is6() && ipv6Off(err) {
		if !slices.Contains(l.noIP6, p) {
			l.noIP6 = append(l.noIP6, p)
			l.log.Warn().Err(err).Stringer("addr", p.Addr()).Msg("ipv6 is off on this host, mesh is ipv4 only")
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range l.networks {
		if n.Addr().Is4() != p.Addr().Is4() {
			continue
		}
		route := &netlink.Route{
			LinkIndex: l.link.Attrs().Index, Dst: ipNet(n), Src: p.Addr().AsSlice(),
			Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_STATIC,
		}
		if err := l.nl.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s: %w", n, err)
		}
	}
	return nil
}

// ipv6Off reports whether an address was refused because IPv6 is switched off
// for the interface or missing in the kernel.
func ipv6Off(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)
}

func (l *hostLink) removeAddr(p netip.Prefix) error {
	if i := slices.Index(l.noIP6, p); i >= 0 {
		l.noIP6 = slices.Delete(l.noIP6, i, i+1)
		return nil
	}
	err := l.nl.AddrDel(l.link, &netlink.Addr{IPNet: ipNet(p)})
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return err
}

// Observe adds MTU and addresses to a reading.
func (l *hostLink) Observe(r *device.Reading) error {
	link, err := l.nl.LinkByIndex(l.link.Attrs().Index)
	if err != nil {
		return fmt.Errorf("read interface %s: %w", l.name(), err)
	}
	r.MTU = link.Attrs().MTU
	addrs, err := dump(func() ([]netlink.Addr, error) { return l.nl.AddrList(l.link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("read addresses of %s: %w", l.name(), err)
	}
	r.Addrs = slices.Clone(l.noIP6)
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
			r.Addrs = append(r.Addrs, p)
		}
	}
	return nil
}

func (l *hostLink) Close() { l.nl.Close() }

// udpAddrPort is a as netip has it, zero for nil.
func udpAddrPort(a *net.UDPAddr) netip.AddrPort {
	if a == nil {
		return netip.AddrPort{}
	}
	return device.UnmapPort(a.AddrPort())
}
