package descriptor

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func termOf(n int64) cluster.Term { return cluster.Term(n) }

// forceLayers builds a descriptor without any check, with each layer's text
// changed on the way. Signatures are right.
func forceLayers(p Params, inner, middle, outer func([]byte) []byte) []byte {
	by := p.Key.blind(p.Period)
	subcred := p.Key.Address().Subcredential(p.Period)
	signing := sum3(p.Entropy[:])
	key := ed25519.NewKeyFromSeed(signing[:])
	expires := p.Now.Add(CertLifetime)
	l := layer{name: layerInner, blinded: by.public, subcred: subcred, revision: p.Revision}
	m, _, err := restrict(p.Clients, &l, p.Entropy)
	if err != nil {
		panic(err)
	}
	text := p.inner(key, expires, p.Entropy)
	if inner != nil {
		text = inner(text)
	}
	m.body = l.seal(text, make([]byte, saltLen))
	text = m.encode()
	if middle != nil {
		text = middle(text)
	}
	l = layer{name: layerMiddle, blinded: by.public, subcred: subcred, revision: p.Revision}
	out := encodeOuter(by, key, expires, p.Revision, l.seal(text, make([]byte, saltLen)))
	if outer == nil {
		return out
	}
	body, _, _ := bytes.Cut(out, []byte("signature "))
	body = outer(bytes.Clone(body))
	sig := ed25519.Sign(key, append([]byte(signaturePrefix), body...))
	return append(body, "signature "+base64.RawStdEncoding.EncodeToString(sig)+"\n"...)
}

func replace(old, with string) func([]byte) []byte {
	return func(text []byte) []byte {
		if !bytes.Contains(text, []byte(old)) {
			panic("no " + old + " in " + string(text))
		}
		return bytes.Replace(text, []byte(old), []byte(with), 1)
	}
}

