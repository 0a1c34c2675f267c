package descriptor

import (
	"crypto/sha3"
	"encoding/base32"
	"fmt"
	"strings"

	"filippo.io/edwards25519"
)

// Address is an onion address: the Ed25519 identity key of the service.
type Address [32]byte

const (
	addressLen  = 56
	addressTail = ".onion"
)

var onionBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ParseAddress reads the 56 characters of an address, with or without .onion,
// in either case. A key that is no element of the prime-order group is refused:
// blinded it would be another key for each party.
func ParseAddress(text string) (Address, error) {
	id := strings.TrimSuffix(strings.ToLower(text), addressTail)
	if len(id) != addressLen {
		return Address{}, fmt.Errorf("%w: %d characters before .onion, need %d", ErrAddress, min(len(id), 999), addressLen)
	}
	raw, err := onionBase32.DecodeString(id)
	if err != nil || len(raw) != len(Address{})+3 { // line ends are skipped
		return Address{}, fmt.Errorf("%w: a character outside of a-z and 2-7", ErrAddress)
	}
	var a Address
	copy(a[:], raw)
	switch sum := a.checksum(); {
	case raw[34] != 3:
		return Address{}, fmt.Errorf("%w: version %d, need 3", ErrAddress, raw[34])
	case raw[32] != sum[0] || raw[33] != sum[1]:
		return Address{}, fmt.Errorf("%w: wrong checksum, a character is mistyped", ErrAddress)
	}
	if err := a.validate(); err != nil {
		return Address{}, err
	}
	return a, nil
}

// ID returns the 56 characters without .onion, the form that the control port
// of tor wants.
func (a Address) ID() string {
	sum := a.checksum()
	return onionBase32.EncodeToString(append(a[:], sum[0], sum[1], 3))
}

// String returns the address with .onion.
func (a Address) String() string { return a.ID() + addressTail }

// IsZero reports whether no address was set.
func (a Address) IsZero() bool { return a == Address{} }

// MarshalText implements encoding.TextMarshaler.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddress(string(text))
	return err
}

// Valid reports why an address that ParseAddress did not make is none.
func (a Address) Valid() error { return a.validate() }

func (a Address) checksum() [32]byte {
	return sha3.Sum256(append(append([]byte(".onion checksum"), a[:]...), 3))
}

// validate checks that the key is a point of prime order: what is multiplied
// by the cofactor and divided by it again is the same point.
func (a Address) validate() error {
	p, err := new(edwards25519.Point).SetBytes(a[:])
	if err != nil {
		return fmt.Errorf("%w: not a point of the curve", ErrAddress)
	}
	q := new(edwards25519.Point).MultByCofactor(p)
	q.ScalarMult(inverseOfCofactor(), q)
	if q.Equal(p) != 1 || p.Equal(edwards25519.NewIdentityPoint()) == 1 {
		return fmt.Errorf("%w: not a point of prime order", ErrAddress)
	}
	return nil
}

func inverseOfCofactor() *edwards25519.Scalar {
	var eight [32]byte
	eight[0] = 8
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(eight[:])
	if err != nil {
		panic("descriptor: 8 is a scalar: " + err.Error())
	}
	return s.Invert(s)
}
