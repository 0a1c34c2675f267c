package mesh

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rs/zerolog"
	wg "golang.zx2c4.com/wireguard/device"

	"github.com/skein-project/skein/mesh/topo"
)

// closeTimeout bounds the close of a device.
const closeTimeout = 5 * time.Second

// netstackDevice is WireGuard over a TCP/IP stack, both in this process.
type netstackDevice struct {
	tun  *netTUN
	dev  *wg.Device
	hint chan struct{}
	port uint16 // last port that worked
}

// hinter is a Bind in tests that reports handshakes as udpBind does.
type hinter interface{ onHandshake(func()) }

// openNetstack starts a device that listens on the underlay. It has no
// address and no peer yet.
func openNetstack(o Options) (*netstackDevice, error) {
	t, err := newTUN(o.MTU, o.udpOnly)
	if err != nil {
		return nil, fmt.Errorf("open tcp/ip stack: %w", err)
	}
	d := &netstackDevice{tun: t, hint: make(chan struct{}, 1)}
	bind := o.bind
	if bind == nil {
		bind = newUDPBind(o.Listen.Addr(), d.hintNow)
	} else if h, ok := bind.(hinter); ok {
		h.onHandshake(d.hintNow)
	}
	d.dev = wg.NewDevice(t, bind, wireguardLogger(o.Logger))
	if err := d.start(o); err != nil {
		d.dev.Close()
		return nil, err
	}
	return d, nil
}

func (d *netstackDevice) start(o Options) error {
	err := d.dev.IpcSet(fmt.Sprintf("private_key=%s\nlisten_port=%d\n", hex.EncodeToString(o.PrivateKey[:]), o.Listen.Port()))
	if err != nil {
		return fmt.Errorf("configure wireguard: %w", err)
	}
	if err := d.dev.Up(); err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	r, err := d.observe()
	d.port = r.port
	return err
}

// wireguardLogger passes the device's messages on: all of them are either
// answered by a return value or about single packets.
func wireguardLogger(l zerolog.Logger) *wg.Logger {
	out := &wg.Logger{Verbosef: wg.DiscardLogf, Errorf: func(format string, args ...any) {
		l.Debug().Msgf("wireguard: "+format, args...)
	}}
	if l.GetLevel() <= zerolog.TraceLevel {
		out.Verbosef = func(format string, args ...any) { l.Trace().Msgf("wireguard: "+format, args...) }
	}
	return out
}

func (d *netstackDevice) hintNow() {
	select {
	case d.hint <- struct{}{}:
	default:
	}
}

func (d *netstackDevice) apply(op topo.Op) error {
	var err error
	switch o := op.(type) {
	case topo.SetMTU:
		d.tun.setMTU(o.MTU)
	case topo.AddAddr:
		err = d.tun.addAddr(o.Addr)
	case topo.RemoveAddr:
		err = d.tun.removeAddr(o.Addr)
	case topo.SetPort:
		err = d.setPort(o)
	default:
		text, ok := uapiText(op)
		if !ok {
			return fmt.Errorf("%s: not an operation of this device", op)
		}
		err = d.dev.IpcSet(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// setPort moves the underlay socket; if that fails it goes back to the port
// that worked, since the device has closed that one by then.
func (d *netstackDevice) setPort(op topo.SetPort) error {
	text, _ := uapiText(op)
	err := d.dev.IpcSet(text)
	if err == nil {
		d.port = op.Port
		return nil
	}
	back, _ := uapiText(topo.SetPort{Port: d.port})
	if e := d.dev.IpcSet(back); e != nil {
		return errors.Join(err, fmt.Errorf("back to port %d: %w", d.port, e))
	}
	return err
}

func (d *netstackDevice) observe() (reading, error) {
	text, err := d.dev.IpcGet()
	if err != nil {
		return reading{}, fmt.Errorf("read device: %w", err)
	}
	r, err := parseUAPI(text)
	if err != nil {
		return reading{}, err
	}
	r.mtu, _ = d.tun.MTU()
	r.addrs = d.tun.addresses()
	return r, nil
}

func (d *netstackDevice) handshake(key topo.Key, force bool) error {
	p := d.dev.LookupPeer(wg.NoisePublicKey(key))
	if p == nil {
		return fmt.Errorf("handshake with %s: no such peer", key)
	}
	if force {
		p.ExpireCurrentKeypairs()
	}
	if err := p.SendHandshakeInitiation(false); err != nil {
		return fmt.Errorf("handshake with %s: %w", key, err)
	}
	return nil
}

func (d *netstackDevice) hold(key topo.Key, addrs []netip.Addr, on bool) {
	if on {
		d.tun.gate.close(key, addrs)
	} else {
		d.tun.gate.open(key)
	}
}

func (d *netstackDevice) forget(key topo.Key)    { d.tun.gate.forget(key) }
func (d *netstackDevice) counters() counters     { return d.tun.gate.counters() }
func (d *netstackDevice) hints() <-chan struct{} { return d.hint }
func (d *netstackDevice) done() <-chan struct{}  { return d.dev.Wait() }

// close stops the device and waits for its goroutines.
func (d *netstackDevice) close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.dev.Close()
	}()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-closed:
		return nil
	case <-t.C:
		return fmt.Errorf("close wireguard device: not done after %s", closeTimeout)
	}
}
