package mesh

import (
	"crypto/ecdh"
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

	"github.com/skein-project/skein/mesh/topo"
)

// Backends of a device.
const (
	// BackendAuto takes the kernel's WireGuard, or TUN where the kernel has
	// none; never netstack, which other processes cannot use.
	BackendAuto = "auto"
	// BackendKernel is the kernel's own WireGuard. Its device outlives Run.
	BackendKernel = "kernel"
	// BackendTUN is WireGuard in this process behind an interface of the kernel.
	BackendTUN = "tun"
	// BackendNetstack is WireGuard and TCP/IP inside this process.
	BackendNetstack = "netstack"
)

// Backends lists what Options.Backend may be. Whether this machine has it
// turns out in Run.
func Backends() []string {
	return []string{BackendAuto, BackendKernel, BackendTUN, BackendNetstack}
}

// DefaultInterface is the network interface of the kernel and TUN backends.
const DefaultInterface = "skein0"

// maxInterface is the longest name that Linux takes.
const maxInterface = 15

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

// check reports the first option that cannot work and fills in defaults.
func (o *Options) check() error {
	if !slices.Contains(Backends(), o.Backend) {
		return fmt.Errorf("%w %q: this build has %s", ErrBackend, o.Backend, strings.Join(Backends(), ", "))
	}
	if o.Interface == "" {
		o.Interface = DefaultInterface
	}
	if err := checkInterface(o.Interface); err != nil {
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
	if o.MTU == 0 {
		o.MTU = topo.DefaultMTU
	}
	if o.MTU < topo.MinMTU || o.MTU > topo.MaxMTU {
		return fmt.Errorf("mtu is %d, want %d-%d", o.MTU, topo.MinMTU, topo.MaxMTU)
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return nil
}

// checkInterface reports why Linux or a shell would not take the name.
func checkInterface(name string) error {
	if len(name) > maxInterface || name == "." || name == ".." {
		return fmt.Errorf("interface name %q: at most %d characters", name, maxInterface)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_.-", c) {
			return fmt.Errorf("interface name %q: only letters, digits, '_', '.' and '-'", name)
		}
	}
	return nil
}

// PublicKey returns the public key that belongs to a private one.
func PublicKey(private [topo.KeyLen]byte) (topo.Key, error) {
	k, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return topo.Key{}, fmt.Errorf("wireguard private key: %w", err)
	}
	return topo.KeyFrom(k.PublicKey().Bytes())
}
