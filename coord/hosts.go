package coord

import (
	"crypto/ed25519"
	"time"

	"github.com/skein-project/skein/cluster"
)

// hosts is who is a member, and what the loop remembers of each. Only Members
// changes who is a member; the rest of the loop reads it.
type hosts struct {
	self    cluster.Member   // this host, as it announced itself last
	members []cluster.Member // sorted by node id, this host too; only replaced
	peers   map[cluster.NodeID]*peerState
	removed bool // this host is no longer a member: it says nothing
}

// others yields the other members, each with whether a heartbeat of it came.
func (h *hosts) others(yield func(node cluster.NodeID, spoke bool) bool) {
	for node, p := range h.peers {
		if !yield(node, p.beatAt > 0) {
			return
		}
	}
}

// know makes a member known from now on; it reports whether it was not before.
func (h *hosts) know(node cluster.NodeID, now time.Duration) bool {
	if h.peers[node] != nil {
		return false
	}
	h.peers[node] = &peerState{node: node, since: now}
	return true
}

func publicKey(k ed25519.PrivateKey) ed25519.PublicKey {
	pub, ok := k.Public().(ed25519.PublicKey)
	if !ok {
		panic("coord: an Ed25519 key without an Ed25519 public key")
	}
	return pub
}
