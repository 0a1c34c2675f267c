package descriptor

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"io"

	"filippo.io/edwards25519"
)

// SecretKey is the identity key of an onion service in tor's expanded form:
// the clamped scalar, then the prefix that makes nonces. It prints as
// [redacted] in every format.
type SecretKey struct{ raw [64]byte }

const (
	secretHead = "== ed25519v1-secret: type0 ==\x00\x00\x00"
	publicHead = "== ed25519v1-public: type0 ==\x00\x00\x00"
)

// NewSecretKey makes the key that belongs to a seed, which must come from a
// good random source.
func NewSecretKey(seed [32]byte) SecretKey {
	k := SecretKey{raw: sha512.Sum512(seed[:])}
	clamp(k.raw[:32])
	return k
}

// ParseSecretKey reads tor's hs_ed25519_secret_key.
func ParseSecretKey(file []byte) (SecretKey, error) {
	raw, ok := bytes.CutPrefix(file, []byte(secretHead))
	if !ok {
		return SecretKey{}, fmt.Errorf("%w: no secret key file of tor, the first 32 bytes are different", ErrKey)
	}
	if len(raw) != 64 {
		return SecretKey{}, fmt.Errorf("%w: secret key file of %d bytes, need %d", ErrKey, len(file), len(secretHead)+64)
	}
	var k SecretKey
	copy(k.raw[:], raw)
	clamped := k.raw
	clamp(clamped[:32])
	if clamped != k.raw {
		return SecretKey{}, fmt.Errorf("%w: secret key is not clamped", ErrKey)
	}
	return k, nil
}

// File returns the content of hs_ed25519_secret_key.
func (k SecretKey) File() []byte { return append([]byte(secretHead), k.raw[:]...) }

// ParsePublicKey reads tor's hs_ed25519_public_key.
func ParsePublicKey(file []byte) (Address, error) {
	raw, ok := bytes.CutPrefix(file, []byte(publicHead))
	if !ok || len(raw) != 32 {
		return Address{}, fmt.Errorf("%w: no public key file of tor", ErrKey)
	}
	var a Address
	copy(a[:], raw)
	return a, a.validate()
}

// PublicFile returns the content of hs_ed25519_public_key.
func (a Address) PublicFile() []byte { return append([]byte(publicHead), a[:]...) }

// Address returns the address that the key is the secret of.
func (k SecretKey) Address() (a Address) {
	copy(a[:], new(edwards25519.Point).ScalarBaseMult(k.scalar()).Bytes())
	return a
}

// IsZero reports whether no key was set.
func (k SecretKey) IsZero() bool { return k.raw == [64]byte{} }

func (k SecretKey) scalar() *edwards25519.Scalar { return clampedScalar(k.raw[:32]) }
func (k SecretKey) prefix() []byte               { return k.raw[32:] }

const redacted = "[redacted]"

// String hides the key.
func (SecretKey) String() string { return redacted }

// Format hides the key from every verb.
func (SecretKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText hides the key from encoders.
func (SecretKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func clamp(s []byte) {
	s[0] &= 248
	s[31] &= 63
	s[31] |= 64
}

// clampedScalar reads 32 bytes as tor does: clamped, then modulo the order of
// the group. Nothing may be lost, since every point here has prime order.
func clampedScalar(b []byte) *edwards25519.Scalar {
	s, err := new(edwards25519.Scalar).SetBytesWithClamping(b)
	if err != nil {
		panic("descriptor: scalar of the wrong length: " + err.Error())
	}
	return s
}
