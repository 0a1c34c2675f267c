package member

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

// LastSerial is the highest serial number of a certificate that issuer signed, 0
// for none.
func (rs Records) LastSerial(issuer ed25519.PublicKey) (last uint64) {
	for _, s := range rs.Certs {
		if c, err := ParseCert(s); err == nil && c.Issuer.Equal(issuer) {
			last = max(last, c.Serial)
		}
	}
	return last
}

// Contradiction says in what the keys that a host takes for its own differ from what
// the records say of it; empty: in nothing that can be known.
func (rs Records) Contradiction(v Verifier, node cluster.NodeID, idPub ed25519.PublicKey, wgPub [32]byte) string {
	named := false
	for _, s := range rs.Certs {
		c, err := ParseCert(s)
		switch {
		case err != nil:
		case !c.IDPub.Equal(idPub):
			named = named || c.Node == node
		case c.Node != node:
			return fmt.Sprintf("its key is certified as %s, its name is %s", c.Node, node)
		case c.Cluster != v.Cluster:
			return "its key is certified in another cluster"
		case !rs.verifiedBy(v):
			return "its root key verifies none of the membership records"
		default:
			return rs.otherWGKey(idPub, wgPub)
		}
	}
	if named {
		return fmt.Sprintf("%s has another key in the membership records", node)
	}
	return ""
}

func (rs Records) verifiedBy(v Verifier) bool {
	t := NewTable(v)
	_, _ = t.Restore(rs, time.Unix(0, 0)) // nothing ends as of then; what is refused is left out
	return len(t.Members()) > 0 || len(t.Retired()) > 0
}

func (rs Records) otherWGKey(idPub ed25519.PublicKey, wgPub [32]byte) string {
	for _, s := range rs.Anns {
		if a, err := ParseAnn(s); err == nil && a.IDPub.Equal(idPub) && a.WGPub != wgPub && a.Next != wgPub {
			return "its WireGuard key is not the one that it announced"
		}
	}
	return ""
}
