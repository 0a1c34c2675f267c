package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// crockford is the alphabet of claim codes: no letter looks like another.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// codeChars is how long a code is: 50 bits.
const codeChars = 10

// Code is a claim code in its one form. It is a secret until it is used.
type Code string

// NewCode makes a code of random bits, of which the lowest 50 count.
func NewCode(random uint64) Code {
	var b [codeChars]byte
	for i := range b {
		b[i], random = crockford[random%32], random/32
	}
	return Code(b[:])
}

// Text is the code as people read it.
func (c Code) Text() string { return string(c[:codeChars/2]) + "-" + string(c[codeChars/2:]) }

// ErrCode reports a text that is no claim code.
var ErrCode = errors.New("not a claim code: want 10 letters and digits")

// ParseCode reads a code as people write it: in any case, with blanks and dashes.
func ParseCode(text string) (Code, error) {
	if len(text) > 64 {
		return "", ErrCode
	}
	var b []byte
	for _, c := range strings.ToUpper(text) {
		switch c {
		case ' ', '-':
			continue
		case 'O':
			c = '0'
		case 'I', 'L':
			c = '1'
		}
		if !strings.ContainsRune(crockford, c) {
			return "", ErrCode
		}
		b = append(b, byte(c))
	}
	if len(b) != codeChars {
		return "", ErrCode
	}
	return Code(b), nil
}

// Hash is what a gateway keeps of a code.
func (c Code) Hash(key []byte) [sha256.Size]byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(c))
	return [sha256.Size]byte(h.Sum(nil))
}

// Fingerprint is what people compare of the key of a worker.
func Fingerprint(key []byte) string {
	h := sha256.Sum256(append([]byte("skein-worker-fingerprint/1"), key...))
	t := strings.ToUpper(hex.EncodeToString(h[:8]))
	return t[:4] + "-" + t[4:8] + "-" + t[8:12] + "-" + t[12:]
}
