package hostnet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// kickKeepalive is what a keepalive is set to for a moment: the kernel sends
// one at once when the interval becomes more than 0, and that takes a session.
const kickKeepalive = topo.NATKeepalive

// kernelDevice is WireGuard in the kernel. It stays when the daemon goes:
// sessions, addresses and routes carry on, and the next start takes them over.
//
// The kernel holds no packets back. Instead the endpoint of a peer that should
// start the handshake is kept from it: without one, data starts none.
type kernelDevice struct {
	*hostLink
	*hostSockets
	wg    *wgctrl.Client
	key   topo.Key // own public key
	peers map[topo.Key]*kernelPeer
	gone  chan struct{} // closed when somebody removed the interface
}

// kernelPeer is what the owner must know of a peer beyond the last reading.
type kernelPeer struct {
	topo.ObservedPeer
	// withheld keeps the endpoint from the kernel; pending is that endpoint.
	withheld bool
	pending  netip.AddrPort
	// started is when a handshake was last asked for.
	started time.Time
	// baseRx and baseTx are what the peer had counted before it was renewed.
	baseRx, baseTx uint64
}

// OpenKernel creates the interface, or takes over the one that an earlier run
// has left.
func OpenKernel(o device.Options) (device.Opened, error) {
	own, err := topo.PublicKey(o.PrivateKey)
	if err != nil {
		return nil, err
	}
	l, err := openHost(o)
	if err != nil {
		return nil, err
	}
	created, err := l.createKernel(o)
	if err != nil {
		l.Close()
		return nil, err
	}
	d := &kernelDevice{
		hostLink: l, hostSockets: newHostSockets(o.Interface), key: own,
		peers: map[topo.Key]*kernelPeer{}, gone: make(chan struct{}),
	}
	if err := d.start(o, created); err != nil {
		if created {
			err = errors.Join(err, l.nl.LinkDel(l.link))
		}
		return nil, errors.Join(err, d.Close())
	}
	if !o.Listen.Addr().IsUnspecified() {
		o.Logger.Warn().Stringer("addr", o.Listen.Addr()).Msg("kernel wireguard listens on all addresses")
	}
	return d, nil
}

// createKernel adds the interface; created is false if there is one of this
// name and type already.
func (l *hostLink) createKernel(o device.Options) (created bool, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = o.Interface, o.MTU
	err = l.nl.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	switch {
	case errors.Is(err, unix.EEXIST):
	case err != nil:
		return false, fmt.Errorf("create interface %s: %w", o.Interface, linkError(err))
	default:
		created = true
	}
	if err := l.find(o.Interface); err != nil {
		return created, err
	}
	if t := l.link.Type(); t != "wireguard" {
		return false, fmt.Errorf("%w: %s is of type %s", device.ErrForeign, o.Interface, t)
	}
	return created, nil
}

// linkError adds the sentinel for what keeps an interface from being created.
func linkError(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %w", device.ErrUnsupported, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", device.ErrPermission, err)
	}
	return err
}

func (d *kernelDevice) start(o device.Options, created bool) error {
	// Only now: the kernel may have loaded its module for the interface.
	var err error
	if d.wg, err = wgctrl.New(); err != nil {
		return fmt.Errorf("open wireguard control: %w", err)
	}
	have, err := d.wg.Device(o.Interface)
	if err != nil {
		return fmt.Errorf("read device: %w", linkError(err))
	}
	if !created {
		if err := d.adoptable(o, have); err != nil {
			return err
		}
		d.log.Info().Int("peers", len(have.Peers)).Msg("taking over the interface of an earlier run")
	}
	if err := d.mark(); err != nil {
		return err
	}
	// What is right already stays: setting a key ends all sessions.
	cfg := wgtypes.Config{}
	if topo.Key(have.PublicKey) != d.key {
		cfg.PrivateKey = (*wgtypes.Key)(&o.PrivateKey)
	}
	if port := int(o.Listen.Port()); port != 0 && port != have.ListenPort {
		cfg.ListenPort = &port
	}
	if cfg.PrivateKey != nil || cfg.ListenPort != nil {
		if err := d.wg.ConfigureDevice(o.Interface, cfg); err != nil {
			return fmt.Errorf("configure wireguard to listen on %s: %w", o.Listen, linkError(device.PortError(err)))
		}
	}
	// The kernel takes its port here.
	return d.up()
}

// adoptable reports why an existing device is not taken over.
func (d *kernelDevice) adoptable(o device.Options, have *wgtypes.Device) error {
	key := topo.Key(have.PublicKey)
	switch {
	case key == d.key || slices.Contains(o.AdoptKeys, key):
		return nil
	case have.PrivateKey == wgtypes.Key{} && len(have.Peers) == 0 && d.link.Attrs().Flags&net.FlagUp == 0:
		return nil // nobody uses it; a start that was killed leaves it so
	}
	return fmt.Errorf("%w: %s has another key", device.ErrForeign, o.Interface)
}

