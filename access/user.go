package access

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster"
)

const maxKeyFile = 4096 // bytes

// User is who may ask for something.
type User struct {
	Name     string
	Role     Role
	Keys     []ed25519.PublicKey // 0 to cluster.MaxUserKeys
	UIDs     []uint64            // who they are on the socket of a host
	Disabled bool
}

// Principal is how jobs and events name a user.
func (u User) Principal() string { return cluster.UserPrincipal(u.Name) }

// keyIDBytes is how much of the hash is in a KeyID.
const keyIDBytes = 16

// KeyID names a key in requests and tokens: 26 characters, a-z and 2-7.
func KeyID(key ed25519.PublicKey) string {
	h := sha256.Sum256(append([]byte("skein-user-key/1"), key...))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h[:keyIDBytes]))
}

// ParsePublicKey reads the public key of a user: a PEM block "PUBLIC KEY" (SPKI,
// RFC 8410) or its 32 bytes in base64.
func ParsePublicKey(text []byte) (ed25519.PublicKey, error) {
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("not a public key: larger than %d bytes", maxKeyFile)
	}
	if block, _ := pem.Decode(text); block != nil {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("want a PEM block PUBLIC KEY, found %.32q", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("not a public key: %w", err)
		}
		if key, ok := key.(ed25519.PublicKey); ok {
			return key, nil
		}
		return nil, fmt.Errorf("a key for %T, want one for Ed25519", key)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("not a public key: want a PEM block PUBLIC KEY, or the 32 bytes of an Ed25519 key in base64")
	}
	return key, nil
}

// FormatPublicKey is the one line that ParsePublicKey reads.
func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParsePrivateKey reads what FormatPrivateKey wrote, or `openssl genpkey
// -algorithm ed25519`: a PEM block "PRIVATE KEY" (PKCS #8, RFC 8410).
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text[:min(len(text), maxKeyFile)])
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("not a private key: want a PEM block PRIVATE KEY")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a private key: the PEM block holds no key in the form of PKCS #8")
	}
	if key, ok := key.(ed25519.PrivateKey); ok {
		return key, nil
	}
	return nil, fmt.Errorf("a key for %T, want one for Ed25519", key)
}

// FormatPrivateKey is the text of a key file. It holds the secret.
func FormatPrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
