package topo

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
)

// KeyLen is the length of a WireGuard key in bytes.
const KeyLen = 32

// Key is a WireGuard public key (Curve25519).
type Key [KeyLen]byte

// ErrKey is wrapped by errors about unusable keys.
var ErrKey = errors.New("invalid wireguard key")

// KeyFrom copies a key from b, which must be KeyLen bytes and not all zero.
func KeyFrom(b []byte) (Key, error) {
	var k Key
	if len(b) != KeyLen {
		return k, fmt.Errorf("%w: %d bytes, want %d", ErrKey, len(b), KeyLen)
	}
	copy(k[:], b)
	if k.IsZero() {
		return k, fmt.Errorf("%w: all zero", ErrKey)
	}
	return k, nil
}

// ParseKey reads the base64 form.
func ParseKey(s string) (Key, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return Key{}, fmt.Errorf("%w: not base64", ErrKey)
	}
	return KeyFrom(b)
}

// String returns the base64 form, as the wg tool prints it.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(b []byte) error {
	p, err := ParseKey(string(b))
	if err != nil {
		return err
	}
	*k = p
	return nil
}

// IsZero reports the all-zero key, which stands for "none".
func (k Key) IsZero() bool { return k == Key{} }

// Less orders keys by their bytes.
func (k Key) Less(o Key) bool { return bytes.Compare(k[:], o[:]) < 0 }

// Initiates reports whether the host with key own is the one of the pair that
// starts handshakes: the lower key does. If both start together, both answers
// are thrown away and both try again 5 s later, often to collide again.
func Initiates(own, peer Key) bool { return own.Less(peer) }

func compareKeys(a, b Key) int { return bytes.Compare(a[:], b[:]) }

// PublicKey returns the public key that belongs to a private one.
func PublicKey(private [KeyLen]byte) (Key, error) {
	k, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return Key{}, fmt.Errorf("wireguard private key: %w", err)
	}
	return KeyFrom(k.PublicKey().Bytes())
}
