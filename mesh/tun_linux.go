package mesh

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/skein-project/skein/mesh/topo"
)

const cloneDevice = "/dev/net/tun"

// tunDevice is WireGuard in this process behind a network interface. The
// interface goes away with the process.
type tunDevice struct {
	*goDevice
	*hostLink
	*hostSockets
	tun     *gatedTUN
	control *controlSocket // nil where its directory is not writable
}

func openTUN(o Options) (opened, error) {
	l, err := openHost(o)
	if err != nil {
		return nil, err
	}
	t, err := l.createTUN(o)
	if err != nil {
		l.close()
		return nil, err
	}
	d := &tunDevice{goDevice: newGoDevice(t.gate), hostLink: l, hostSockets: newHostSockets(o.Interface), tun: t}
	if err := d.start(t, d.bindFor(o), o); err != nil {
		l.close()
		return nil, err
	}
	if err := errors.Join(l.mark(), l.up()); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if d.control, err = serveControl(o.Interface, d.dev); err != nil {
		d.log.Info().Err(err).Msg("no control socket for wg show")
	}
	return d, nil
}

// bindFor is the underlay. The stock Bind sends and receives many packets at
// a time but listens on all addresses.
func (d *tunDevice) bindFor(o Options) conn.Bind {
	switch {
	case o.bind != nil:
		return o.bind
	case o.Listen.Addr().IsUnspecified():
		return hintBind{Bind: conn.NewDefaultBind(), hint: d.hintNow}
	}
	return newBatchBind(o.Listen.Addr(), d.hintNow)
}

// createTUN creates the interface; one of this name must not exist.
func (l *hostLink) createTUN(o Options) (*gatedTUN, error) {
	switch err := l.find(o.Interface); {
	case err == nil:
		return nil, fmt.Errorf("%w: %s of type %s exists",
			ErrForeign, o.Interface, l.link.Type())
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
	t := newGatedTUN(native, newGate())
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
		return nil, fmt.Errorf("%w: open %s: %w", ErrUnsupported, cloneDevice, err)
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
			return nil, fmt.Errorf("%w: %w", ErrForeign, err)
		}
		return nil, linkError(err)
	}
	return os.NewFile(uintptr(fd), cloneDevice), nil
}

func (*tunDevice) backend() string { return BackendTUN }
func (d *tunDevice) iface() string { return d.name() }

func (d *tunDevice) apply(op topo.Op) error {
	if mine, err := d.hostLink.apply(op); mine {
		return err
	}
	return d.goDevice.apply(op)
}

func (d *tunDevice) observe() (reading, error) {
	r, err := d.goDevice.observe()
	if err != nil {
		return reading{}, err
	}
	return r, d.hostLink.observe(&r)
}

func (d *tunDevice) hold(key topo.Key, addrs []netip.Addr, on bool) {
	d.goDevice.hold(key, addrs, on)
	d.tun.wake()
}

func (d *tunDevice) counters() counters {
	c := d.goDevice.counters()
	c.dropped += d.lost.Load()
	return c
}

// close stops the device; the interface is gone when it returns.
func (d *tunDevice) close() error {
	d.closeAll()
	err := d.control.close()
	err = errors.Join(err, d.goDevice.close())
	d.hostLink.close()
	return err
}

// gatedTUN holds packets for peers without a session and passes whole batches
// otherwise.
type gatedTUN struct {
	tun.Device
	gate *gate
	// events has room for one change of the MTU; more are dropped, since the
	// device reads the MTU itself. Closed by its goroutine, which ends with
	// the events of the inner device.
	events chan tun.Event
}

func newGatedTUN(inner tun.Device, g *gate) *gatedTUN {
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
		if n := t.gate.take(bufs, sizes, offset); n > 0 {
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
		if n = t.gate.filter(bufs[:n], sizes, offset); n > 0 || err != nil {
			return n, err
		}
	}
}

// Write gives the interface packets that came from peers.
func (t *gatedTUN) Write(bufs [][]byte, offset int) (int, error) {
	for _, b := range bufs {
		t.gate.heard(b[offset:])
	}
	t.wake()
	return t.Device.Write(bufs, offset)
}

// wake makes Read look for packets that were let go.
func (t *gatedTUN) wake() {
	select {
	case <-t.gate.opened:
		// It fails only when the device is closed.
		_ = t.File().SetReadDeadline(past())
	default:
	}
}

// take fills bufs with packets that were let go.
func (g *gate) take(bufs [][]byte, sizes []int, offset int) int {
	n := 0
	for n < len(bufs) {
		p := g.next()
		if p == nil {
			break
		}
		if len(p) <= len(bufs[n])-offset {
			sizes[n] = copy(bufs[n][offset:], p)
			n++
		}
	}
	return n
}

// filter keeps back those packets of a batch that must wait, and leaves a
// size of 0 for them. If others were let go meanwhile, the whole batch goes
// behind those and 0 is returned.
func (g *gate) filter(bufs [][]byte, sizes []int, offset int) int {
	if g.closed.Load() > 0 {
		for i, b := range bufs {
			if g.hold(b[offset : offset+sizes[i]]) {
				sizes[i] = 0
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.released) == 0 {
		return len(bufs)
	}
	for i, b := range bufs {
		if sizes[i] > 0 {
			g.released = append(g.released, bytes.Clone(b[offset:offset+sizes[i]]))
		}
	}
	return 0
}

// hintBind adds hints of finished handshakes to a Bind.
type hintBind struct {
	conn.Bind
	hint hintFunc
}

// Open implements conn.Bind.
func (b hintBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	fns, port, err := b.Bind.Open(port)
	for i, receive := range fns {
		fns[i] = func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
			n, err := receive(packets, sizes, eps)
			for j := range n {
				if p := packets[j][:sizes[j]]; mayFinishHandshake(p) {
					var from netip.AddrPort
					if ep, ok := eps[j].(*conn.StdNetEndpoint); ok {
						from = unmapPort(ep.AddrPort)
					}
					b.hint(from, p)
				}
			}
			return n, err
		}
	}
	return fns, port, err
}
