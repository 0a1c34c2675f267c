package mesh

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func cleanup(ctx context.Context, iface string) (removed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := checkInterface(iface); err != nil {
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
	case link.Attrs().Alias != linkAlias || link.Type() != "wireguard" && link.Type() != "tuntap":
		return false, fmt.Errorf("%w: type %s, alias %q", ErrForeign, link.Type(), link.Attrs().Alias)
	default:
		// Addresses and routes go with it.
		if err := h.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return false, fmt.Errorf("remove interface: %w", linkError(err))
		}
		removed = true
	}
	_, err = removeStale(controlPath(iface))
	if errors.Is(err, ErrForeign) {
		err = nil // a running process has it
	}
	return removed, err
}
