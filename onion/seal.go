package onion

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/sha512"
	"errors"
	"fmt"

	"filippo.io/edwards25519"

	"github.com/skein-project/skein/publisher/descriptor"
)

// Keys of onion addresses travel sealed to the identity key of the host that
// they are for, inside the stream that is encrypted to it already: whoever
// records the bytes of a stream does not hold the key. HPKE wants
// an X25519 key, which an Ed25519 key has as its twin.
const sealDomain = "skein/onion-key/1\n"

var errSealed = errors.New("sealed key cannot be opened")

// Seal seals the key of an address to a member's identity key.
func Seal(k descriptor.SecretKey, to ed25519.PublicKey) ([]byte, error) {
	point, err := new(edwards25519.Point).SetBytes(to)
	if err != nil {
		return nil, fmt.Errorf("seal onion key: identity key: %w", err)
	}
	twin, err := ecdh.X25519().NewPublicKey(point.BytesMontgomery())
	if err != nil {
		return nil, fmt.Errorf("seal onion key: identity key: %w", err)
	}
	pub, err := hpke.NewDHKEMPublicKey(twin)
	if err != nil {
		return nil, fmt.Errorf("seal onion key: %w", err)
	}
	sealed, err := hpke.Seal(pub, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo(k.Address(), to), k.File())
	if err != nil {
		return nil, fmt.Errorf("seal onion key: %w", err)
	}
	return sealed, nil
}

// openKey opens what was sealed to the owner of the identity key. The key must
// be that of the address.
func openKey(a descriptor.Address, sealed []byte, own ed25519.PrivateKey) (descriptor.SecretKey, error) {
	var zero descriptor.SecretKey
	h := sha512.Sum512(own.Seed())
	scalar := h[:32]
	scalar[0] &= 248
	scalar[31] = scalar[31]&63 | 64
	twin, err := ecdh.X25519().NewPrivateKey(scalar)
	if err != nil {
		return zero, fmt.Errorf("open onion key: %w", err)
	}
	priv, err := hpke.NewDHKEMPrivateKey(twin)
	if err != nil {
		return zero, fmt.Errorf("open onion key: %w", err)
	}
	pub, _ := own.Public().(ed25519.PublicKey)
	file, err := hpke.Open(priv, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo(a, pub), sealed)
	if err != nil {
		return zero, errSealed
	}
	k, err := descriptor.ParseSecretKey(file)
	if err != nil {
		return zero, fmt.Errorf("open onion key: %w", err)
	}
	if k.Address() != a {
		return zero, fmt.Errorf("%w: it is that of another address", errSealed)
	}
	return k, nil
}

func sealInfo(a descriptor.Address, to ed25519.PublicKey) []byte {
	return append(append([]byte(sealDomain), a[:]...), to...)
}
