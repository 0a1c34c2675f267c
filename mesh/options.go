package mesh

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.zx2c4.com/wireguard/conn"

	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/topo"
)

// DefaultInterface is the network interface of the kernel and TUN backends.
const DefaultInterface = "skein0"

// DefaultPort is the underlay UDP port of WireGuard.
const DefaultPort = 51820

// DialTimeout bounds a Dial whose context has no earlier deadline.
const DialTimeout = 15 * time.Second

// Options are what a Mesh is made of. Fields without "optional" must be set.
type Options struct {
	Backend string // one of Backends
	// AdoptKeys are further own public keys under which a kernel device is
	// taken over: those before or after a rotation that a crash interrupted.
	AdoptKeys []topo.Key
	// Interface is the name of the network interface of the kernel and TUN
	// backends; optional, DefaultInterface if empty.
	Interface string
	// Networks are the cluster's: one route each leads to that interface, and
	// none of them may overlap an address or a route that the host has.
	// Netstack needs none.
	Networks []netip.Prefix
	// PrivateKey is the device's Curve25519 key.
	PrivateKey [topo.KeyLen]byte
	// Listen is the underlay address and port. An unspecified address listens
	// on all addresses: "::" on both families, "0.0.0.0" on IPv4 only. Port 0
	// takes any free port.
	Listen netip.AddrPort
	// MTU inside the mesh until the first Set; optional, topo.DefaultMTU if 0.
	MTU int
	// Rand returns a number in [0,1) for jitter; optional.
	Rand func() float64

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // optional

	// Seams for this package's tests.
	bind    conn.Bind // underlay in memory
	udpOnly bool      // no TCP in the stack: it does not work on fake time
	naive   bool      // leave handshakes to the device and the data
}

// device is the part of the options that a device is opened with.
func (o Options) device() device.Options {
	return device.Options{
		AdoptKeys: o.AdoptKeys, Interface: o.Interface, Networks: o.Networks, PrivateKey: o.PrivateKey,
		Listen: o.Listen, MTU: o.MTU, Logger: o.Logger, Bind: o.bind, UDPOnly: o.udpOnly,
	}
}

// check reports the first option that cannot work and fills in defaults.
func (o *Options) check() error {
	if !slices.Contains(device.Backends(), o.Backend) {
		return fmt.Errorf("%w %q: this build has %s", ErrBackend, o.Backend, strings.Join(device.Backends(), ", "))
	}
	o.Interface = cmp.Or(o.Interface, DefaultInterface)
	if err := device.CheckName(o.Interface); err != nil {
		return err
	}
	for _, n := range o.Networks {
		if !n.IsValid() || n != n.Masked() || n.Bits() == 0 {
			return fmt.Errorf("network %s is not a network", n)
		}
	}
	if o.PrivateKey == [topo.KeyLen]byte{} {
		return errors.New("private key missing")
	}
	if !o.Listen.Addr().IsValid() && o.bind == nil {
		return errors.New("listen address missing")
	}
	if o.Listen.Addr().IsMulticast() {
		return fmt.Errorf("listen address %s is multicast", o.Listen.Addr())
	}
	o.MTU = cmp.Or(o.MTU, topo.DefaultMTU)
	if o.MTU < topo.MinMTU || o.MTU > topo.MaxMTU {
		return fmt.Errorf("mtu is %d, want %d-%d", o.MTU, topo.MinMTU, topo.MaxMTU)
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return nil
}
