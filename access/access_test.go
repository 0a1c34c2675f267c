package access

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skein-project/skein/internal/fastest"

	"github.com/skein-project/skein/cluster"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func keyOf(t testing.TB, seed byte) ed25519.PrivateKey {
	t.Helper()
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), ed25519.SeedSize)))
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func TestAllowed(t *testing.T) {
	want := map[Role][6]Reach{ // none, Look, Read, Use, Operate, Debug
		Nobody:    {None, None, None, None, None, None},
		Viewer:    {None, All, All, None, None, None},
		Submitter: {None, All, Own, Own, None, None},
		Operator:  {None, All, All, All, All, All},
		99:        {None, None, None, None, None, None},
	}
	for role, reaches := range want {
		for right, reach := range reaches {
			if got := Allowed(role, Right(right)); got != reach {
				t.Errorf("%s, right %d: %d, want %d", role, right, got, reach)
			}
		}
	}
	for r := Viewer; r <= Operator; r++ {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("%s reads as %v, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "nobody", "Viewer", "root", strings.Repeat("x", 1000)} {
		if _, err := ParseRole(s); err == nil {
			t.Errorf("%.20q is a role", s)
		}
	}
}

func request() Request {
	return Request{Cluster: "c1", Method: "POST", Host: "h1:7443", Path: "/v1/jobs", Query: "a=1", Body: sha256.Sum256([]byte("{}"))}
}

// TestProofOfOlderRelease: what the first release with users signed is good, and what is
// signed today is the same, so that hosts and programs of both work together.
func TestProofOfOlderRelease(t *testing.T) {
	old := map[string]string{
		HeaderKey: "p5jpgvab3es2hxucjnj7ddnq6i", HeaderTime: "1767323045000", HeaderNonce: "AQAAAAAAAAAAAAAAAAAAAA",
		HeaderSignature: "SlJxUax1tkTmIh-9ti5AWr7UXFWTfxEhY3tkMrbvr_6Oqz5HHOyLPf0sKXP5D-taoply-XZkukbpxVHIZwAaBA",
	}
	h := http.Header{}
	for name, value := range old {
		h.Set(name, value)
	}
	p, ok, err := ProofOf(h)
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if err := p.Verify(request(), pub(keyOf(t, 0)), start); err != nil {
		t.Error(err)
	}
	today, err := Sign(request(), keyOf(t, 0), [NonceBytes]byte{1}, start)
	if err != nil {
		t.Fatal(err)
	}
	h = http.Header{}
	today.Put(h)
	for name, value := range old {
		if h.Get(name) != value {
			t.Errorf("%s is %s, was %s", name, h.Get(name), value)
		}
	}
}

func TestProof(t *testing.T) {
	key, other := keyOf(t, 0), keyOf(t, 1)
	p, err := Sign(request(), key, [NonceBytes]byte{1}, start)
	if err != nil {
		t.Fatal(err)
	}
	// Over the wire and back.
	h := http.Header{}
	p.Put(h)
	got, ok, err := ProofOf(h)
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if err := got.Verify(request(), pub(key), start.Add(Window)); err != nil {
		t.Fatal(err)
	}

	outside := request()
	outside.Outside = true
	if p, err := Sign(outside, key, [NonceBytes]byte{1}, start); err != nil || p.Key != string(cluster.OutsideID(pub(key))) || p.Verify(outside, pub(key), start) != nil || p.Verify(request(), pub(key), start) == nil {
		t.Errorf("an outside worker's proof: %v, %+v", err, p)
	}

	for name, change := range map[string]func(*Request, *Proof, *time.Time, *ed25519.PublicKey){
		"another cluster": func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Cluster = "c2" },
		"another method":  func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Method = "DELETE" },
		"another host":    func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Host = "h2:7443" },
		"another path":    func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Path = "/v1/jobs/x" },
		"another query":   func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Query = "" },
		"another body":    func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Body[0]++ },
		"an outside worker's": func(r *Request, p *Proof, _ *time.Time, k *ed25519.PublicKey) {
			r.Outside, p.Key = true, string(cluster.OutsideID(*k))
		},
		"a line end":    func(r *Request, _ *Proof, _ *time.Time, _ *ed25519.PublicKey) { r.Path += "\n" },
		"too old":       func(_ *Request, _ *Proof, now *time.Time, _ *ed25519.PublicKey) { *now = start.Add(Window + 1) },
		"from ahead":    func(_ *Request, _ *Proof, now *time.Time, _ *ed25519.PublicKey) { *now = start.Add(-Window - 1) },
		"another time":  func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Time = p.Time.Add(time.Millisecond) },
		"another nonce": func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Nonce = strings.Repeat("A", 22) },
		"no nonce":      func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Nonce = "" },
		"no signature":  func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Signature = nil },
		"a changed one": func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Signature[7] ^= 1 },
		"another's key": func(_ *Request, _ *Proof, _ *time.Time, k *ed25519.PublicKey) { *k = pub(other) },
		"another's id": func(_ *Request, p *Proof, _ *time.Time, k *ed25519.PublicKey) {
			p.Key, *k = KeyID(pub(other)), pub(other)
		},
		"an id of no key":   func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Key = "x" },
		"an id with a line": func(_ *Request, p *Proof, _ *time.Time, _ *ed25519.PublicKey) { p.Key = p.Key[:25] + "\n" },
	} {
		r, p, now, k := request(), p, start, pub(key)
		p.Signature = append([]byte(nil), p.Signature...)
		change(&r, &p, &now, &k)
		if err := p.Verify(r, k, now); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProofOf(t *testing.T) {
	p, err := Sign(request(), keyOf(t, 0), [NonceBytes]byte{1}, start)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := ProofOf(http.Header{}); ok || err != nil {
		t.Errorf("no header: %v, %v", ok, err)
	}
	for name, change := range map[string]func(http.Header){
		"a header twice":   func(h http.Header) { h.Add(HeaderNonce, "x") },
		"no key":           func(h http.Header) { h.Del(HeaderKey) },
		"no time":          func(h http.Header) { h.Set(HeaderTime, "noon") },
		"a long time":      func(h http.Header) { h.Set(HeaderTime, strings.Repeat("1", 129)) },
		"padded signature": func(h http.Header) { h.Set(HeaderSignature, base64.StdEncoding.EncodeToString(p.Signature)) },
		"short signature":  func(h http.Header) { h.Set(HeaderSignature, "AAAA") },
	} {
		h := http.Header{}
		p.Put(h)
		change(h)
		if _, ok, err := ProofOf(h); !ok || !errors.Is(err, ErrProof) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func isEarly(err error, after time.Duration) bool {
	e, ok := errors.AsType[*EarlyError](err)
	return ok && e.After == after
}

func TestNonces(t *testing.T) {
	n := NewNonces(3, start)
	at := func(nonce string, age time.Duration) Proof {
		return Proof{Key: "k", Nonce: nonce, Time: start.Add(age)}
	}
	use := func(p Proof, now time.Duration, want error) {
		t.Helper()
		if err := n.Use(p, start.Add(now)); !errors.Is(err, want) {
			t.Errorf("%s after %v: %v, want %v", p.Nonce, now, err, want)
		}
	}
	if err := n.Use(at("before the start", -time.Second), start); !isEarly(err, time.Second) {
		t.Errorf("before the start: %v", err)
	}
	// The latest that a proof can come, and the latest that it can come again.
	use(at("a", Window), 0, nil)
	use(at("a", Window), 2*Window, ErrProof)
	use(at("b", Keep), Keep-1, nil)
	use(at("b", Keep), Keep, ErrProof)
	use(at("c", Keep), Keep+Window, nil)
	use(at("b", Keep), Keep-1+2*Window, ErrProof)
	use(at("d", Keep), Keep+Window, nil)
	use(at("e", Keep), Keep+Window, nil)
	use(at("f", Keep), Keep+Window, ErrFull)
	use(at("c", Keep), Keep+Window, ErrProof) // also when it is full
	use(at("f", Keep), 3*Keep, nil)
	use(at("f", Keep), 2*Keep, ErrProof) // the clock was set back
	other := at("f", Keep)
	other.Key = "another"
	use(other, 2*Keep, nil)
}

// Requests are served at the same time, so the clock that Use sees may go back a
// little just when it forgot the older ones.
func TestNoncesOutOfOrder(t *testing.T) {
	n := NewNonces(10, start)
	for i, now := range []time.Duration{0, Keep - 1, Keep, Keep - 1, Keep - 2} {
		p := Proof{Key: "k", Nonce: string(rune('a' + i)), Time: start.Add(now)}
		if err := n.Use(p, start.Add(now)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Use(Proof{Key: "k", Nonce: "b", Time: start.Add(Keep)}, start.Add(Keep)); !errors.Is(err, ErrProof) || !errors.Is(err, ErrUsed) {
		t.Errorf("a proof used a moment ago, again: %v", err)
	}
}

func TestToken(t *testing.T) {
	key, other := keyOf(t, 0), keyOf(t, 1)
	ann := User{Name: "ann", Role: Submitter, Keys: []ed25519.PublicKey{pub(key)}}
	find := func(id string) (User, ed25519.PublicKey) {
		if id == KeyID(pub(key)) {
			return ann, pub(key)
		}
		return User{}, nil
	}
	text, err := Mint("c1", "ann", Viewer, key, "id", start, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := ParseToken(text, "c1", start.Add(MaxTokenLife-1), find)
	if err != nil || tok.User != "ann" || tok.Role != Viewer || tok.Key != KeyID(pub(key)) || !tok.Expires.Equal(start.Add(MaxTokenLife)) {
		t.Fatalf("%+v, %v", tok, err)
	}

	ann.Disabled = true
	if tok, err := ParseToken(text, "c1", start, find); !errors.Is(err, ErrProof) {
		t.Errorf("of a disabled user: %+v, %v", tok, err)
	}
	ann.Disabled = false

	mint := func(user string, role Role, k ed25519.PrivateKey, change func(jwt.MapClaims, map[string]any)) string {
		c := jwt.MapClaims{"sub": user, "aud": "skein:c1", "jti": "x", "iat": start.Unix(), "exp": start.Add(time.Minute).Unix(), "role": role.String()}
		tk := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
		tk.Header["kid"] = KeyID(pub(k))
		if change != nil {
			change(c, tk.Header)
		}
		text, err := tk.SignedString(k)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	hmac := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "aud": "skein:c1", "jti": "x", "iat": start.Unix(), "exp": start.Add(time.Minute).Unix(), "role": "viewer"})
	hmac.Header["kid"] = KeyID(pub(key))
	signed, err := hmac.SignedString([]byte(pub(key)))
	if err != nil {
		t.Fatal(err)
	}
	none := jwt.NewWithClaims(jwt.SigningMethodNone, hmac.Claims)
	none.Header["kid"] = KeyID(pub(key))
	unsigned, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseToken(mint("ann", Submitter, key, nil), "c1", start, find); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text, cluster string
		now           time.Time
	}{
		"another cluster":  {text, "c2", start},
		"expired":          {text, "c1", start.Add(MaxTokenLife)},
		"from ahead":       {text, "c1", start.Add(-Window - time.Second)},
		"changed":          {text[:len(text)-3] + "AAA", "c1", start},
		"garbage":          {"a.b.c", "c1", start},
		"huge":             {strings.Repeat("a", MaxToken+1), "c1", start},
		"the alg HS256":    {signed, "c1", start},
		"the alg none":     {unsigned, "c1", start},
		"a foreign key":    {mint("ann", Viewer, other, nil), "c1", start},
		"for another user": {mint("bob", Viewer, key, nil), "c1", start},
		"a higher role":    {mint("ann", Operator, key, nil), "c1", start},
		"no kid":           {mint("ann", Viewer, key, func(_ jwt.MapClaims, h map[string]any) { delete(h, "kid") }), "c1", start},
		"no exp":           {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { delete(c, "exp") }), "c1", start},
		"no iat":           {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { delete(c, "iat") }), "c1", start},
		"no jti":           {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { delete(c, "jti") }), "c1", start},
		"no aud":           {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { delete(c, "aud") }), "c1", start},
		"no role":          {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { delete(c, "role") }), "c1", start},
		"too long a life":  {mint("ann", Viewer, key, func(c jwt.MapClaims, _ map[string]any) { c["exp"] = start.Add(MaxTokenLife + time.Second).Unix() }), "c1", start},
	} {
		if tok, err := ParseToken(c.text, c.cluster, c.now, find); !errors.Is(err, ErrProof) {
			t.Errorf("%s: %+v, %v", name, tok, err)
		}
	}
}

