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
	"github.com/skein-project/skein/cluster/event"
)

// TokenLife is how long a token is good, and MaxToken how long its text.
const (
	TokenLife = 10 * time.Minute
	MaxToken  = 2048 // bytes
)

// ErrExpired is of a token that was good, and has ended. It is one of access.ErrProof.
var ErrExpired = fmt.Errorf("%w: the token has ended", access.ErrProof)

// Client is who comes with a token: its subject.
type Client string

// What a Client begins with.
const (
	ofWorker = "w:" // and its id
	ofAccess = "u:" // and the id of an access token, by which a user listens
)

// Audience is for whom tokens of a cluster are.
func Audience(cluster string) string { return "skein-rt:" + cluster }

// OfWorker is a worker as a Client.
func OfWorker(id cluster.NodeID) Client { return ofWorker + Client(id) }

// OfAccess is who listens by the access token of this id.
func OfAccess(id string) Client { return ofAccess + Client(id) }

// Worker is the worker; false: it is none.
func (c Client) Worker() (cluster.NodeID, bool) {
	id, ok := strings.CutPrefix(string(c), ofWorker)
	if !ok || !cluster.IsOutside(cluster.NodeID(id)) {
		return "", false
	}
	return cluster.NodeID(id), true
}

// Access is the id of the access token; false: it is none.
func (c Client) Access() (id string, ok bool) {
	id, ok = strings.CutPrefix(string(c), ofAccess)
	if !ok || event.CheckTokenID(id) != nil {
		return "", false
	}
	return id, true
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
	return s.For(OfWorker(worker), id, now, now.Add(TokenLife))
}

// For is Mint of whoever it is, for a token that is good until then, and not for longer than any.
func (s Signer) For(who Client, id string, now, until time.Time) (text string, expires time.Time, err error) {
	expires = now.Add(TokenLife)
	if until.Before(expires) {
		expires = until
	}
	expires = expires.Truncate(time.Second)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
		Subject: string(who), Issuer: string(s.Gateway), Audience: jwt.ClaimStrings{Audience(s.Cluster)}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	})
	t.Header["kid"] = KID(s.Key.Public().(ed25519.PublicKey))
	text, err = t.SignedString(s.Key)
	return text, expires, err
}

// Parse returns whose token text is at the time now, and until when. find returns the key of a gateway by
// its name; nil if no gateway has it. Every error is one of access.ErrProof.
func Parse(text, clusterID string, now time.Time, find func(gateway cluster.NodeID, kid string) ed25519.PublicKey) (Client, time.Time, error) {
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
	who := Client(c.Subject)
	_, isWorker := who.Worker()
	_, listens := who.Access()
	switch {
	case !now.Before(c.ExpiresAt.Time): // the leeway is for clocks that are ahead
		return "", time.Time{}, ErrExpired
	case c.ExpiresAt.Sub(now) > TokenLife+access.Window:
		return "", time.Time{}, refused("good until %v", c.ExpiresAt.Time)
	case !isWorker && !listens:
		return "", time.Time{}, refused("%.64q is nobody", c.Subject)
	}
	return who, c.ExpiresAt.Time, nil
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
