package mesh

import (
	"fmt"

	"github.com/skein-project/skein/mesh/topo"
)

// netstackDevice is WireGuard over a TCP/IP stack, both in this process.
type netstackDevice struct {
	*goDevice
	tun *netTUN
}

// hinter is a Bind in tests that reports handshakes as udpBind does.
type hinter interface{ onHandshake(hintFunc) }

// openNetstack starts a device that listens on the underlay. It has no
// address and no peer yet.
func openNetstack(o Options) (*netstackDevice, error) {
	t, err := newTUN(o.MTU, o.udpOnly)
	if err != nil {
		return nil, fmt.Errorf("open tcp/ip stack: %w", err)
	}
	d := &netstackDevice{goDevice: newGoDevice(t.gate), tun: t}
	bind := o.bind
	if bind == nil {
		bind = newUDPBind(o.Listen.Addr(), d.hintNow)
	} else if h, ok := bind.(hinter); ok {
		h.onHandshake(d.hintNow)
	}
	if err := d.start(t, bind, o); err != nil {
		return nil, err
	}
	return d, nil
}

func (*netstackDevice) backend() string { return BackendNetstack }
func (*netstackDevice) iface() string   { return "" }

func (d *netstackDevice) apply(op topo.Op) error {
	var err error
	switch o := op.(type) {
	case topo.SetMTU:
		d.tun.setMTU(o.MTU)
	case topo.AddAddr:
		err = d.tun.addAddr(o.Addr)
	case topo.RemoveAddr:
		err = d.tun.removeAddr(o.Addr)
	default:
		return d.goDevice.apply(op)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (d *netstackDevice) observe() (reading, error) {
	r, err := d.goDevice.observe()
	if err != nil {
		return reading{}, err
	}
	r.mtu, _ = d.tun.MTU()
	r.addrs = d.tun.addresses()
	return r, nil
}
