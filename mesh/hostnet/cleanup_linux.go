package hostnet

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/mesh/device"
)

// ours reports whether a mesh made the interface.
func ours(link netlink.Link) bool {
	return link.Attrs().Alias == linkAlias && (link.Type() == "wireguard" || link.Type() == "tuntap")
}

func foreign(link netlink.Link) error {
	return fmt.Errorf("%w: type %s, alias %q", device.ErrForeign, link.Type(), link.Attrs().Alias)
}

func foreignInterface(iface string) error {
	h, err := openNetlink()
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := linkByName(h, iface)
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil
	case err == nil && !ours(link):
		return foreign(link)
	}
	return err
}

func cleanup(ctx context.Context, iface string) (removed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := device.CheckName(iface); err != nil {
		return false, err
	}
	h, err := openNetlink()
	if err != nil {
		return false, err
	}
	defer h.Close()
	link, err := linkByName(h, iface)
	switch {
	case errors.Is(err, unix.ENODEV):
	case err != nil:
		return false, err
	case !ours(link):
		return false, foreign(link)
	default:
		// Addresses and routes go with it.
		if err := h.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return false, fmt.Errorf("remove interface: %w", linkError(err))
		}
		removed = true
	}
	_, err = removeStale(controlPath(iface))
	if errors.Is(err, device.ErrForeign) {
		err = nil // a running process has it
	}
	return removed, err
}
