package device

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

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

// Options are what a device is opened with. All but AdoptKeys and the
// seams for tests must be set; a device without an interface ignores Interface
// and Networks.
type Options struct {
	// AdoptKeys are further own public keys under which a kernel device is
	// taken over.
	AdoptKeys []topo.Key
	// Interface is the name of the network interface.
	Interface string
	// Networks are routed to that interface; none of them may overlap an
	// address or a route of the host.
	Networks []netip.Prefix
	// PrivateKey is the device's Curve25519 key.
	PrivateKey [topo.KeyLen]byte
	// Listen is the underlay address and port.
	Listen netip.AddrPort
	// MTU is the size of packets inside the mesh.
	MTU    int
	Logger zerolog.Logger

	// Seams for tests.
	Bind    conn.Bind // underlay; nil: UDP sockets of this host
	UDPOnly bool      // no TCP in the stack: it does not work on fake time
}

// Errors of opening a device, on which callers branch.
var (
	// ErrUnsupported reports a backend that this host cannot run.
	ErrUnsupported = errors.New("not supported by this host")
	// ErrPermission reports a missing right.
	ErrPermission = errors.New("not permitted: needs CAP_NET_ADMIN")
	// ErrForeign reports an interface of the wanted name that is not ours.
	ErrForeign = errors.New("interface belongs to someone else")
	// ErrOverlap reports a mesh network that this host already uses otherwise.
	ErrOverlap = errors.New("network overlap")
	// ErrPortInUse reports an underlay port that another program has.
	ErrPortInUse = errors.New("underlay port in use")
)

// maxInterface is the longest name that Linux takes.
const maxInterface = 15

// CheckName reports why Linux or a shell would not take the name.
func CheckName(name string) error {
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
