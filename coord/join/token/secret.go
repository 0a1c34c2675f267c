package token

import (
	"crypto/rand"
	"fmt"
)

// redacted is what every secret prints.
const redacted = "[redacted]"

// Secret holds bytes that must not be printed. Its fmt and JSON forms say
// [redacted], also inside other values; Bytes reveals it.
type Secret struct {
	// A closure is the one thing that fmt cannot look into, not even where a
	// value sits in an unexported field and its methods are not called.
	reveal func() []byte
}

// NewSecret keeps a copy of b.
func NewSecret(b []byte) Secret {
	c := append([]byte(nil), b...)
	return Secret{reveal: func() []byte { return c }}
}

// RandomSecret returns n random bytes.
func RandomSecret(n int) Secret {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return Secret{reveal: func() []byte { return b }}
}

// Bytes returns the secret itself, nil if there is none. The caller must not
// change it.
func (s Secret) Bytes() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// String implements fmt.Stringer.
func (s Secret) String() string { return redacted }

// Format implements fmt.Formatter, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