func TestKeys(t *testing.T) {
	key := keyOf(t, 0)
	text, err := FormatPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParsePrivateKey(text); err != nil || !got.Equal(key) {
		t.Errorf("%v", err)
	}
	if got, err := ParsePublicKey([]byte(FormatPublicKey(pub(key)) + "\n")); err != nil || !got.Equal(pub(key)) {
		t.Errorf("%v", err)
	}
	// openssl genpkey -algorithm ed25519 | openssl pkey -pubout
	const spki = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
	if _, err := ParsePublicKey([]byte(spki)); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", "AAAA", string(text), "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", strings.Repeat("A", 5000)} {
		if _, err := ParsePublicKey([]byte(s)); err == nil {
			t.Errorf("%.40q is a public key", s)
		} else if strings.Contains(err.Error(), FormatPublicKey(ed25519.PublicKey(key.Seed()))) {
			t.Errorf("the error holds the secret: %v", err)
		}
		if s != string(text) {
			if _, err := ParsePrivateKey([]byte(s)); err == nil {
				t.Errorf("%.40q is a private key", s)
			}
		}
	}
}

func FuzzParseToken(f *testing.F) {
	key := keyOf(f, 0)
	text, err := Mint("c1", "ann", Viewer, key, "id", start, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s, "c1", start, func(id string) (User, ed25519.PublicKey) {
			return User{Name: "ann", Role: Viewer}, pub(key)
		})
		if err == nil && (tok.User != "ann" || tok.Role != Viewer) || err != nil && !errors.Is(err, ErrProof) {
			t.Fatalf("%+v, %v", tok, err)
		}
	})
}

