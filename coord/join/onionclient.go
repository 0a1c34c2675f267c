package join

import (
	"crypto/ecdh"
	"slices"
	"time"

	"github.com/skein-project/skein/coord/join/token"
)

// Hosts' own onion services are restricted to those whose X25519 key stands in
// their descriptor (client authorization, rend-spec-v3): members, who announce
// theirs, and newcomers, whose key sponsor and token derive from the secret of
// the invite.
const memberClient = "skein/onion-client/1\n"

// OnionClient returns the key with which this host reads the descriptors of the
// others' own onion services. It is derived from the identity key, and lets
// nobody infer that.
func (id *Identity) OnionClient() *ecdh.PrivateKey { return token.OnionKey(id.idKey, memberClient) }

// OnionClients returns the public keys of the newcomers that may come, the
// latest invite's first. A spent invite counts until its time is over: whoever
// lost the answer asks again.
func (s *Invites) OnionClients(now time.Time) [][32]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][32]byte
	for _, i := range slices.Backward(s.state.Invites) {
		if !i.Revoked && now.Before(i.Expires) {
			out = append(out, i.client)
		}
	}
	return out
}

// setClient derives what the file does not say.
func (i *inviteFile) setClient() {
	i.client = [32]byte(token.OnionKey(token.NewSecret(i.Secret), token.InviteeClient).PublicKey().Bytes())
}
