package token

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
)

// InviteeClient derives the key of a newcomer, see OnionKey.
const InviteeClient = "skein/onion-invitee/1\n"

// OnionClient returns the key with which a newcomer reads the descriptor of the
// sponsor's own onion service.
func (t Token) OnionClient() *ecdh.PrivateKey { return OnionKey(t.Secret, InviteeClient) }

// OnionKey derives a key for the descriptors of onion services that are
// restricted (client authorization, rend-spec-v3). It lets nobody infer the
// secret.
func OnionKey(secret Secret, info string) *ecdh.PrivateKey {
	raw, err := hkdf.Key(sha256.New, secret.Bytes(), nil, info, 32)
	if err != nil { // too long
		panic("token: derive onion client key: " + err.Error())
	}
	key, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil { // any 32 bytes are one
		panic("token: onion client key: " + err.Error())
	}
	return key
}
