package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

const (
	tokenPrefix = "skt_"
	secretBytes = 32
)

// errToken tells nothing of what is wrong: the text may be a secret.
var errToken = errors.New("not an access token: want skt_, 16 characters, _ and 43 characters")

// Token is an access token. Its Text is a secret, which only who uses it keeps.
type Token struct {
	ID     string
	secret [secretBytes]byte
}

// NewToken makes a token with this id; empty: with one of its own.
func NewToken(id string) Token {
	t := Token{ID: id}
	rand.Read(t.secret[:])
	if id == "" {
		var b [event.TokenIDLen * 5 / 8]byte
		rand.Read(b[:])
		t.ID = strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
	}
	return t
}

// ParseToken reads Text.
func ParseToken(text string) (t Token, err error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || len(rest) != event.TokenIDLen+1+base64.RawURLEncoding.EncodedLen(secretBytes) || rest[event.TokenIDLen] != '_' {
		return Token{}, errToken
	}
	t.ID = rest[:event.TokenIDLen]
	secret, err := base64.RawURLEncoding.Strict().DecodeString(rest[event.TokenIDLen+1:])
	if err != nil || len(secret) != secretBytes || event.CheckTokenID(t.ID) != nil {
		return Token{}, errToken
	}
	copy(t.secret[:], secret)
	return t, nil
}

// Text is the token as it is handed out.
func (t Token) Text() string {
	return tokenPrefix + t.ID + "_" + base64.RawURLEncoding.EncodeToString(t.secret[:])
}

// String keeps the secret out of logs.
func (t Token) String() string { return tokenPrefix + t.ID + "_[redacted]" }

// GoString is String.
func (t Token) GoString() string { return t.String() }

// Hash is what the log has of the token.
func (t Token) Hash() cluster.Hash {
	return sha256.Sum256([]byte("skein-access/1" + t.ID + string(t.secret[:])))
}

// Has reports whether h is the token's hash, in a time that does not depend on h.
func (t Token) Has(h cluster.Hash) bool {
	own := t.Hash()
	return subtle.ConstantTimeCompare(own[:], h[:]) == 1
}
