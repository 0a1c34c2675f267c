package device

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/skein-project/skein/mesh/topo"
)

// Device is a WireGuard device as its owner, the goroutine of Run, uses it.
// No method waits for the network.
type Device interface {
	// Apply carries out one operation. After an error the device is as
	// Observe says, not as the operation asked.
	Apply(op topo.Op) error
	Observe() (Reading, error)
	// Handshake starts a handshake now. With force it does so even if one was
	// started less than 5 s ago, and gives that one up together with every
	// session: only for peers without a live one.
	Handshake(key topo.Key, force bool) error
	// Hold keeps packets for the addresses of key back, or lets them go. A
	// device that cannot hold packets keeps the endpoint of a peer back
	// instead, if that peer starts the handshakes, until it is let go or a
	// handshake is asked for: a peer without endpoint starts none. Observe shows
	// that endpoint all the same.
	Hold(key topo.Key, addrs []netip.Addr, on bool)
	// Firm keeps what is held for key until Hold lets it go, even if a packet
	// of that peer arrives before.
	Firm(key topo.Key)
	// Forget drops what is held for key.
	Forget(key topo.Key)
	// SetPrivateKey changes the device's own key. Its peers stay, every session
	// ends for what is sent; what others still send in theirs is read.
	SetPrivateKey(private [topo.KeyLen]byte) error
	// Backend is which of Backends this is, Iface the name of its network
	// interface, empty if it has none.
	Backend() string
	Iface() string
	// Counters since the start.
	Counters() Counters
	// Hints gets a value, capacity 1 and dropped when full, when a handshake
	// may have been finished.
	Hints() <-chan struct{}
	// Done is closed when the device stopped by itself.
	Done() <-chan struct{}
	Close() error
}

// Opened is a device with its sockets.
type Opened interface {
	Device
	Sockets
}

// Sockets are those at mesh addresses; safe for concurrent use.
type Sockets interface {
	ListenPacket(addr netip.AddrPort) (net.PacketConn, error)
	Listen(addr netip.AddrPort) (net.Listener, error)
	Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// Reading is what a device says of itself.
type Reading struct {
	Port  uint16
	MTU   int
	Addrs []netip.Prefix
	Peers []topo.PeerReading
}

// Counters of packets held for peers without a session.
type Counters struct {
	Held    uint64 // put into a queue
	Dropped uint64 // dropped from a full queue, or with its peer
}

// ErrAddrFamily is returned for addresses that the mesh cannot have.
var ErrAddrFamily = errors.New("not an IPv4 or IPv6 UDP address")

// UnmapPort is ap with an IPv4 address that was mapped into IPv6 as itself.
func UnmapPort(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
