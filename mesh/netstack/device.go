package netstack

import (
	"fmt"
	"net/netip"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// Device is WireGuard over a TCP/IP stack, both in this process.
type Device struct {
	*device.WireGuard
	tun *netTUN
}

// Open starts a device that listens on the underlay. It has no
// address and no peer yet.
func Open(o device.Options) (*Device, error) {
	t, err := newTUN(o.MTU, o.UDPOnly)
	if err != nil {
		return nil, fmt.Errorf("open tcp/ip stack: %w", err)
	}
	d := &Device{WireGuard: device.New(t.gate), tun: t}
	bind := o.Bind
	if bind == nil {
		bind = device.NewBind(o.Listen.Addr(), d.HintNow)
	} else if h, ok := bind.(device.Hinter); ok {
		h.OnHandshake(d.HintNow)
	}
	if err := d.Start(t, bind, o); err != nil {
		return nil, err
	}
	return d, nil
}

// Backend implements device.Device.
func (*Device) Backend() string { return device.BackendNetstack }

// Iface implements device.Device: there is none.
func (*Device) Iface() string { return "" }

// Apply implements device.Device.
func (d *Device) Apply(op topo.Op) error {
	var err error
	switch o := op.(type) {
	case topo.SetMTU:
		d.tun.setMTU(o.MTU)
	case topo.AddAddr:
		err = d.tun.addAddr(o.Addr)
	case topo.RemoveAddr:
		err = d.tun.removeAddr(o.Addr)
	default:
		return d.WireGuard.Apply(op)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Observe implements device.Device.
func (d *Device) Observe() (device.Reading, error) {
	r, err := d.WireGuard.Observe()
	if err != nil {
		return device.Reading{}, err
	}
	r.MTU, _ = d.tun.MTU()
	r.Addrs = d.Addresses()
	return r, nil
}

// Addresses are those that the device has in the mesh.
func (d *Device) Addresses() []netip.Prefix { return d.tun.addresses() }
