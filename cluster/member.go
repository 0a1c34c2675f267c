package cluster

import "net/netip"

// Member is the verified content of a host's records: what its sponsor
// certified (Node, IDPub, IP4, IP6, Caps) and what it announced itself.
type Member struct {
	Node  NodeID     `json:"node"`
	IDPub []byte     `json:"id_pub"` // Ed25519, 32 bytes
	IP4   netip.Addr `json:"ip4"`
	IP6   netip.Addr `json:"ip6"`
	Caps  []string   `json:"caps"`
	WGPub []byte     `json:"wg_pubkey"` // Curve25519, 32 bytes
	Epoch uint64     `json:"epoch"`     // of the announcement
	Zone  string     `json:"zone"`
	NAT   bool       `json:"nat"`
	// Priority orders candidates for the lease, lower wins. Witness hosts
	// vote and never hold.
	Priority uint32 `json:"priority"`
	Witness  bool   `json:"witness"`
	// NextWG replaces WGPub at NextAt, seconds since the Unix epoch; empty and
	// 0 if no change of key is announced.
	NextWG []byte `json:"next_wg_pubkey,omitempty"`
	NextAt int64  `json:"next_at,omitempty"`
	// CertIssued and CertExpires are seconds since the Unix epoch; 0: never
	// expires.
	CertIssued  int64 `json:"cert_issued"`
	CertExpires int64 `json:"cert_expires"`
	// Endpoints are underlay addresses of its WireGuard port, at most 4.
	Endpoints []netip.AddrPort `json:"endpoints"`
	// Onion is the address of its own onion service, 56 characters and
	// ".onion"; empty if it has none.
	Onion string `json:"onion,omitempty"`
	// OnionClient is the key with which it reads the descriptors of the others'
	// own onion services, X25519, 32 bytes; empty if it uses no tor.
	OnionClient []byte `json:"onion_client_pubkey,omitempty"`
}

// MeshAddr is where m listens inside the mesh: IPv4, or IPv6 if it has no other.
func (m *Member) MeshAddr() netip.Addr {
	if m.IP4.IsValid() {
		return m.IP4
	}
	return m.IP6
}
