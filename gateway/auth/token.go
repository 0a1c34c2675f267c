package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
)

// TokenLife is how long a token is good, and MaxToken how long its text.
const (
	TokenLife = 10 * time.Minute
	MaxToken  = 2048 // bytes
)

// ErrExpired is of a token that was good, and has ended. It is one of access.ErrProof.
var ErrExpired = fmt.Errorf("%w: the token has ended", access.ErrProof)

const subject = "w:" // and the id of the worker

// Audience is for whom tokens of a cluster are.
func Audience(cluster string) string { return "skein-rt:" + cluster }

// Subject is whom a token of a worker is of.
func Subject(worker cluster.NodeID) string { return subject + string(worker) }

// WorkerOf is the worker of a subject; false: it is none.
func WorkerOf(sub string) (cluster.NodeID, bool) {
	id, ok := strings.CutPrefix(sub, subject)
	return cluster.NodeID(id), ok && cluster.IsOutside(cluster.NodeID(id))
}

// KID names the key of a gateway.
func KID(key ed25519.PublicKey) string {
	h := sha256.Sum256(append([]byte("skein-gateway-key/1"), key...))
	return strings.ToLower(base32.StdEncoding.EncodeToString(h[:10]))
}

// Signer is the gateway that makes tokens.
type Signer struct {
	Cluster string // its id
	Gateway cluster.NodeID
	Key     ed25519.PrivateKey
}

// Mint makes the text of a token of a worker; id is random. The text is a secret.
func (s Signer) Mint(worker cluster.NodeID, id string, now time.Time) (text string, expires time.Time, err error) {
	expires = now.Add(TokenLife).Truncate(time.Second)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
		Subject: Subject(worker), Issuer: string(s.Gateway), Audience: jwt.ClaimStrings{Audience(s.Cluster)}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	})
	t.Header["kid"] = KID(s.Key.Public().(ed25519.PublicKey))
	text, err = t.SignedString(s.Key)
	return text, expires, err
}

// Parse returns whose token text is at the time now, and until when. find returns the key of a gateway by
// its name; nil if no gateway has it. Every error is one of access.ErrProof.
func Parse(text, clusterID string, now time.Time, find func(gateway cluster.NodeID, kid string) ed25519.PublicKey) (cluster.NodeID, time.Time, error) {
	if len(text) > MaxToken {
		return "", time.Time{}, refused("token larger than %d bytes", MaxToken)
	}
	var c jwt.RegisteredClaims
	p := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithAudience(Audience(clusterID)), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(access.Window), jwt.WithStrictDecoding(),
	)
	_, err := p.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		key := find(cluster.NodeID(c.Issuer), kid)
		if key == nil {
			return nil, refused("%.64q has no key %.64q", c.Issuer, kid)
		}
		return key, nil
	})
	if errors.Is(err, jwt.ErrTokenExpired) {
		return "", time.Time{}, ErrExpired
	}
	if err != nil {
		return "", time.Time{}, refused("%v", err)
	}
	worker, ok := WorkerOf(c.Subject)
	switch {
	case !now.Before(c.ExpiresAt.Time): // the leeway is for clocks that are ahead
		return "", time.Time{}, ErrExpired
	case c.ExpiresAt.Sub(now) > TokenLife+access.Window:
		return "", time.Time{}, refused("good until %v", c.ExpiresAt.Time)
	case !ok:
		return "", time.Time{}, refused("%.64q is no worker", c.Subject)
	}
	return worker, c.ExpiresAt.Time, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", access.ErrProof, fmt.Sprintf(format, args...))
}

// JWK is a public key as in RFC 7517 and 8037.
type JWK struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	Alg string `json:"alg"`
	Use string `json:"use"`
	KID string `json:"kid"`
	X   string `json:"x"`
}

// PublicJWK shows the key of a gateway.
func PublicJWK(kid string, key ed25519.PublicKey) JWK {
	return JWK{Kty: "OKP", Crv: "Ed25519", Alg: "EdDSA", Use: "sig", KID: kid, X: base64.RawURLEncoding.EncodeToString(key)}
}
