package access

import (
	"crypto/ed25519"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// MaxTokenLife is how long a token may be good, and MaxToken how long its text.
const (
	MaxTokenLife = 15 * time.Minute
	MaxToken     = 2048 // bytes
)

// Token is what a bearer token says (RFC 7519): a user's key lends its rights, or
// fewer, for minutes.
type Token struct {
	User    string
	Key     string // KeyID of the key that signed it
	ID      string
	Role    Role // a cap: never more than the user's
	Expires time.Time
}

type claims struct {
	jwt.RegisteredClaims
	Role string `json:"role"`
}

// audience binds a token to a cluster.
func audience(cluster string) string { return "skein:" + cluster }

// Mint makes the text of a token that is good for life from now on; id is random. It
// is a secret.
func Mint(cluster, user string, role Role, key ed25519.PrivateKey, id string, now time.Time, life time.Duration) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user, Audience: jwt.ClaimStrings{audience(cluster)}, ID: id,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(min(life, MaxTokenLife))),
		},
		Role: role.String(),
	})
	t.Header["kid"] = KeyID(key.Public().(ed25519.PublicKey))
	return t.SignedString(key)
}

// ParseToken reads and verifies a token for this cluster at the time now. find
// returns the user and the public key with this KeyID; nil if nobody has it. Every
// error is one of ErrProof.
func ParseToken(text, cluster string, now time.Time, find func(keyID string) (User, ed25519.PublicKey)) (Token, error) {
	if len(text) > MaxToken {
		return Token{}, refused("token larger than %d bytes", MaxToken)
	}
	var c claims
	var out Token
	var owner User
	p := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithAudience(audience(cluster)), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(Window), jwt.WithStrictDecoding(),
	)
	_, err := p.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		user, key := find(id)
		if key == nil {
			return nil, refused("key %.32q is nobody's", id)
		}
		out.Key, owner = id, user
		return key, nil
	})
	if err != nil {
		return Token{}, refused("%v", err)
	}
	role, err := ParseRole(c.Role)
	switch {
	case err != nil:
		return Token{}, refused("%v", err)
	case !now.Before(c.ExpiresAt.Time): // the leeway is for clocks that are ahead
		return Token{}, refused("expired at %v", c.ExpiresAt.Time)
	case owner.Disabled:
		return Token{}, refused("user %s is disabled", owner.Name)
	case owner.Name != c.Subject:
		return Token{}, refused("the key of user %s signed for %.64q", owner.Name, c.Subject)
	case role > owner.Role:
		return Token{}, refused("role %s is above %s, which user %s has", role, owner.Role, owner.Name)
	case c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > MaxTokenLife || c.ExpiresAt.Sub(now) > MaxTokenLife+Window:
		return Token{}, refused("good for longer than %v", MaxTokenLife)
	case c.ID == "" || len(c.ID) > 64:
		return Token{}, refused("jti is missing or too long")
	}
	out.User, out.ID, out.Role, out.Expires = c.Subject, c.ID, role, c.ExpiresAt.Time
	return out, nil
}
