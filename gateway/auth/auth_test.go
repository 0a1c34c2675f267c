package auth

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
)

var (
	key    = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	other  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	public = key.Public().(ed25519.PublicKey)
	worker = cluster.OutsideID([]byte("a key"))
	noon   = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

func find(g cluster.NodeID, kid string) ed25519.PublicKey {
	if g == "n1" && kid == KID(public) {
		return public
	}
	return nil
}

// TestToken: a token is good at every gateway of its cluster, for ten minutes.
func TestToken(t *testing.T) {
	s := Signer{Cluster: "c1", Gateway: "n1", Key: key}
	text, expires, err := s.Mint(worker, "id", noon)
	if err != nil || !expires.Equal(noon.Add(TokenLife)) {
		t.Fatal(expires, err)
	}
	for _, at := range []time.Duration{0, -access.Window, TokenLife - time.Second} {
		if got, until, err := Parse(text, "c1", noon.Add(at), find); err != nil || got != OfWorker(worker) || !until.Equal(expires) {
			t.Errorf("after %v: %q %v", at, got, err)
		}
	}
	sign := func(method jwt.SigningMethod, k any, change func(*jwt.RegisteredClaims, map[string]any)) string {
		c := jwt.RegisteredClaims{
			Subject: string(OfWorker(worker)), Issuer: "n1", Audience: jwt.ClaimStrings{"skein-rt:c1"},
			IssuedAt: jwt.NewNumericDate(noon), ExpiresAt: jwt.NewNumericDate(noon.Add(time.Minute)),
		}
		x := jwt.NewWithClaims(method, nil)
		x.Header["kid"] = KID(public)
		change(&c, x.Header)
		x.Claims = c
		text, err := x.SignedString(k)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := func(*jwt.RegisteredClaims, map[string]any) {}
	if _, _, err := Parse(sign(jwt.SigningMethodEdDSA, key, same), "c1", noon, find); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct {
		text string
		at   time.Duration
	}{
		"expired":                   {text, TokenLife + 2*access.Window},
		"expired within the leeway": {text, TokenLife},
		"of the future":             {text, -2 * access.Window},
		"empty":                     {"", 0},
		"long":                      {text + strings.Repeat("x", MaxToken), 0},
		"no signature":              {text[:strings.LastIndexByte(text, '.')+1], 0},
		"another key":               {sign(jwt.SigningMethodEdDSA, other, same), 0},
		"none":                      {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, same), 0},
		"the key as HMAC":           {sign(jwt.SigningMethodHS256, []byte(public), same), 0},
		"another gateway":           {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.Issuer = "n2" }), 0},
		"another audience":          {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.Audience = jwt.ClaimStrings{"skein:c1"} }), 0},
		"a user by name":            {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.Subject = "u:user:ann" }), 0},
		"a host":                    {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.Subject = "w:n1" }), 0},
		"for ever":                  {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.ExpiresAt = nil }), 0},
		"for a day":                 {sign(jwt.SigningMethodEdDSA, key, func(c *jwt.RegisteredClaims, _ map[string]any) { c.ExpiresAt.Time = noon.Add(24 * time.Hour) }), 0},
		"no kid":                    {sign(jwt.SigningMethodEdDSA, key, func(_ *jwt.RegisteredClaims, h map[string]any) { delete(h, "kid") }), 0},
		"kid is a number":           {sign(jwt.SigningMethodEdDSA, key, func(_ *jwt.RegisteredClaims, h map[string]any) { h["kid"] = 7 }), 0},
	} {
		if got, _, err := Parse(bad.text, "c1", noon.Add(bad.at), find); err == nil || !errors.Is(err, access.ErrProof) || got != "" {
			t.Errorf("%s: %q %v", name, got, err)
		} else if errors.Is(err, ErrExpired) != (name == "expired" || name == "expired within the leeway") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Parse(text, "c2", noon, find); err == nil {
		t.Error("good in another cluster")
	}
	if j := PublicJWK(KID(public), public); j.Kty != "OKP" || j.KID != KID(public) || len(j.X) != base64.RawURLEncoding.EncodedLen(32) {
		t.Errorf("%+v", j)
	}
}

