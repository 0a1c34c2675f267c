package election

import (
	"crypto/ed25519"
	"encoding/json"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// maxReason bounds the text of a refusal between hosts.
const maxReason = 128

// Message is the payload of lease_claim and lease_release. Hosts of different
// timing must not bind each other, so every message says which it goes by.
type Message struct {
	lease.Message
	Profile cluster.Profile `json:"profile"`
}

// decode reads the payload of a lease message.
func decode(kind wire.Type, raw json.RawMessage) (Message, error) {
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
	}
	if m.Term == 0 {
		return m, wire.Refuse(wire.ReasonTerm, "%s without a term", kind)
	}
	if err := m.Validate(); err != nil {
		return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
	}
	if (m.Phase == lease.ReleaseTerm) != (kind == wire.TypeLeaseRelease) {
		return m, wire.Refuse(wire.ReasonPayload, "%s in %s", m.Phase, kind)
	}
	if len(m.Reason) > maxReason {
		return m, wire.Refuse(wire.ReasonPayload, "%s: reason of %d bytes", kind, len(m.Reason))
	}
	ids := []cluster.NodeID{m.Holder, m.Successor}
	if r := m.Released; r != nil {
		if r.Term == 0 || r.Term > wire.MaxNumber || r.Holder == "" || len(r.Proof) != ed25519.SignatureSize {
			return m, wire.Refuse(wire.ReasonPayload, "%s: release without term, holder or proof", kind)
		}
		ids = append(ids, r.Holder, r.Successor)
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		if _, err := cluster.ParseNodeID(string(id)); err != nil {
			return m, wire.Refuse(wire.ReasonPayload, "%s: %v", kind, err)
		}
	}
	return m, nil
}
