package mesh

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.zx2c4.com/wireguard/conn"
	wg "golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/skein-project/skein/mesh/topo"
)

// closeTimeout bounds the close of a device.
const closeTimeout = 5 * time.Second

// answerTime is how long the device may take to work on an answer to a
// handshake.
const answerTime = 250 * time.Millisecond

// goDevice is wireguard-go: what the TUN and the netstack backend have in
// common. Who embeds it looks after addresses and MTU.
type goDevice struct {
	gate *gate
	dev  *wg.Device
	hint chan struct{}
	port uint16 // last port that worked
	// places are the endpoints of the last reading, for the owner only.
	places map[topo.Key]netip.AddrPort

	mu sync.Mutex
	// answered is when an answer to a handshake last came from an address. It
	// is emptied when full: strangers can fill it.
	answered map[netip.AddrPort]time.Time
}

func newGoDevice(g *gate) *goDevice {
	return &goDevice{gate: g, hint: make(chan struct{}, 1), answered: map[netip.AddrPort]time.Time{}}
}

// start runs WireGuard between t and bind. After an error both are closed.
func (d *goDevice) start(t tun.Device, bind conn.Bind, o Options) error {
	d.dev = wg.NewDevice(t, bind, wireguardLogger(o.Logger))
	if err := d.configure(o); err != nil {
		d.dev.Close()
		return err
	}
	return nil
}

func (d *goDevice) configure(o Options) error {
	if err := d.setPrivateKey(o.PrivateKey); err != nil {
		return err
	}
	err := d.dev.IpcSet(fmt.Sprintf("listen_port=%d\n", o.Listen.Port()))
	if err == nil {
		err = d.dev.Up()
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, portError(err))
	}
	r, err := d.observe()
	d.port = r.port
	return err
}

// setPrivateKey changes the device's key; every session ends.
func (d *goDevice) setPrivateKey(key [topo.KeyLen]byte) error {
	if err := d.dev.IpcSet("private_key=" + hex.EncodeToString(key[:]) + "\n"); err != nil {
		return fmt.Errorf("set private key: %w", err)
	}
	return nil
}

// portError adds ErrPortInUse to what a device says of a taken port: the
// kernel and wireguard-go report it at different times and in other words.
func portError(err error) error {
	var coded *wg.IPCError
	if errors.Is(err, syscall.EADDRINUSE) ||
		errors.As(err, &coded) && coded.ErrorCode() == ipc.IpcErrorPortInUse {
		return fmt.Errorf("%w: %w", ErrPortInUse, err)
	}
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

func (d *goDevice) hintNow(from netip.AddrPort, packet []byte) {
	if packet[0] == wg.MessageResponseType {
		d.mu.Lock()
		if len(d.answered) >= maxEndpointCache {
			clear(d.answered)
		}
		d.answered[from] = time.Now()
		d.mu.Unlock()
	}
	select {
	case d.hint <- struct{}{}:
	default:
	}
}

func (d *goDevice) apply(op topo.Op) error {
	var err error
	if o, ok := op.(topo.SetPort); ok {
		err = d.setPort(o)
	} else {
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
func (d *goDevice) setPort(op topo.SetPort) error {
	text, _ := uapiText(op)
	err := d.dev.IpcSet(text)
	if err == nil {
		d.port = op.Port
		return nil
	}
	back, _ := uapiText(topo.SetPort{Port: d.port})
	if e := d.dev.IpcSet(back); e != nil {
		return errors.Join(portError(err), fmt.Errorf("back to port %d: %w", d.port, e))
	}
	return portError(err)
}

// observe reads everything but addresses and MTU.
func (d *goDevice) observe() (reading, error) {
	text, err := d.dev.IpcGet()
	if err != nil {
		return reading{}, fmt.Errorf("read device: %w", err)
	}
	r, err := parseUAPI(text)
	d.places = make(map[topo.Key]netip.AddrPort, len(r.peers))
	for _, p := range r.peers {
		d.places[p.Key] = p.Endpoint
	}
	return r, err
}

// answering reports whether an answer of the peer may be on its way through
// the device. To give up a handshake at that moment would mix it with the next
// one: the device does not look again after it has checked an answer, and
// builds a session from the keys of the old handshake under the index of the
// new, in which it hears nothing.
func (d *goDevice) answering(key topo.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.answered[unmapPort(d.places[key])]
	return ok && time.Since(at) < answerTime
}

func (d *goDevice) handshake(key topo.Key, force bool) error {
	p := d.dev.LookupPeer(wg.NoisePublicKey(key))
	if p == nil {
		return fmt.Errorf("handshake with %s: no such peer", key)
	}
	if force && d.answering(key) {
		return nil // it is tried again if nothing comes of the answer
	}
	if force {
		p.ExpireCurrentKeypairs()
	}
	if err := p.SendHandshakeInitiation(false); err != nil {
		return fmt.Errorf("handshake with %s: %w", key, err)
	}
	return nil
}

func (d *goDevice) hold(key topo.Key, addrs []netip.Addr, on bool) {
	if on {
		d.gate.close(key, addrs)
	} else {
		d.gate.open(key)
	}
}

func (d *goDevice) firm(key topo.Key)      { d.gate.firm(key) }
func (d *goDevice) forget(key topo.Key)    { d.gate.forget(key) }
func (d *goDevice) counters() counters     { return d.gate.counters() }
func (d *goDevice) hints() <-chan struct{} { return d.hint }
func (d *goDevice) done() <-chan struct{}  { return d.dev.Wait() }

// close stops the device and waits for its goroutines.
func (d *goDevice) close() error {
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
