package device

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

// WireGuard is wireguard-go: what the TUN and the netstack backend have in
// common. Who embeds it looks after addresses and MTU.
type WireGuard struct {
	gate *Gate
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

// New is a device that holds packets in g and is not started.
func New(g *Gate) *WireGuard {
	return &WireGuard{gate: g, hint: make(chan struct{}, 1), answered: map[netip.AddrPort]time.Time{}}
}

// Start runs WireGuard between t and bind. After an error both are closed.
func (d *WireGuard) Start(t tun.Device, bind conn.Bind, o Options) error {
	d.dev = wg.NewDevice(t, bind, wireguardLogger(o.Logger))
	if err := d.configure(o); err != nil {
		d.dev.Close()
		return err
	}
	return nil
}

func (d *WireGuard) configure(o Options) error {
	if err := d.SetPrivateKey(o.PrivateKey); err != nil {
		return err
	}
	err := d.dev.IpcSet(fmt.Sprintf("listen_port=%d\n", o.Listen.Port()))
	if err == nil {
		err = d.dev.Up()
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, PortError(err))
	}
	r, err := d.Observe()
	d.port = r.Port
	return err
}

// SetPrivateKey changes the device's key; every session ends.
func (d *WireGuard) SetPrivateKey(key [topo.KeyLen]byte) error {
	if err := d.dev.IpcSet("private_key=" + hex.EncodeToString(key[:]) + "\n"); err != nil {
		return fmt.Errorf("set private key: %w", err)
	}
	return nil
}

// PortError adds ErrPortInUse to what a device says of a taken port: the
// kernel and wireguard-go report it at different times and in other words.
func PortError(err error) error {
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

// HintNow takes in a packet that may finish a handshake; see HintFunc.
func (d *WireGuard) HintNow(from netip.AddrPort, packet []byte) {
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

// Apply implements Device.
func (d *WireGuard) Apply(op topo.Op) error {
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
func (d *WireGuard) setPort(op topo.SetPort) error {
	text, _ := uapiText(op)
	err := d.dev.IpcSet(text)
	if err == nil {
		d.port = op.Port
		return nil
	}
	back, _ := uapiText(topo.SetPort{Port: d.port})
	if e := d.dev.IpcSet(back); e != nil {
		return errors.Join(PortError(err), fmt.Errorf("back to port %d: %w", d.port, e))
	}
	return PortError(err)
}

// Observe reads everything but addresses and MTU.
func (d *WireGuard) Observe() (Reading, error) {
	text, err := d.dev.IpcGet()
	if err != nil {
		return Reading{}, fmt.Errorf("read device: %w", err)
	}
	r, err := ParseUAPI(text)
	d.places = make(map[topo.Key]netip.AddrPort, len(r.Peers))
	for _, p := range r.Peers {
		d.places[p.Key] = p.Endpoint
	}
	return r, err
}

// answering reports whether an answer of the peer may be on its way through
// the device. To give up a handshake at that moment would mix it with the next
// one: the device does not look again after it has checked an answer, and
// builds a session from the keys of the old handshake under the index of the
// new, in which it hears nothing.
func (d *WireGuard) answering(key topo.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.answered[UnmapPort(d.places[key])]
	return ok && time.Since(at) < answerTime
}

// Handshake implements Device.
func (d *WireGuard) Handshake(key topo.Key, force bool) error {
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

// Hold implements Device.
func (d *WireGuard) Hold(key topo.Key, addrs []netip.Addr, on bool) {
	if on {
		d.gate.Close(key, addrs)
	} else {
		d.gate.Open(key)
	}
}

// Raw is the device itself.
func (d *WireGuard) Raw() *wg.Device { return d.dev }

// Firm implements Device.
func (d *WireGuard) Firm(key topo.Key) { d.gate.Firm(key) }

// Forget implements Device.
func (d *WireGuard) Forget(key topo.Key) { d.gate.Forget(key) }

// Counters implements Device.
func (d *WireGuard) Counters() Counters { return d.gate.Counters() }

// Hints implements Device.
func (d *WireGuard) Hints() <-chan struct{} { return d.hint }

// Done implements Device.
func (d *WireGuard) Done() <-chan struct{} { return d.dev.Wait() }

// Close stops the device and waits for its goroutines.
func (d *WireGuard) Close() error {
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
