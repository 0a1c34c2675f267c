package mesh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// Errors of opening a device, on which callers branch.
var (
	// ErrUnsupported reports a backend that this host cannot run.
	ErrUnsupported = errors.New("not supported by this host")
	// ErrPermission reports a missing right.
	ErrPermission = errors.New("not permitted: needs CAP_NET_ADMIN")
	// ErrForeign reports an interface of the wanted name that is not ours.
	ErrForeign = errors.New("interface belongs to someone else")
	// ErrOverlap reports a mesh network that this host already uses otherwise.
	ErrOverlap = errors.New("network overlap")
	// ErrPortInUse reports an underlay port that another program has.
	ErrPortInUse = errors.New("underlay port in use")
)

// openDevice opens the backend that the options name. Automatic choice goes
// on from the kernel to TUN only if the kernel has no WireGuard; a missing
// right, a foreign interface or a taken port is an error at once.
func openDevice(o Options) (opened, error) {
	open := func(name string) (opened, error) {
		var (
			d   opened
			err error
		)
		switch name {
		case BackendKernel:
			d, err = openKernel(o)
		case BackendTUN:
			d, err = openTUN(o)
		case BackendNetstack:
			d, err = openNetstack(o)
		default:
			err = ErrBackend
		}
		if err != nil {
			return nil, fmt.Errorf("open %s device: %w", name, err)
		}
		return d, nil
	}
	if o.Backend != BackendAuto {
		return open(o.Backend)
	}
	d, err := open(BackendKernel)
	if !errors.Is(err, ErrUnsupported) {
		return d, err
	}
	o.Logger.Info().Err(err).Msg("no wireguard in the kernel, using tun")
	d, e := open(BackendTUN)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	return d, nil
}

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
