package membership

import (
	"crypto/ed25519"
	"slices"
	"sync/atomic"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Roster is the membership for lookups: who is a member, and who was. It is safe
// for concurrent use.
type Roster struct {
	self cluster.NodeID
	key  ed25519.PublicKey
	now  atomic.Pointer[member.Roster]
}

// NewRoster returns the roster of the host with identity id.
func NewRoster(id *join.Identity, now member.Roster) *Roster {
	r := &Roster{self: id.Node, key: id.IDPub}
	r.Update(now)
	return r
}

// Update replaces the membership.
func (r *Roster) Update(now member.Roster) { r.now.Store(&now) }

// Now returns the membership as of the last change; another one is at another
// place.
func (r *Roster) Now() *member.Roster { return r.now.Load() }

// Members returns the members as of the last change.
func (r *Roster) Members() []cluster.Member { return r.Now().Members }

// Retired returns the hosts that left or were removed.
func (r *Roster) Retired() []member.Retired { return r.Now().Retired }

// Member returns a member.
func (r *Roster) Member(id cluster.NodeID) (cluster.Member, bool) { return r.Now().Member(id) }

// Self returns this host, if it is a member.
func (r *Roster) Self() (cluster.Member, bool) { return r.Member(r.self) }

// KeyOf returns the identity key of a host that is or was a member, nil if it
// is neither.
func (r *Roster) KeyOf(id cluster.NodeID) ed25519.PublicKey { return r.Now().KeyOf(id) }

// IsRetired reports whether id left or was removed.
func (r *Roster) IsRetired(id cluster.NodeID) bool {
	return slices.ContainsFunc(r.Retired(), func(m member.Retired) bool { return m.Node == id })
}

// LeftSponsor reports whether id was a sponsor and left by its own signature.
func (r *Roster) LeftSponsor(id cluster.NodeID) bool {
	return slices.ContainsFunc(r.Retired(), func(m member.Retired) bool { return m.Node == id && m.Left && m.Cert.Sponsor() })
}

// IsSponsor reports whether id is a member that may certify others and end
// their keys.
func (r *Roster) IsSponsor(id cluster.NodeID) bool {
	m, ok := r.Member(id)
	return ok && slices.Contains(m.Caps, member.CapSponsor)
}

// Sponsors returns the members that may certify others.
func (r *Roster) Sponsors() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range r.Members() {
		if slices.Contains(m.Caps, member.CapSponsor) {
			out = append(out, m.Node)
		}
	}
	return out
}

// Gone returns why this host can no longer run: its key ended.
func (r *Roster) Gone() error {
	for _, m := range r.Retired() {
		if m.Node == r.self && m.Cert.IDPub.Equal(r.key) {
			if m.Left {
				return join.ErrLeft
			}
			return join.ErrRemoved
		}
	}
	return nil
}
