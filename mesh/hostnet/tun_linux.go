package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

const cloneDevice = "/dev/net/tun"

// tunDevice is WireGuard in this process behind a network interface. The
// interface goes away with the process.
type tunDevice struct {
	*device.WireGuard
	*hostLink
	*hostSockets
	tun     *gatedTUN
	control *controlSocket // nil where its directory is not writable
}

// OpenTUN creates the interface; one of its name must not exist.
func OpenTUN(o device.Options) (device.Opened, error) {
	l, err := openHost(o)
	if err != nil {
		return nil, err
	}
	t, err := l.createTUN(o)
	if err != nil {
		l.Close()
		return nil, err
	}
	d := &tunDevice{WireGuard: device.New(t.gate), hostLink: l, hostSockets: newHostSockets(o.Interface), tun: t}
	if err := d.Start(t, d.bindFor(o), o); err != nil {
		l.Close()
		return nil, err
	}
	if err := errors.Join(l.mark(), l.up()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.control, err = serveControl(o.Interface, d.Raw()); err != nil {
		d.log.Info().Err(err).Msg("no control socket for wg show")
	}
	return d, nil
}

// bindFor is the underlay. The stock Bind sends and receives many packets at
// a time but listens on all addresses.
func (d *tunDevice) bindFor(o device.Options) conn.Bind {
	switch {
	case o.Bind != nil:
		return o.Bind
	case o.Listen.Addr().IsUnspecified():
		return device.HintBind{Bind: conn.NewDefaultBind(), Hint: d.HintNow}
	}
	return device.NewBatchBind(o.Listen.Addr(), d.HintNow)
}

// createTUN creates the interface; one of this name must not exist.
func (l *hostLink) createTUN(o device.Options) (*gatedTUN, error) {
	switch err := l.find(o.Interface); {
	case err == nil:
		return nil, fmt.Errorf("%w: %s of type %s exists",
			device.ErrForeign, o.Interface, l.link.Type())
	case !errors.Is(err, unix.ENODEV):
		return nil, err
	}
	file, err := openClone(o.Interface)
	if err != nil {
		return nil, fmt.Errorf("create interface %s: %w", o.Interface, err)
	}
	native, err := tun.CreateTUNFromFile(file, o.MTU)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("create interface %s: %w", o.Interface, linkError(err))
	}
	t := newGatedTUN(native, device.NewGate())
	if err = l.find(o.Interface); err == nil {
		// Without IPv6 on the host there is nothing to switch off.
		_ = l.nl.LinkSetIP6AddrGenMode(l.link, genModeNone)
		return t, nil
	}
	return nil, errors.Join(err, t.Close())
}

// openClone returns a TUN file, non-blocking before the runtime sees it. With
// headers for offload (IFF_VNET_HDR) the kernel hands over large segments.
func openClone(name string) (*os.File, error) {
	fd, err := unix.Open(cloneDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("%w: open %s: %w", device.ErrUnsupported, cloneDevice, err)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", cloneDevice, linkError(err))
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("%w: %w", device.ErrForeign, err)
		}
		return nil, linkError(err)
	}
	return os.NewFile(uintptr(fd), cloneDevice), nil
}

func (*tunDevice) Backend() string { return device.BackendTUN }
func (d *tunDevice) Iface() string { return d.name() }

func (d *tunDevice) Apply(op topo.Op) error {
	if mine, err := d.hostLink.Apply(op); mine {
		return err
	}
	return d.WireGuard.Apply(op)
}

func (d *tunDevice) Observe() (device.Reading, error) {
	r, err := d.WireGuard.Observe()
	if err != nil {
		return device.Reading{}, err
	}
	return r, d.hostLink.Observe(&r)
}

func (d *tunDevice) Hold(key topo.Key, addrs []netip.Addr, on bool) {
	d.WireGuard.Hold(key, addrs, on)
	d.tun.wake()
}

func (d *tunDevice) Counters() device.Counters {
	c := d.WireGuard.Counters()
	c.Dropped += d.lost.Load()
	return c
}

// Close stops the device; the interface is gone when it returns.
func (d *tunDevice) Close() error {
	d.closeAll()
	err := d.control.Close()
	err = errors.Join(err, d.WireGuard.Close())
	d.hostLink.Close()
	return err
}

// gatedTUN holds packets for peers without a session and passes whole batches
// otherwise.
type gatedTUN struct {
	tun.Device
	gate *device.Gate
	// events has room for one change of the MTU; more are dropped, since the
	// device reads the MTU itself. Closed by its goroutine, which ends with
	// the events of the inner device.
	events chan tun.Event
}

func newGatedTUN(inner tun.Device, g *device.Gate) *gatedTUN {
	t := &gatedTUN{Device: inner, gate: g, events: make(chan tun.Event, 1)}
	go t.forward()
	return t
}

// forward keeps WireGuard from following the state of the interface: it is up
// from start to close, and an early "down" would undo that.
func (t *gatedTUN) forward() {
	defer close(t.events)
	for e := range t.Device.Events() {
		if e&tun.EventMTUUpdate == 0 {
			continue
		}
		select {
		case t.events <- tun.EventMTUUpdate:
		default:
		}
	}
}

// Events implements tun.Device.
func (t *gatedTUN) Events() <-chan tun.Event { return t.events }

// Read gives the device packets whose peers have a session: first those that
// were let go, then a batch of the interface.
func (t *gatedTUN) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	for {
		if n := t.gate.Take(bufs, sizes, offset); n > 0 {
			return n, nil
		}
		n, err := t.Device.Read(bufs, sizes, offset)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// wake was called. A later call finds the deadline cleared, so
			// that this loop cannot miss what it is about.
			if err := t.File().SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
			continue
		}
		if n = t.gate.Filter(bufs[:n], sizes, offset); n > 0 || err != nil {
			return n, err
		}
	}
}

// Write gives the interface packets that came from peers.
func (t *gatedTUN) Write(bufs [][]byte, offset int) (int, error) {
	for _, b := range bufs {
		t.gate.Heard(b[offset:])
	}
	t.wake()
	return t.Device.Write(bufs, offset)
}

// wake makes Read look for packets that were let go.
func (t *gatedTUN) wake() {
	select {
	case <-t.gate.Released():
		// It fails only when the device is closed.
		_ = t.File().SetReadDeadline(time.Unix(1, 0))
	default:
	}
}
