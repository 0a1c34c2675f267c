package mesh

import (
	"context"
	"net"
	"net/netip"

	"github.com/skein-project/skein/mesh/topo"
)

// device is a WireGuard device as its owner, the goroutine of Run, uses it.
// No method waits for the network.
type device interface {
	// apply carries out one operation. After an error the device is as
	// observe says, not as the operation asked.
	apply(op topo.Op) error
	observe() (reading, error)
	// handshake starts a handshake now. With force it does so even if one was
	// started less than 5 s ago, and gives that one up together with every
	// session: only for peers without a live one.
	handshake(key topo.Key, force bool) error
	// hold keeps packets for the addresses of key back, or lets them go. A
	// device that cannot hold packets keeps the endpoint of a peer back
	// instead, if that peer starts the handshakes, until it is let go or a
	// handshake is asked for: a peer without endpoint starts none. Its observe
	// shows that endpoint all the same.
	hold(key topo.Key, addrs []netip.Addr, on bool)
	// firm keeps what is held for key until hold lets it go, even if a packet
	// of that peer arrives before.
	firm(key topo.Key)
	// forget drops what is held for key.
	forget(key topo.Key)
	// setPrivateKey changes the device's own key. Its peers stay, every session
	// ends for what is sent; what others still send in theirs is read.
	setPrivateKey(private [topo.KeyLen]byte) error
	// backend is which of Backends this is; iface the name of its network
	// interface, empty if it has none.
	backend() string
	iface() string
	// counters since the start.
	counters() counters
	// hints gets a value, capacity 1 and dropped when full, when a handshake
	// may have been finished.
	hints() <-chan struct{}
	// done is closed when the device stopped by itself.
	done() <-chan struct{}
	close() error
}

// opened is a device with its sockets.
type opened interface {
	device
	sockets
}

// sockets are those at mesh addresses; safe for concurrent use.
type sockets interface {
	listenPacket(addr netip.AddrPort) (net.PacketConn, error)
	listen(addr netip.AddrPort) (net.Listener, error)
	dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// reading is what a device says of itself.
type reading struct {
	port  uint16
	mtu   int
	addrs []netip.Prefix
	peers []peerReading
}

// peerReading is a peer without its age: only the owner, who remembers when
// it saw the stamp change, can tell that without trusting the wall clock.
type peerReading struct {
	topo.ObservedPeer
	handshake int64 // wall time in ns, 0 for never
}

// counters of packets held for peers without a session.
type counters struct {
	held    uint64 // put into a queue
	dropped uint64 // dropped from a full queue, or with its peer
}
