package member

import (
	"crypto/ed25519"

	"github.com/skein-project/skein/cluster"
)

// Roster says who is a member, and who was. It is immutable.
type Roster struct {
	Members []cluster.Member
	// Retired hosts left or were removed. Their chains of the event log stay, and
	// are checked with their keys.
	Retired []Retired
}

// Roster returns the present members and those that were.
func (t *Table) Roster() Roster { return Roster{Members: t.Members(), Retired: t.Retired()} }

// Member returns the member with that id.
func (r Roster) Member(id cluster.NodeID) (cluster.Member, bool) {
	for _, m := range r.Members {
		if m.Node == id {
			return m, true
		}
	}
	return cluster.Member{}, false
}

// KeyOf returns the identity key of a host that is or was a member, nil if it is
// neither.
func (r Roster) KeyOf(id cluster.NodeID) ed25519.PublicKey {
	if m, ok := r.Member(id); ok {
		return m.IDPub
	}
	for _, m := range r.Retired {
		if m.Node == id {
			return m.Cert.IDPub
		}
	}
	return nil
}
