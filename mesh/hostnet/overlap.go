package hostnet

import (
	"fmt"
	"net/netip"

	"github.com/skein-project/skein/mesh/device"
)

// used is a prefix that the host uses.
type used struct {
	prefix netip.Prefix
	route  bool // an address otherwise
	dev    string
}

// defaultBits is the length up to which a route counts as a default one: VPN
// clients split theirs in two halves.
const defaultBits = 1

// findOverlap reports the first of networks that something of the host
// overlaps. Default routes overlap nothing.
func findOverlap(networks []netip.Prefix, host []used) error {
	for _, n := range networks {
		for _, u := range host {
			if u.prefix.Bits() > defaultBits && n.Overlaps(u.prefix) {
				return fmt.Errorf("%w: mesh network %s and the %s %s on %s", device.ErrOverlap, n, u.kind(), u.prefix, u.dev)
			}
		}
	}
	return nil
}

func (u used) kind() string {
	if u.route {
		return "route"
	}
	return "address"
}
