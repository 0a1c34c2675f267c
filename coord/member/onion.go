package member

import (
	"crypto/sha3"
	"encoding/base32"
	"fmt"
	"strings"
)

// Onion is the address of a host's own onion service: the service's public
// key. Its text form is 56 characters and ".onion".
type Onion [32]byte

const onionTail = ".onion"

var onionEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// IsZero reports that there is no such service.
func (o Onion) IsZero() bool { return o == Onion{} }

// String returns the text form.
func (o Onion) String() string {
	sum := sha3.Sum256(append([]byte(".onion checksum"), append(o[:], 3)...))
	return onionEncoding.EncodeToString(append(o[:], sum[0], sum[1], 3)) + onionTail
}

// ParseOnion reads the text form, in lower case.
func ParseOnion(text string) (Onion, error) {
	id, ok := strings.CutSuffix(text, onionTail)
	raw, err := onionEncoding.DecodeString(id)
	if !ok || err != nil || len(raw) != 35 {
		return Onion{}, fmt.Errorf("onion address of %d characters: want 56 of a-z, 2-7 and .onion: %w", min(len(text), 999), ErrFormat)
	}
	if o := Onion(raw[:32]); !o.IsZero() && o.String() == text {
		return o, nil
	}
	return Onion{}, fmt.Errorf("onion address: wrong checksum or version: %w", ErrFormat)
}