// TestHostileLayers has descriptors that are signed and encrypted by their
// rightful owner, and wrong within.
func TestHostileLayers(t *testing.T) {
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	for name, c := range map[string]struct {
		inner, middle, outer func([]byte) []byte
		want                 error
	}{
		"version":             {outer: replace("hs-descriptor 3", "hs-descriptor 4"), want: ErrSyntax},
		"no version":          {outer: replace("hs-descriptor 3", "hs-descriptor"), want: ErrSyntax},
		"not first":           {outer: replace("hs-descriptor 3\n", "a b\nhs-descriptor 3\n"), want: ErrSyntax},
		"lifetime":            {outer: replace("descriptor-lifetime 180", "descriptor-lifetime 0"), want: ErrSyntax},
		"lifetime twice":      {outer: replace("descriptor-lifetime 180\n", "descriptor-lifetime 180\ndescriptor-lifetime 180\n"), want: ErrSyntax},
		"no revision":         {outer: replace("revision-counter", "revision"), want: ErrSyntax},
		"large revision":      {outer: replace("revision-counter ", "revision-counter 99999999999999999999"), want: ErrSyntax},
		"negative revision":   {outer: replace("revision-counter ", "revision-counter -"), want: ErrSyntax},
		"object renamed":      {outer: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("MESSAGE"), []byte("MASSAGE")) }, want: ErrSyntax},
		"object without end":  {outer: replace("-----END MESSAGE-----\n", ""), want: ErrSyntax},
		"NUL":                 {outer: replace("superencrypted\n", "superencrypted\x00\n"), want: ErrSyntax},
		"lone CR":             {outer: replace("descriptor-lifetime 180", "descriptor-lifetime\r180"), want: ErrSyntax},
		"bad base64":          {outer: replace("-----BEGIN MESSAGE-----\n", "-----BEGIN MESSAGE-----\n!!!!"), want: ErrSyntax},
		"cert of a point":     {outer: replace("-----BEGIN ED25519 CERT-----\n", "-----BEGIN ED25519 CERT-----\nAQkA"), want: ErrCert},
		"empty cert":          {outer: dropObject, want: ErrCert},
		"auth type":           {middle: replace("desc-auth-type x25519", "desc-auth-type rot13"), want: ErrSyntax},
		"short ephemeral":     {middle: replace("desc-auth-ephemeral-key ", "desc-auth-ephemeral-key AAAA "), want: ErrSyntax},
		"short entry":         {middle: replace("auth-client ", "auth-client x "), want: ErrSyntax},
		"middle cut":          {middle: cut(9), want: ErrSyntax},
		"empty middle":        {middle: func([]byte) []byte { return nil }, want: ErrSyntax},
		"inner cut":           {inner: cut(9), want: ErrSyntax},
		"empty inner":         {inner: func([]byte) []byte { return nil }, want: ErrSyntax},
		"no create2":          {inner: replace("create2-formats 2\n", ""), want: ErrSyntax},
		"create2 without 2":   {inner: replace("create2-formats 2\n", "create2-formats 1 3\n"), want: ErrSyntax},
		"create2 twice":       {inner: replace("create2-formats 2\n", "create2-formats 2\ncreate2-formats 2\n"), want: ErrSyntax},
		"line without word":   {inner: replace("flow-control", "\xff\xfe"), want: ErrSyntax},
		"very many items":     {inner: func(b []byte) []byte { return append(b, strings.Repeat("x\n", maxItems)...) }, want: ErrTooLarge},
		"many broken points":  {inner: func(b []byte) []byte { return append(b, strings.Repeat("introduction-point\n", 18)...) }, want: ErrTooMany},
		"open last line":      {inner: cut(1)},
		"right, for contrast": {},
	} {
		text := forceLayers(testParams(3), c.inner, c.middle, c.outer)
		s, err := Parse(text, testNow)
		if err == nil {
			_, err = s.Open(seedKey().Address(), testPeriod, nil, testNow)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func dropObject(b []byte) []byte {
	from := bytes.Index(b, []byte("-----BEGIN ED25519 CERT-----\n")) + len("-----BEGIN ED25519 CERT-----\n")
	to := bytes.Index(b, []byte("-----END ED25519 CERT-----\n"))
	return append(b[:from:from], b[to:]...)
}

// TestBadPointsAreDropped: the rest of the host's points stays.
func TestBadPointsAreDropped(t *testing.T) {
	b64 := func(links ...byte) string { return base64.StdEncoding.EncodeToString(links) }
	first := func(line string) func([]byte) []byte {
		return func(text []byte) []byte {
			at := bytes.Index(text, []byte("introduction-point "))
			end := at + bytes.IndexByte(text[at:], '\n')
			return append(append(bytes.Clone(text[:at]), line...), text[end:]...)
		}
	}
	other := Cert{Type: CertAuth, KeyType: 1, Signer: seedKey().blind(testPeriod).public, Expires: testNow.Add(time.Hour)}
	foreign := string(appendObject(nil, tagCert, other.encode(seedKey().blind(testPeriod).sign)))
	swapCert := func(with string) func([]byte) []byte {
		return func(text []byte) []byte {
			from := bytes.Index(text, []byte("auth-key\n")) + len("auth-key\n")
			to := from + bytes.Index(text[from:], []byte("enc-key "))
			return append(append(bytes.Clone(text[:from]), with...), text[to:]...)
		}
	}
	rsa := append([]byte{linkRSA, 20}, make([]byte, 20)...)
	padded := append(append([]byte{2}, rsa...), append([]byte{99, maxLinks - 24}, make([]byte, maxLinks-24)...)...)
	for name, change := range map[string]func([]byte) []byte{
		"large links":     first("introduction-point " + b64(padded...)),
		"legacy key":      replace("enc-key-cert\n", "legacy-key\n-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\nenc-key-cert\n"),
		"no links":        first("introduction-point " + b64(0)),
		"no argument":     first("introduction-point"),
		"not base64":      first("introduction-point !!!"),
		"huge count":      first("introduction-point " + b64(append([]byte{255}, rsa...)...)),
		"cut links":       first("introduction-point " + b64(1, linkRSA, 20, 1, 2)),
		"long links":      first("introduction-point " + b64(append(append([]byte{1}, rsa...), 9)...)),
		"two identities":  first("introduction-point " + b64(append(append([]byte{2}, rsa...), rsa...)...)),
		"no identity":     first("introduction-point " + b64(1, linkIPv4, 6, 1, 2, 3, 4, 5, 6)),
		"short address":   first("introduction-point " + b64(append(append([]byte{2}, rsa...), linkIPv4, 2, 1, 2)...)),
		"no onion key":    replace("onion-key ntor", "onion-key tap"),
		"two onion keys":  replace("onion-key ntor", "onion-key ntor AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nonion-key ntor"),
		"short enc key":   replace("enc-key ntor ", "enc-key ntor AA "),
		"cert missing":    swapCert(""),
		"cert of another": swapCert(foreign),
		"cert unsigned":   swapCert(strings.Replace(foreign, "A", "B", 9)),
		"cert empty":      swapCert("-----BEGIN ED25519 CERT-----\n-----END ED25519 CERT-----\n"),
	} {
		s, err := Parse(forceLayers(testParams(3), change, nil, nil), testNow)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d, err := s.Open(seedKey().Address(), testPeriod, nil, testNow)
		if err != nil || len(d.Points) != 2 || len(d.Dropped) != 1 || !errors.Is(d.Dropped[0], ErrPoint) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	text := mustBuild(t, testParams(3)).Text
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{0, nil}, {CertLifetime - time.Minute, nil}, {CertLifetime + time.Hour, ErrExpired}} {
		if _, err := Parse(text, testNow.Add(c.after)); !errors.Is(err, c.want) {
			t.Errorf("after %v: %v, want %v", c.after, err, c.want)
		}
	}
}

func TestCerts(t *testing.T) {
	by := seedKey().blind(testPeriod)
	c := Cert{Type: CertSigning, KeyType: 1, Key: [32]byte{7}, Signer: by.public, Expires: testNow}
	raw := c.encode(by.sign)
	got, err := ParseCert(raw)
	if err != nil || len(raw) != certLen {
		t.Fatalf("%d bytes: %v", len(raw), err)
	}
	if d := got.Expires.Sub(testNow); d < 0 || d >= time.Hour {
		t.Errorf("expires %v, asked for %v", got.Expires, testNow)
	}
	if got.Expires = c.Expires; got != c {
		t.Errorf("%+v came back as %+v", c, got)
	}
	resign := func(change func([]byte) []byte) []byte {
		body := change(bytes.Clone(raw[:len(raw)-64]))
		return append(body, by.sign(body)...)
	}
	ext := func(kind, flags byte, value ...byte) []byte {
		return append([]byte{byte(len(value) >> 8), byte(len(value)), kind, flags}, value...)
	}
	with := func(n byte, exts ...[]byte) []byte {
		return resign(func(b []byte) []byte {
			b = b[:certHead]
			b[certHead-1] = n
			return append(b, bytes.Join(exts, nil)...)
		})
	}
	signer := ext(extSigner, 0, by.public[:]...)
	if _, err := ParseCert(with(2, signer, ext(77, 0, 1, 2, 3))); err != nil {
		t.Errorf("an extension that may be ignored: %v", err)
	}
	for name, bad := range map[string][]byte{
		"empty":     {},
		"short":     raw[:certHead+63],
		"cut":       raw[:len(raw)-1],
		"long":      append(bytes.Clone(raw), 0),
		"huge":      make([]byte, maxCertLen+1),
		"version":   resign(func(b []byte) []byte { b[0] = 2; return b }),
		"critical":  with(2, signer, ext(77, extCritical, 1)),
		"twice":     with(2, signer, signer),
		"no signer": with(0),
		"counted":   with(255, signer),
		"left over": with(1, signer, []byte{0}),
		"size":      with(1, ext(extSigner, 0, 1, 2)),
		"overlong":  with(1, []byte{255, 255, extSigner, 0, 1}),
		"forged":    func() []byte { b := bytes.Clone(raw); b[8]++; return b }(),
	} {
		if _, err := ParseCert(bad); !errors.Is(err, ErrCert) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := got.Valid(CertAuth, by.public, testNow.Add(-time.Hour)); !errors.Is(err, ErrCert) {
		t.Errorf("wrong type: %v", err)
	}
	if err := got.Valid(CertSigning, [32]byte{}, testNow.Add(-time.Hour)); !errors.Is(err, ErrCert) {
		t.Errorf("wrong signer: %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	f := Fingerprint{0xab, 1}
	for _, form := range []string{f.String(), "$" + f.String(), "$" + f.String() + "~nick", strings.ToLower(f.String())} {
		if got, err := ParseFingerprint(form); err != nil || got != f {
			t.Errorf("%q: %v, %v", form, got, err)
		}
	}
	for _, bad := range []string{"", "$", f.String()[1:], f.String() + "0", "$~nick", strings.Repeat("x", 40)} {
		if _, err := ParseFingerprint(bad); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if text := fmt.Sprint(testPoint(1, 2)); !strings.Contains(text, testPoint(1, 2).Relay.String()) {
		t.Error(text)
	}
}
