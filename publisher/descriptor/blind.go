package descriptor

import (
	"crypto/sha3"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"io"

	"filippo.io/edwards25519"
)

// Period is a time period: its number and its length in minutes. Both are part
// of every key and index that belongs to it.
type Period struct{ Number, Length uint64 }

func (p Period) String() string { return fmt.Sprintf("period %d of %d min", p.Number, p.Length) }

// Blinded is the public key that stands for an address in one period. Nobody
// learns the address from it.
type Blinded [32]byte

// Subcredential is what decrypts the outer layer, for those who know the
// address.
type Subcredential [32]byte

const (
	blindString   = "Derive temporary signing key\x00"
	prefixString  = "Derive temporary signing key hash input"
	basepointText = "(15112221349535400772501151409588531511454012693041857206046113283949847762202, " +
		"46316835694926478169428394003475163141307993866256225615783033603165251855960)"
)

// Blind returns the blinded key of the address in the period. The address must
// have come from ParseAddress, ParsePublicKey or SecretKey.Address.
func (a Address) Blind(p Period) (b Blinded) {
	point, err := new(edwards25519.Point).SetBytes(a[:])
	if err != nil {
		return b // Nothing verifies or decrypts under the zero key.
	}
	copy(b[:], point.ScalarMult(a.blindingFactor(p), point).Bytes())
	return b
}

// Subcredential returns the subcredential of the address in the period.
func (a Address) Subcredential(p Period) Subcredential {
	credential := sum3([]byte("credential"), a[:])
	blinded := a.Blind(p)
	return Subcredential(sum3([]byte("subcredential"), credential[:], blinded[:]))
}

func (a Address) blindingFactor(p Period) *edwards25519.Scalar {
	h := sum3([]byte(blindString), a[:], []byte(basepointText), []byte("key-blind"), int8s(p.Number, p.Length))
	return clampedScalar(h[:])
}

// blindedSecret signs for a Blinded.
type blindedSecret struct {
	scalar *edwards25519.Scalar
	prefix []byte
	public Blinded
}

func (k SecretKey) blind(p Period) blindedSecret {
	a := k.Address()
	prefix := sha512.Sum512(append([]byte(prefixString), k.prefix()...))
	return blindedSecret{
		scalar: new(edwards25519.Scalar).Multiply(a.blindingFactor(p), k.scalar()),
		prefix: prefix[:32],
		public: a.Blind(p),
	}
}

// Sign makes an Ed25519 signature by the address's key itself, which signs
// nothing else in tor's protocol. The message must begin with a domain.
func (k SecretKey) Sign(message []byte) []byte {
	return blindedSecret{scalar: k.scalar(), prefix: k.prefix(), public: Blinded(k.Address())}.sign(message)
}

// Format hides the key from every verb.
func (blindedSecret) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// sign makes an ordinary Ed25519 signature. The standard library signs only
// with keys that come from a seed, which a blinded key has not.
func (b blindedSecret) sign(message []byte) []byte {
	r := reduced(b.prefix, message)
	point := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
	k := reduced(point, b.public[:], message)
	s := new(edwards25519.Scalar).MultiplyAdd(k, b.scalar, r)
	return append(point, s.Bytes()...)
}

func reduced(parts ...[]byte) *edwards25519.Scalar {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	s, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(nil))
	if err != nil {
		panic("descriptor: SHA-512 has 64 bytes: " + err.Error())
	}
	return s
}

func sum3(parts ...[]byte) (sum [32]byte) {
	h := sha3.New256()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}

// int8s writes each number as eight bytes, big-endian.
func int8s(numbers ...uint64) []byte {
	out := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		out = binary.BigEndian.AppendUint64(out, n)
	}
	return out
}
