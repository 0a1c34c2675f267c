package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// Mesh answers GET /v1/mesh; peers are sorted by node.
type Mesh struct {
	Header
	MeshSummary
	// MTU is the size of packets inside the mesh, in use now; MTUAuto is set
	// when it follows the ways to the peers.
	MTU     int  `json:"mtu"`
	MTUAuto bool `json:"mtu_auto"`
	// PublicKey is the device's, base64. NextPublicKey replaces it at NextAt;
	// empty and null: no change of key is under way.
	PublicKey     string     `json:"public_key"`
	NextPublicKey string     `json:"next_public_key"`
	NextAt        *time.Time `json:"next_at"`
	// RotateError says why the last change of key since the start was given up;
	// empty: it was not.
	RotateError string `json:"rotate_error"`
	// NAT is set when the others see this host at another address than it
	// has; PublicEndpoint is where they see it, empty: not known.
	NAT            bool       `json:"nat"`
	PublicEndpoint string     `json:"public_endpoint"`
	Peers          []MeshPeer `json:"peers"`
}

// PeerState says in one word how the way to a peer is.
type PeerState string

// States of a peer.
const (
	PeerUp         PeerState = "up"         // a session is alive
	PeerConnecting PeerState = "connecting" // none yet; the candidates are tried in turn
	PeerDown       PeerState = "down"       // there was one, it ended, and the candidates are tried in turn
	PeerSilent     PeerState = "silent"     // a session is not over yet, but the host is suspect or dead
)

// MeshPeer is one peer of the WireGuard device.
type MeshPeer struct {
	Node      cluster.NodeID `json:"node"`
	Addr      string         `json:"addr"`
	Addr6     string         `json:"addr6"`
	PublicKey string         `json:"public_key"` // base64
	// NextPublicKey is the key that the peer announced, base64; empty: none.
	NextPublicKey string    `json:"next_public_key"`
	State         PeerState `json:"state"`
	// Stopped hosts said that they stop.
	Stopped  bool   `json:"stopped,omitempty"`
	Endpoint string `json:"endpoint"` // in use, empty: none yet
	// Candidates are where the peer may be, in the order of trying.
	Candidates []string `json:"candidates"`
	// Path is how the daemons' messages reach the peer: direct, onion (over its
	// onion service, while the mesh does not carry), or empty: not at all.
	Path string `json:"path"`
	// PathSeconds is the age of the last change of path; null: there was none.
	PathSeconds *float64 `json:"path_seconds"`
	Onion       string   `json:"onion"` // the peer's own onion service, empty: none
	// HandshakeSeconds is the age of the last handshake; null: never.
	HandshakeSeconds *float64 `json:"handshake_seconds"`
	ReceivedBytes    uint64   `json:"received_bytes"`
	SentBytes        uint64   `json:"sent_bytes"`
	RTTSeconds       *float64 `json:"rtt_seconds"` // null: not known, as of a host that is not heard
	// MTU is the largest packet known to reach the peer; null: not known.
	MTU *int `json:"mtu"`
	// KeepaliveSeconds is 0 where no side is behind NAT.
	KeepaliveSeconds float64 `json:"keepalive_seconds"`
}

// Rotated answers POST /v1/mesh/rotate: the change of this host's WireGuard key
// that is under way.
type Rotated struct {
	Header
	PublicKey     string `json:"public_key"`      // in use, base64
	NextPublicKey string `json:"next_public_key"` // base64
	// At is when the change takes place, or before; while no other host is known
	// to have the next key it waits until Until, and is given up then.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
}

// RemoveRequest is the body of POST /v1/members/{node}/remove.
type RemoveRequest struct {
	// Reason is printable ASCII, at most MaxRemoveReason bytes: it is part of
	// a signed record.
	Reason string `json:"reason,omitempty"`
}

// MaxRemoveReason bounds the reason of a removal, in bytes.
const MaxRemoveReason = 64

// Check returns a *Problem if the reason cannot be signed.
func (r RemoveRequest) Check() error {
	if len(r.Reason) > MaxRemoveReason {
		return Errorf(CodeInvalidRequest, "the reason has %d bytes, at most %d are allowed", len(r.Reason), MaxRemoveReason)
	}
	for _, c := range []byte(r.Reason) {
		if c < ' ' || c > '~' {
			return Errorf(CodeInvalidRequest, "the reason %q is not plain ASCII text", r.Reason)
		}
	}
	return nil
}

// Removed answers POST /v1/members/{node}/remove.
type Removed struct {
	Header
	Member cluster.NodeID `json:"member"` // who was removed
	// By is the sponsor that signed the revocation.
	By cluster.NodeID `json:"by"`
}

// Left answers POST /v1/leave: this host is no longer a member, and its daemon
// ends after the answer.
type Left struct {
	Header
	// Told are the members that have the notice; the others get it from them.
	Told []cluster.NodeID `json:"told"`
}
