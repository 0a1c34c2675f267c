package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Limits and fixed durations.
const (
	// LiveFor is how long a session may carry data after its handshake. A
	// peer whose last handshake is younger is live.
	LiveFor = 180 * time.Second
	// RepeatEvery is how often a device repeats an unanswered handshake by
	// itself.
	RepeatEvery = 5 * time.Second
	// Never is the Age of a peer without a handshake so far.
	Never = time.Duration(-1)
	// NATKeepalive is the interval that keeps a NAT mapping open.
	NATKeepalive = 25 * time.Second
	// MaxEndpoints bounds the endpoint candidates of one peer.
	MaxEndpoints = 5
	// MaxPeers bounds the peers of one device.
	MaxPeers = 4096
	// MinMTU is what IPv6 asks for; MaxMTU fits a jumbo frame.
	MinMTU = 1280
	MaxMTU = 8920
	// DefaultMTU fits a 1500-byte underlay over IPv6.
	DefaultMTU = 1420
)

// Desired is a device as it should be.
type Desired struct {
	Key   Key            // own public key
	Port  uint16         // UDP port of the underlay
	MTU   int            // inside the mesh
	Addrs []netip.Prefix // own mesh addresses, host prefixes
	Peers []Peer         // the order decides between peers that want the same prefix
}

// Peer is a peer as it should be.
type Peer struct {
	Node    cluster.NodeID // for people; the device knows only keys
	Key     Key
	Allowed []netip.Prefix // host prefixes
	// Endpoints are candidates, the first one is tried first.
	Endpoints []netip.AddrPort
	// Keepalive is 0 unless one side is behind NAT. Diff switches it on
	// after the first handshake.
	Keepalive time.Duration
	// Next is the key that the peer has announced to change to, zero for none.
	// The device gets it as a peer without addresses, so that the host can
	// change at any time; once it has shown a handshake with that key, that
	// is the peer, and Key is removed.
	Next Key
	// Follows marks a peer that Resolve has made of a Next: the key that it is
	// going to replace. Callers leave it zero.
	Follows Key
}

// Observed is a device as it is.
type Observed struct {
	Port  uint16
	MTU   int
	Addrs []netip.Prefix
	Peers []ObservedPeer
}

// ObservedPeer is a peer as the device knows it.
type ObservedPeer struct {
	Key       Key
	Allowed   []netip.Prefix
	Endpoint  netip.AddrPort // zero if none
	Keepalive time.Duration
	// Age is the time since the last handshake, Never if there was none.
	Age time.Duration
	// Rx and Tx count bytes on the underlay.
	Rx, Tx uint64
}

// PeerReading is what a device says of a peer. It has no age: only who
// remembers when the stamp changed can tell that without trusting the wall
// clock.
type PeerReading struct {
	ObservedPeer
	Handshake int64 // wall time of the last one in ns, 0 for never
}

// Live reports whether the peer's session can carry data.
func (p ObservedPeer) Live() bool { return p.Age >= 0 && p.Age < LiveFor }

// ErrDesired is wrapped by every error of Desired.Validate.
var ErrDesired = errors.New("invalid device")

// Validate reports the first reason why d cannot describe a device. What one
// peer asks for too much is not an error here: Diff refuses it.
func (d Desired) Validate() error {
	switch {
	case d.Key.IsZero():
		return fmt.Errorf("%w: own key missing", ErrDesired)
	case d.MTU < MinMTU || d.MTU > MaxMTU:
		return fmt.Errorf("%w: mtu is %d, want %d-%d", ErrDesired, d.MTU, MinMTU, MaxMTU)
	case len(d.Addrs) == 0:
		return fmt.Errorf("%w: no address", ErrDesired)
	case len(d.Peers) > MaxPeers:
		return fmt.Errorf("%w: %d peers, at most %d are allowed", ErrDesired, len(d.Peers), MaxPeers)
	}
	for _, a := range d.Addrs {
		if !hostPrefix(a) {
			return fmt.Errorf("%w: address %s is not a single unicast address", ErrDesired, a)
		}
	}
	return nil
}

// hostPrefix reports whether p is one usable address, /32 or /128.
func hostPrefix(p netip.Prefix) bool {
	a := p.Addr()
	return p.IsValid() && p.IsSingleIP() && !a.Is4In6() && a.Zone() == "" &&
		!a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback()
}

// HostPrefix is the prefix of exactly a.
func HostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
