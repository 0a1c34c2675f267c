package transport

import (
	"crypto/ed25519"
	"iter"
	"maps"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

// Directory is the membership, looked up by name, address and key. It is
// immutable; the owner of the membership makes a new one with every change.
type Directory struct {
	member map[cluster.NodeID]cluster.Member
	byAddr map[netip.Addr]cluster.NodeID
	byKey  map[[ed25519.PublicKeySize]byte]cluster.NodeID
	// former are addresses of hosts that were members while this one was up.
	former map[netip.Addr]bool
}

// NewDirectory returns the Directory of members.
func NewDirectory(members []cluster.Member) *Directory {
	d := &Directory{
		member: make(map[cluster.NodeID]cluster.Member, len(members)),
		byAddr: make(map[netip.Addr]cluster.NodeID, 2*len(members)),
		byKey:  make(map[[ed25519.PublicKeySize]byte]cluster.NodeID, len(members)),
	}
	for _, m := range members {
		if len(m.IDPub) != ed25519.PublicKeySize {
			continue // the table never holds one
		}
		d.member[m.Node] = m
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

// after notes whose addresses are nobody's any more since before.
func (d *Directory) after(before *Directory) {
	d.former = make(map[netip.Addr]bool)
	for _, addrs := range []iter.Seq[netip.Addr]{maps.Keys(before.former), maps.Keys(before.byAddr)} {
		for addr := range addrs {
			if _, ok := d.byAddr[addr]; !ok && len(d.former) < member.MaxMembers {
				d.former[addr] = true
			}
		}
	}
}

// refusalLevel is how loud the refusal of a stranger at addr is: one that was a
// member until now may still have something on its way.
func (d *Directory) refusalLevel(addr netip.Addr) zerolog.Level {
	if d.former[addr.Unmap()] {
		return zerolog.DebugLevel
	}
	return zerolog.WarnLevel
}

// Member returns the member that is called node.
func (d *Directory) Member(node cluster.NodeID) (cluster.Member, bool) {
	m, ok := d.member[node]
	return m, ok
}

// At returns the member whose mesh address is addr.
func (d *Directory) At(addr netip.Addr) (cluster.NodeID, bool) {
	node, ok := d.byAddr[addr]
	return node, ok
}

// Owns reports whether node's certificate gives it addr.
func (d *Directory) Owns(node cluster.NodeID, addr netip.Addr) bool {
	at, ok := d.byAddr[addr.Unmap()]
	return ok && at == node
}

// Same reports whether node is still the host with that key.
func (d *Directory) Same(node cluster.NodeID, key ed25519.PublicKey) bool {
	m, ok := d.member[node]
	return ok && key.Equal(ed25519.PublicKey(m.IDPub))
}
