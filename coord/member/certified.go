package member

import (
	"crypto/ed25519"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Certified returns the identity keys that the root key certifies, or a sponsor that it
// certifies, by host: whatever was revoked or has expired since. Other certificates say
// nothing here.
func (v Verifier) Certified(certs []Signed) map[cluster.NodeID][]ed25519.PublicKey {
	out := map[cluster.NodeID][]ed25519.PublicKey{}
	var sponsors []ed25519.PublicKey
	take := func(bySponsors bool) {
		for _, s := range certs {
			c, err := ParseCert(s)
			if err != nil || c.Cluster != v.Cluster || !s.signedBy(certDomain, c.Issuer) {
				continue
			}
			if c.Issuer.Equal(v.RootPub) == bySponsors || bySponsors && !slices.ContainsFunc(sponsors, func(k ed25519.PublicKey) bool { return k.Equal(c.Issuer) }) {
				continue
			}
			out[c.Node] = append(out[c.Node], c.IDPub)
			if c.Sponsor() && !bySponsors { // a sponsor cannot make sponsors
				sponsors = append(sponsors, c.IDPub)
			}
		}
	}
	take(false)
	take(true)
	return out
}