func FuzzProofOf(f *testing.F) {
	f.Add("k", "1", "n", "s")
	signed, err := Sign(request(), keyOf(f, 0), [NonceBytes]byte{1}, start)
	if err != nil {
		f.Fatal(err)
	}
	h := http.Header{}
	signed.Put(h)
	f.Add(h.Get(HeaderKey), h.Get(HeaderTime), h.Get(HeaderNonce), h.Get(HeaderSignature))
	f.Fuzz(func(t *testing.T, key, at, nonce, sig string) {
		h := http.Header{HeaderKey: {key}, HeaderTime: {at}, HeaderNonce: {nonce}, HeaderSignature: {sig}}
		p, ok, err := ProofOf(h)
		if ok && err == nil {
			back := http.Header{}
			p.Put(back)
			if again, _, err := ProofOf(back); err != nil || again.Nonce != p.Nonce {
				t.Fatalf("%v", err)
			}
		}
	})
}

// FuzzRequests: what is signed for one request is good for no other, however the parts of
// the two are cut.
func FuzzRequests(f *testing.F) {
	f.Add("c1", "GET", "h1:1", "/v1/jobs", "a=1", "c1", "GET", "h1:1", "/v1/jobs", "a=1")
	f.Add("c1", "GET", "h1:1", "/v1/jobs", "", "c1", "GET", "h1:1/v1", "/jobs", "")
	f.Add("c1", "GET", "h", "/a", "b", "c1", "GET", "h", "/a\nb", "")
	f.Add("c1", "GE", "T", "/", "", "c1", "GET", "", "/", "")
	key := keyOf(f, 0)
	f.Fuzz(func(t *testing.T, ca, ma, ha, pa, qa, cb, mb, hb, pb, qb string) {
		a, b := Request{Cluster: ca, Method: ma, Host: ha, Path: pa, Query: qa}, Request{Cluster: cb, Method: mb, Host: hb, Path: pb, Query: qb}
		p, err := Sign(a, key, [NonceBytes]byte{1}, start)
		if err != nil {
			return // it has what no request may have
		}
		if err := p.Verify(a, pub(key), start); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		if err := p.Verify(b, pub(key), start); (err == nil) != (a == b) {
			t.Fatalf("signed %+v, verified %+v: %v", a, b, err)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := ParsePublicKey(text); err == nil && len(k) != ed25519.PublicKeySize {
			t.Fatal(len(k))
		}
		if k, err := ParsePrivateKey(text); err == nil && len(k) != ed25519.PrivateKeySize {
			t.Fatal(len(k))
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	key := keyOf(b, 0)
	p, err := Sign(request(), key, [NonceBytes]byte{1}, start)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := p.Verify(request(), pub(key), start); err != nil {
			b.Fatal(err)
		}
	}
	if os.Getenv("SKEIN_PROVE") != "1" {
		return
	}
	best := fastest.Of(20, 500, func() time.Duration {
		began := time.Now()
		if err := p.Verify(request(), pub(key), start); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	})
	b.ReportMetric(float64(best), "best-ns/op")
	if best > 100*time.Microsecond {
		b.Errorf("%s in the best round, bound 100µs", best)
	}
}

func TestDirectory(t *testing.T) {
	a, b, c := keyOf(t, 0), keyOf(t, 1), keyOf(t, 2)
	ann := User{Name: "ann", Role: Submitter, Keys: []ed25519.PublicKey{pub(a), pub(b)}, UIDs: []uint64{7, 8}}
	bob := User{Name: "bob", Role: Viewer, Keys: []ed25519.PublicKey{pub(b), pub(c)}, UIDs: []uint64{8, 9}, Disabled: true}
	d := NewDirectory([]User{ann, bob})
	for key, want := range map[*ed25519.PrivateKey]string{&a: "ann", &b: "", &c: "bob"} {
		if u, k := d.Key(KeyID(pub(*key))); u.Name != want || (k == nil) != (want == "") {
			t.Errorf("key of %q is %q's", want, u.Name)
		}
	}
	for uid, want := range map[uint64]string{7: "ann", 8: "", 9: "bob", 10: ""} {
		if u := d.UID(uid); u.Name != want {
			t.Errorf("uid %d is %q, want %q", uid, u.Name, want)
		}
	}
	for _, key := range []ed25519.PrivateKey{a, b, c} {
		p, err := Sign(request(), key, [NonceBytes]byte{1}, start)
		if err != nil {
			t.Fatal(err)
		}
		switch u, err := d.Proven(p, request(), start); {
		case key.Equal(a) && (err != nil || u.Name != "ann"):
			t.Errorf("ann: %v", err)
		case !key.Equal(a) && !errors.Is(err, ErrProof):
			t.Errorf("key of two, or of a disabled user: %v", err)
		}
	}
}
