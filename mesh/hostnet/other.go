//go:build !linux

package hostnet

import (
	"context"
	"net"
	"net/netip"

	"github.com/skein-project/skein/mesh/device"
)

// OpenKernel reports that this system has no such backend.
func OpenKernel(device.Options) (device.Opened, error) { return nil, device.ErrUnsupported }

// OpenTUN reports that this system has no such backend.
func OpenTUN(device.Options) (device.Opened, error) { return nil, device.ErrUnsupported }

func cleanup(context.Context, string) (bool, error) { return false, nil }

func foreignInterface(string) error { return nil }

func pathMTU(netip.Addr) (int, error) { return 0, device.ErrUnsupported }

func checkOverlap(string, []netip.Prefix) error { return nil }

func readUnderlay(string) (Underlay, error) {
	var u Underlay
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return u, err
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() {
			continue
		}
		u.Addrs = append(u.Addrs, p)
		u.Routes = append(u.Routes, p.Masked())
	}
	return u, nil
}
