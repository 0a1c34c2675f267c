package mesh

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/mesh/netstack"
)

// openDevice opens the backend that the options name. Automatic choice goes
// on from the kernel to TUN only if the kernel has no WireGuard; a missing
// right, a foreign interface or a taken port is an error at once.
func openDevice(o Options) (device.Opened, error) {
	do := o.device()
	open := func(name string) (device.Opened, error) {
		var (
			d   device.Opened
			err error
		)
		switch name {
		case device.BackendKernel:
			d, err = hostnet.OpenKernel(do)
		case device.BackendTUN:
			d, err = hostnet.OpenTUN(do)
		case device.BackendNetstack:
			d, err = netstack.Open(do)
		default:
			err = ErrBackend
		}
		if err != nil {
			return nil, fmt.Errorf("open %s device: %w", name, err)
		}
		return d, nil
	}
	if o.Backend != device.BackendAuto {
		return open(o.Backend)
	}
	d, err := open(device.BackendKernel)
	if !errors.Is(err, device.ErrUnsupported) {
		return d, err
	}
	o.Logger.Info().Err(err).Msg("no wireguard in the kernel, using tun")
	d, e := open(device.BackendTUN)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	return d, nil
}