func (*kernelDevice) Backend() string { return device.BackendKernel }
func (d *kernelDevice) Iface() string { return d.name() }

func (d *kernelDevice) peer(key topo.Key) *kernelPeer {
	p := d.peers[key]
	if p == nil {
		p = &kernelPeer{ObservedPeer: topo.ObservedPeer{Key: key}}
		d.peers[key] = p
	}
	return p
}

// configure changes peers: always a difference, never all of them, which
// would end every session.
func (d *kernelDevice) configure(peers ...wgtypes.PeerConfig) error {
	return d.wg.ConfigureDevice(d.name(), wgtypes.Config{Peers: peers})
}

func (d *kernelDevice) Apply(op topo.Op) error {
	if mine, err := d.hostLink.Apply(op); mine {
		return err
	}
	if err := d.applyPeer(op); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (d *kernelDevice) applyPeer(op topo.Op) error {
	switch o := op.(type) {
	case topo.SetPort:
		port := int(o.Port)
		return device.PortError(d.wg.ConfigureDevice(d.name(), wgtypes.Config{ListenPort: &port}))
	case topo.AddPeer:
		return d.configure(wgtypes.PeerConfig{PublicKey: wgtypes.Key(o.Key)})
	case topo.RemovePeer:
		return d.configure(wgtypes.PeerConfig{PublicKey: wgtypes.Key(o.Key), Remove: true})
	case topo.Replace:
		// First the prefixes move, then the old key goes: no packet finds
		// neither.
		return d.configure(
			wgtypes.PeerConfig{PublicKey: wgtypes.Key(o.New), AllowedIPs: ipNets(o.Allowed)},
			wgtypes.PeerConfig{PublicKey: wgtypes.Key(o.Old), Remove: true})
	case topo.Allow:
		return d.configure(wgtypes.PeerConfig{
			PublicKey: wgtypes.Key(o.Key), UpdateOnly: true, AllowedIPs: ipNets([]netip.Prefix{o.Prefix}),
		})
	case topo.Disallow:
		return d.disallow(o)
	case topo.SetEndpoint:
		p := d.peer(o.Key)
		p.pending = o.Endpoint
		if p.withheld {
			return nil
		}
		return d.giveEndpoint(p)
	case topo.SetKeepalive:
		return d.configure(wgtypes.PeerConfig{
			PublicKey: wgtypes.Key(o.Key), UpdateOnly: true, PersistentKeepaliveInterval: &o.Interval,
		})
	}
	return errors.New("not an operation of this device")
}

// disallow gives the peer what it has but for one prefix: kernels before 6.16
// cannot take a single one.
func (d *kernelDevice) disallow(o topo.Disallow) error {
	have, err := d.wg.Device(d.name())
	if err != nil {
		return err
	}
	for _, p := range have.Peers {
		if topo.Key(p.PublicKey) != o.Key {
			continue
		}
		rest := slices.DeleteFunc(p.AllowedIPs, func(n net.IPNet) bool {
			a, ok := prefixOf(&n)
			return ok && a == o.Prefix
		})
		return d.configure(wgtypes.PeerConfig{
			PublicKey: p.PublicKey, UpdateOnly: true, ReplaceAllowedIPs: true, AllowedIPs: rest,
		})
	}
	return nil
}

func (d *kernelDevice) giveEndpoint(p *kernelPeer) error {
	if !p.pending.IsValid() {
		return nil
	}
	err := d.configure(wgtypes.PeerConfig{
		PublicKey: wgtypes.Key(p.Key), UpdateOnly: true, Endpoint: net.UDPAddrFromAddrPort(p.pending),
	})
	if err == nil {
		p.Endpoint = p.pending
	}
	p.pending = netip.AddrPort{}
	return err
}

func (d *kernelDevice) Observe() (device.Reading, error) {
	have, err := d.wg.Device(d.name())
	if err == nil {
		r := device.Reading{Port: uint16(have.ListenPort)}
		r.Peers = d.takeOver(have.Peers)
		err = d.hostLink.Observe(&r)
		if err == nil {
			return r, nil
		}
	}
	var none netlink.LinkNotFoundError
	if errors.Is(err, os.ErrNotExist) || errors.As(err, &none) {
		select {
		case <-d.gone:
		default:
			close(d.gone)
		}
	}
	return device.Reading{}, fmt.Errorf("read device: %w", err)
}

// takeOver turns the kernel's peers into readings and forgets those that are
// no more.
func (d *kernelDevice) takeOver(have []wgtypes.Peer) []topo.PeerReading {
	known := make(map[topo.Key]bool, len(have))
	out := make([]topo.PeerReading, 0, len(have))
	for _, h := range have {
		p := d.peer(topo.Key(h.PublicKey))
		known[p.Key] = true
		p.Endpoint, p.Keepalive = udpAddrPort(h.Endpoint), h.PersistentKeepaliveInterval
		p.Rx, p.Tx = p.baseRx+uint64(h.ReceiveBytes), p.baseTx+uint64(h.TransmitBytes)
		p.Allowed = make([]netip.Prefix, 0, len(h.AllowedIPs))
		for _, n := range h.AllowedIPs {
			if a, ok := prefixOf(&n); ok {
				p.Allowed = append(p.Allowed, a)
			}
		}
		r := topo.PeerReading{ObservedPeer: p.ObservedPeer}
		r.Endpoint = cmp.Or(r.Endpoint, p.pending)
		if !h.LastHandshakeTime.IsZero() {
			r.Handshake = h.LastHandshakeTime.UnixNano()
		}
		out = append(out, r)
	}
	for key, p := range d.peers {
		if !known[key] && !p.withheld {
			delete(d.peers, key)
		}
	}
	return out
}

// Handshake makes the kernel send a keepalive, for which it needs a session.
// It starts no second handshake within 5 s; force then takes the peer away and
// adds it again in the same request, which also loses its few waiting packets.
func (d *kernelDevice) Handshake(key topo.Key, force bool) error {
	p := d.peer(key)
	p.withheld = false
	recent := !p.started.IsZero() && time.Since(p.started) < topo.RepeatEvery
	p.started = time.Now()
	var (
		kick, none = kickKeepalive, time.Duration(0)
		wgKey      = wgtypes.Key(key)
	)
	on := wgtypes.PeerConfig{PublicKey: wgKey, UpdateOnly: true, PersistentKeepaliveInterval: &kick}
	off := wgtypes.PeerConfig{PublicKey: wgKey, UpdateOnly: true, PersistentKeepaliveInterval: &none}
	if p.pending.IsValid() {
		on.Endpoint = net.UDPAddrFromAddrPort(p.pending)
		p.Endpoint, p.pending = p.pending, netip.AddrPort{}
	}
	steps := []wgtypes.PeerConfig{on, off}
	if p.Keepalive != 0 {
		on.PersistentKeepaliveInterval = &p.Keepalive
		steps = []wgtypes.PeerConfig{off, on}
	}
	if force && recent {
		fresh := wgtypes.PeerConfig{PublicKey: wgKey, AllowedIPs: ipNets(p.Allowed), Endpoint: on.Endpoint}
		if fresh.Endpoint == nil && p.Endpoint.IsValid() {
			fresh.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
		}
		p.baseRx, p.baseTx = p.Rx, p.Tx
		steps = append([]wgtypes.PeerConfig{{PublicKey: wgKey, Remove: true}, fresh}, steps...)
	}
	if err := d.configure(steps...); err != nil {
		return fmt.Errorf("handshake with %s: %w", key, err)
	}
	return nil
}

func (d *kernelDevice) Hold(key topo.Key, _ []netip.Addr, on bool) {
	p := d.peer(key)
	if on {
		// A peer that has an endpoint keeps it.
		p.withheld = !p.Endpoint.IsValid() && !topo.Initiates(d.key, key)
		return
	}
	p.withheld = false
	if p.Endpoint.IsValid() {
		p.pending = netip.AddrPort{} // the kernel has learned a live one
		return
	}
	if err := d.giveEndpoint(p); err != nil {
		d.log.Debug().Err(err).Stringer("peer", key).Msg("endpoint not set")
	}
}

// Firm does nothing: the kernel holds no packets.
func (*kernelDevice) Firm(topo.Key) {}

func (d *kernelDevice) Forget(key topo.Key) { delete(d.peers, key) }

func (d *kernelDevice) SetPrivateKey(private [topo.KeyLen]byte) error {
	own, err := topo.PublicKey(private)
	if err != nil {
		return err
	}
	if err := d.wg.ConfigureDevice(d.name(), wgtypes.Config{PrivateKey: (*wgtypes.Key)(&private)}); err != nil {
		return fmt.Errorf("set private key: %w", err)
	}
	d.key = own
	return nil
}

func (d *kernelDevice) Counters() device.Counters { return device.Counters{Dropped: d.lost.Load()} }

// Hints is empty: the kernel tells nobody of a handshake. Readings follow each
// other fast enough while a peer is out of reach.
func (*kernelDevice) Hints() <-chan struct{}  { return nil }
func (d *kernelDevice) Done() <-chan struct{} { return d.gone }

// Close leaves the interface as it is: traffic continues. Cleanup removes it.
func (d *kernelDevice) Close() error {
	d.closeAll()
	d.hostLink.Close()
	if d.wg == nil {
		return nil
	}
	return d.wg.Close()
}

func ipNets(ps []netip.Prefix) []net.IPNet {
	out := make([]net.IPNet, 0, len(ps))
	for _, p := range ps {
		out = append(out, *ipNet(p))
	}
	return out
}
