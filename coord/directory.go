package coord

import (
	"crypto/ed25519"
	"net/netip"

	"github.com/skein-project/skein/cluster"
)

// directory is the membership as the reader of datagrams and the streams look
// it up. It is immutable; the loop publishes a new one with every change.
type directory struct {
	byNode map[cluster.NodeID]cluster.Member
	byAddr map[netip.Addr]cluster.NodeID
	byKey  map[[ed25519.PublicKeySize]byte]cluster.NodeID
}

func newDirectory(members []cluster.Member) *directory {
	d := &directory{
		byNode: make(map[cluster.NodeID]cluster.Member, len(members)),
		byAddr: make(map[netip.Addr]cluster.NodeID, 2*len(members)),
		byKey:  make(map[[ed25519.PublicKeySize]byte]cluster.NodeID, len(members)),
	}
	for _, m := range members {
		if len(m.IDPub) != ed25519.PublicKeySize {
			continue // the table never holds one
		}
		d.byNode[m.Node] = m
		d.byKey[[ed25519.PublicKeySize]byte(m.IDPub)] = m.Node
		if m.IP4.IsValid() {
			d.byAddr[m.IP4] = m.Node
		}
		if m.IP6.IsValid() {
			d.byAddr[m.IP6] = m.Node
		}
	}
	return d
}

// owns reports whether node's certificate gives it addr.
func (d *directory) owns(node cluster.NodeID, addr netip.Addr) bool {
	at, ok := d.byAddr[addr.Unmap()]
	return ok && at == node
}

// same reports whether node is still the host with that key.
func (d *directory) same(node cluster.NodeID, key ed25519.PublicKey) bool {
	m, ok := d.byNode[node]
	return ok && key.Equal(ed25519.PublicKey(m.IDPub))
}

// meshAddr is where m listens: IPv4, or IPv6 if it has no other.
func meshAddr(m cluster.Member) netip.Addr {
	if m.IP4.IsValid() {
		return m.IP4
	}
	return m.IP6
}
