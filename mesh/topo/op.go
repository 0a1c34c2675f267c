package topo

import (
	"fmt"
	"net/netip"
	"time"
)

// Op is one step on a device. The set is closed. Each is idempotent: carried
// out twice it does what it does once.
type Op interface {
	String() string
	op()
}

// SetPort moves the device to another underlay port.
type SetPort struct{ Port uint16 }

// SetMTU changes the size of packets inside the mesh.
type SetMTU struct{ MTU int }

// AddAddr gives the device a mesh address.
type AddAddr struct{ Addr netip.Prefix }

// RemoveAddr takes a mesh address from the device.
type RemoveAddr struct{ Addr netip.Prefix }

// AddPeer creates a peer without address, endpoint or keepalive.
type AddPeer struct{ Key Key }

// RemovePeer removes a peer with its session and addresses.
type RemovePeer struct{ Key Key }

// Allow routes a prefix to a peer.
type Allow struct {
	Key    Key
	Prefix netip.Prefix
}

// Disallow takes a prefix from a peer.
type Disallow struct {
	Key    Key
	Prefix netip.Prefix
}

// SetEndpoint says where a peer is on the underlay.
type SetEndpoint struct {
	Key      Key
	Endpoint netip.AddrPort
}

// SetKeepalive sets a peer's keepalive interval, 0 for none.
type SetKeepalive struct {
	Key      Key
	Interval time.Duration
}

// Replace moves prefixes from one peer to another and removes the first, all
// in one step; it creates the second if that is missing. It is how a host
// changes its key without loss.
type Replace struct {
	Old, New Key
	Allowed  []netip.Prefix
}

func (Replace) op()      {}
func (SetPort) op()      {}
func (SetMTU) op()       {}
func (AddAddr) op()      {}
func (RemoveAddr) op()   {}
func (AddPeer) op()      {}
func (RemovePeer) op()   {}
func (Allow) op()        {}
func (Disallow) op()     {}
func (SetEndpoint) op()  {}
func (SetKeepalive) op() {}

func (o SetPort) String() string     { return fmt.Sprintf("port %d", o.Port) }
func (o SetMTU) String() string      { return fmt.Sprintf("mtu %d", o.MTU) }
func (o AddAddr) String() string     { return "addr + " + o.Addr.String() }
func (o RemoveAddr) String() string  { return "addr - " + o.Addr.String() }
func (o AddPeer) String() string     { return "peer + " + o.Key.String() }
func (o RemovePeer) String() string  { return "peer - " + o.Key.String() }
func (o Allow) String() string       { return fmt.Sprintf("allow %s + %s", o.Key, o.Prefix) }
func (o Disallow) String() string    { return fmt.Sprintf("allow %s - %s", o.Key, o.Prefix) }
func (o SetEndpoint) String() string { return fmt.Sprintf("endpoint %s %s", o.Key, o.Endpoint) }
func (o Replace) String() string {
	return fmt.Sprintf("replace %s by %s with %s", o.Old, o.New, o.Allowed)
}

func (o SetKeepalive) String() string {
	return fmt.Sprintf("keepalive %s %s", o.Key, o.Interval)
}

// Refusal is a wish that Diff did not turn into Ops.
type Refusal struct {
	Key    Key
	Prefix netip.Prefix // zero if the whole peer was refused
	Owner  Key          // who keeps the prefix; zero if nobody
	Why    string
}

// String returns the refusal as a phrase for logs.
func (r Refusal) String() string {
	s := "peer " + r.Key.String()
	if r.Prefix.IsValid() {
		s += " prefix " + r.Prefix.String()
	}
	s += ": " + r.Why
	if !r.Owner.IsZero() {
		s += " " + r.Owner.String()
	}
	return s
}
