package hostnet

import (
	"context"
	"fmt"
	"net/netip"
)

// Cleanup removes what a mesh has left on the host: the kernel backend's
// interface, which carries traffic on while no daemon runs, and the control
// socket of a killed process. It removes nothing that is not ours (ErrForeign)
// and reports whether there was such an interface. Doing it twice does no harm.
func Cleanup(ctx context.Context, iface string) (removed bool, err error) {
	removed, err = cleanup(ctx, iface)
	if err != nil {
		return removed, fmt.Errorf("clean up interface %s: %w", iface, err)
	}
	return removed, nil
}

// CheckInterface reports an interface of that name that is not ours
// (ErrForeign); none, or one that a mesh has left, is no error.
func CheckInterface(iface string) error {
	if err := foreignInterface(iface); err != nil {
		return fmt.Errorf("interface %s: %w", iface, err)
	}
	return nil
}

// PathMTU is the size of the largest packet that leaves this host towards dst
// unfragmented: the smaller of what the link and the route allow.
func PathMTU(dst netip.Addr) (int, error) {
	mtu, err := pathMTU(dst.Unmap())
	if err != nil {
		return 0, fmt.Errorf("mtu towards %s: %w", dst, err)
	}
	return mtu, nil
}

// Underlay is what a host knows of the networks around it.
type Underlay struct {
	// Addrs are its addresses with the prefix of their network.
	Addrs []netip.Prefix
	// Routes are what it can reach by routes more specific than the default.
	Routes []netip.Prefix
}

// ReadUnderlay returns the host's networks but for those of the interface
// named, loopback and link-local ones.
func ReadUnderlay(iface string) (Underlay, error) {
	u, err := readUnderlay(iface)
	if err != nil {
		return Underlay{}, fmt.Errorf("read networks of this host: %w", err)
	}
	return u, nil
}

// CheckOverlap reports the first of networks that an address or route of this
// host, those of the interface named aside, overlaps (ErrOverlap).
func CheckOverlap(iface string, networks []netip.Prefix) error {
	return checkOverlap(iface, networks)
}
