package election

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// signer signs what this host issues and checks what others did. It remembers
// the last record of each, since the same ones come again and again.
type signer struct {
	self    cluster.NodeID
	key     ed25519.PrivateKey
	cluster member.ClusterID
	keyOf   func(cluster.NodeID) (ed25519.PublicKey, bool)
	former  func(cluster.NodeID) []ed25519.PublicKey

	signed   proven // last voter configuration that this host signed
	checked  proven // last one of another that was good
	released proven // last release of this host
	heard    proven // last one of another that was good, its key before it
}

// proven is a signature over a record, made or found to be good.
type proven struct{ text, proof []byte }

// is reports whether p is that signature over that text.
func (p proven) is(text, proof []byte) bool {
	return len(proof) > 0 && bytes.Equal(proof, p.proof) && bytes.Equal(text, p.text)
}

// sign signs text, unless that was the last one.
func (p *proven) sign(key ed25519.PrivateKey, text []byte) (proof []byte) {
	if !bytes.Equal(text, p.text) {
		*p = proven{text: text, proof: ed25519.Sign(key, text)}
	}
	return p.proof
}

// ConfigBytes is what the proof of a voter configuration signs.
func ConfigBytes(id member.ClusterID, c cluster.VoterConfig) []byte {
	return append(id[:len(id):len(id)], c.SignedBytes()...)
}

// config adds the proof to a record that this host issued. One that names no
// issuer comes from this host's own disk, which it answers for.
func (s *signer) config(c *cluster.VoterConfig) {
	if c.IsZero() || len(c.Proof) > 0 {
		return
	}
	if c.Issuer == "" {
		c.Issuer = s.self
	}
	if c.Issuer != s.self {
		return
	}
	c.Proof = s.signed.sign(s.key, ConfigBytes(s.cluster, *c))
}

// checkConfig refuses a voter configuration that no holder signed: its issuer
// is a member, or was one.
func (s *signer) checkConfig(from cluster.NodeID, c cluster.VoterConfig) error {
	if c.IsZero() {
		return nil
	}
	text := ConfigBytes(s.cluster, c)
	if s.checked.is(text, c.Proof) {
		return nil
	}
	keys := s.former(c.Issuer)
	if key, ok := s.keyOf(c.Issuer); ok {
		keys = append([]ed25519.PublicKey{key}, keys...)
	}
	for _, key := range keys {
		if len(c.Proof) == ed25519.SignatureSize && ed25519.Verify(key, text, c.Proof) {
			s.checked = proven{text: text, proof: bytes.Clone(c.Proof)}
			return nil
		}
	}
	return wire.Refuse(ReasonConfigProof, "voter configuration %d/%d of %q, brought by %s", c.Term, c.Epoch, c.Issuer, from)
}

// release signs a release of this host's own term.
func (s *signer) release(r *lease.Release) *lease.Release {
	if r == nil || r.Holder != s.self {
		return r
	}
	signed := *r
	signed.Proof = s.released.sign(s.key, s.releaseBytes(signed))
	return &signed
}

// checkRelease refuses a release that its holder did not sign.
func (s *signer) checkRelease(from cluster.NodeID, r *lease.Release) error {
	if r == nil {
		return nil
	}
	key, ok := s.keyOf(r.Holder)
	text := s.releaseBytes(*r)
	known := slices.Concat(key, text)
	if ok && (s.heard.is(known, r.Proof) || r.Holder == s.self && s.released.is(text, r.Proof)) {
		return nil
	}
	if !ok || !ed25519.Verify(key, text, r.Proof) {
		return wire.Refuse(ReasonProof, "release of term %d by %s, brought by %s", r.Term, r.Holder, from)
	}
	s.heard = proven{text: known, proof: bytes.Clone(r.Proof)}
	return nil
}

// releaseBytes is what the proof of a release signs.
func (s *signer) releaseBytes(r lease.Release) []byte {
	b := append([]byte("skein/release/1\n"), s.cluster[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Term))
	for _, n := range []cluster.NodeID{r.Holder, r.Successor} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(n)))
		b = append(b, n...)
	}
	return b
}