// TestCode: what people make of a code when they read it is the code.
func TestCode(t *testing.T) {
	seen := map[Code]bool{}
	for range 1000 {
		c := NewCode(rand.Uint64())
		seen[c] = true
		for _, text := range []string{
			string(c), c.Text(), strings.ToLower(c.Text()), " " + c.Text() + " ",
			strings.NewReplacer("0", "O", "1", "l").Replace(string(c)), strings.NewReplacer("0", "o", "1", "I").Replace(c.Text()),
		} {
			if got, err := ParseCode(text); err != nil || got != c {
				t.Fatalf("%q of %s: %q %v", text, c, got, err)
			}
		}
		again := c
		if c.Hash([]byte("a")) == c.Hash([]byte("b")) || c.Hash([]byte("a")) != again.Hash([]byte("a")) {
			t.Fatal("the hash is not of code and key")
		}
	}
	if len(seen) < 999 {
		t.Errorf("%d codes of 1000", len(seen))
	}
	for _, text := range []string{"", "ABCDE", "ABCDE-FGHJKM", "ABCDE-FGHJU", "ABCDE-FGHJ\x00", "ÄBCDE-FGHJK", strings.Repeat("-", 100) + "ABCDEFGHJK"} {
		if c, err := ParseCode(text); err == nil {
			t.Errorf("%q is %s", text, c)
		}
	}
	if f := Fingerprint(public); len(f) != 19 || f == Fingerprint(other.Public().(ed25519.PublicKey)) {
		t.Error(f)
	}
}

func FuzzParse(f *testing.F) {
	text, _, err := Signer{Cluster: "c1", Gateway: "n1", Key: key}.Mint(worker, "id", noon)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("a.b.c")
	f.Add(strings.Replace(text, ".", "..", 1))
	f.Fuzz(func(t *testing.T, in string) {
		got, _, err := Parse(in, "c1", noon, find)
		if (err == nil) != (got != "") || err != nil && !errors.Is(err, access.ErrProof) {
			t.Fatalf("%q: %v", got, err)
		}
		if err == nil && in != text {
			t.Fatalf("a second text of the token is good: %q", in)
		}
	})
}

func FuzzParseCode(f *testing.F) {
	f.Add("ABCDE-FGHJK")
	f.Add("o i-l 0123456")
	f.Fuzz(func(t *testing.T, in string) {
		c, err := ParseCode(in)
		if err != nil {
			return
		}
		if again, err := ParseCode(c.Text()); err != nil || again != c || strings.Trim(string(c), crockford) != "" {
			t.Fatalf("%q: %q %v", c, again, err)
		}
	})
}

// TestListener: who listens by an access token is told apart from every worker, and has a token
// that ends no later than that one.
func TestListener(t *testing.T) {
	const id = "abcdefghijklmnop"
	listens := OfAccess(id)
	if got, ok := listens.Access(); !ok || got != id {
		t.Errorf("%q, %v", got, ok)
	}
	if w, ok := listens.Worker(); ok || w != "" {
		t.Errorf("it is the worker %q", w)
	}
	for _, none := range []Client{"", "u:", "u:ann", "u:ABCDEFGHIJKLMNOP", "u:" + id + "x", "w:" + id, OfWorker(worker), id} {
		if got, ok := none.Access(); ok || got != "" {
			t.Errorf("%q is the access token %q", none, got)
		}
	}
	s := Signer{Cluster: "c1", Gateway: "n1", Key: key}
	for left, want := range map[time.Duration]time.Duration{time.Hour: TokenLife, time.Minute: time.Minute} {
		text, _, err := s.For(listens, "id", noon, noon.Add(left))
		if err != nil {
			t.Fatal(err)
		}
		if got, until, err := Parse(text, "c1", noon, find); err != nil || got != listens || !until.Equal(noon.Add(want)) {
			t.Errorf("%v: %q until %v, %v", left, got, until, err)
		}
	}
}
