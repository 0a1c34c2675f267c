package descriptor

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a descriptor.
const (
	// MaxSize is what directories take.
	MaxSize = 50_000
	// MaxPoints is what clients take; directories take one more.
	MaxPoints = 20

	maxItems        = 4096
	lifetime        = 180 // minutes
	signaturePrefix = "Tor onion service descriptor sig v3"
	tagCert         = "ED25519 CERT"
	tagMessage      = "MESSAGE"
)

// Sealed is a descriptor as a directory sees it: signed, and closed to who does
// not know the address.
type Sealed struct {
	Blinded  Blinded
	Key      [32]byte // the descriptor's own signing key
	Revision uint64
	Lifetime time.Duration
	Expires  time.Time // of the certificate for Key
	body     []byte
}

// Parse reads the outer layer and verifies it: the descriptor's key is
// certified by the blinded key, and signed everything.
func Parse(text []byte, now time.Time) (*Sealed, error) {
	if len(text) > MaxSize+MaxSize/32 { // room for CRs
		return nil, fmt.Errorf("%w: descriptor of %d bytes, at most %d", ErrTooLarge, len(text), MaxSize)
	}
	text, err := normalize(text)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: descriptor of %d bytes, at most %d", ErrTooLarge, len(text), MaxSize)
	}
	all, err := items(text, maxItems)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	s, err := readOuter(all, now)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	last := all[len(all)-1]
	sig, err := last.fixed64(0, ed25519.SignatureSize)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	if !ed25519.Verify(s.Key[:], append([]byte(signaturePrefix), text[:last.start]...), sig) {
		return nil, fmt.Errorf("descriptor: %w", ErrSignature)
	}
	return s, nil
}

func readOuter(all []item, now time.Time) (*Sealed, error) {
	if len(all) == 0 || all[0].keyword != "hs-descriptor" {
		return nil, fmt.Errorf("%w: does not begin with hs-descriptor", ErrSyntax)
	}
	if v := all[0].args; len(v) == 0 || v[0] != "3" {
		return nil, fmt.Errorf("%w: %w of hs-descriptor, need 3", ErrSyntax, errUnsupported)
	}
	if last := all[len(all)-1]; !last.is("signature", "") {
		return nil, fmt.Errorf("%w: does not end with the signature", ErrSyntax)
	}
	one, err := each(all, "hs-descriptor", "descriptor-lifetime", "descriptor-signing-key-cert",
		"revision-counter", "superencrypted", "signature")
	if err != nil {
		return nil, err
	}
	s := &Sealed{}
	minutes, err := one["descriptor-lifetime"].number(0)
	if err != nil || minutes == 0 || minutes > 7*24*60 {
		return nil, fmt.Errorf("%w: descriptor-lifetime is no number of minutes", ErrSyntax)
	}
	s.Lifetime = time.Duration(minutes) * time.Minute
	if s.Revision, err = one["revision-counter"].number(0); err != nil {
		return nil, err
	}
	if box := one["superencrypted"]; box.is("superencrypted", tagMessage) {
		s.body = box.object
	} else {
		return nil, fmt.Errorf("%w: superencrypted has no %s", ErrSyntax, tagMessage)
	}
	certItem := one["descriptor-signing-key-cert"]
	if !certItem.is("descriptor-signing-key-cert", tagCert) {
		return nil, fmt.Errorf("%w: descriptor-signing-key-cert has no %s", ErrSyntax, tagCert)
	}
	c, err := ParseCert(certItem.object)
	if err != nil {
		return nil, err
	}
	s.Blinded, s.Key, s.Expires = c.Signer, c.Key, c.Expires
	return s, c.Valid(CertSigning, s.Blinded, now)
}

// each returns the items of these keywords, each of which must stand there
// exactly once.
func each(all []item, keywords ...string) (map[string]item, error) {
	one := make(map[string]item, len(keywords))
	for _, k := range keywords {
		one[k] = item{}
	}
	for _, it := range all {
		if seen, wanted := one[it.keyword]; wanted {
			if seen.keyword != "" {
				return nil, fmt.Errorf("%w: %s twice", ErrSyntax, it.keyword)
			}
			one[it.keyword] = it
		}
	}
	for _, k := range keywords {
		if one[k].keyword == "" {
			return nil, fmt.Errorf("%w: no %s", ErrSyntax, k)
		}
	}
	return one, nil
}

func (it item) number(i int) (uint64, error) {
	if i < len(it.args) {
		if n, err := strconv.ParseUint(it.args[i], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: %s: argument %d is no number", ErrSyntax, it.keyword, i+1)
}

// Period returns the period, of those given, in which the descriptor is of the
// address.
func (s *Sealed) Period(a Address, among []Period) (Period, error) {
	for _, p := range among {
		if a.Blind(p) == s.Blinded {
			return p, nil
		}
	}
	return Period{}, fmt.Errorf("%w: not of %s in any of %v", ErrForeign, a, among)
}

func (s *Sealed) layer(name string, subcred Subcredential, cookie []byte) layer {
	return layer{name: name, blinded: s.Blinded, cookie: cookie, subcred: subcred, revision: s.Revision}
}

// encodeOuter writes the outer layer around body and signs it.
func encodeOuter(by blindedSecret, key ed25519.PrivateKey, expires time.Time, revision uint64, body []byte) []byte {
	cert := Cert{
		Type: CertSigning, KeyType: 1, Signer: by.public, Expires: expires,
		Key: [32]byte(key.Public().(ed25519.PublicKey)),
	}
	out := make([]byte, 0, len(body)*3/2+1024)
	out = append(out, "hs-descriptor 3\ndescriptor-lifetime "+strconv.Itoa(lifetime)+"\ndescriptor-signing-key-cert\n"...)
	out = appendObject(out, tagCert, cert.encode(by.sign))
	out = append(out, "revision-counter "+strconv.FormatUint(revision, 10)+"\nsuperencrypted\n"...)
	out = appendObject(out, tagMessage, body)
	sig := ed25519.Sign(key, append([]byte(signaturePrefix), out...))
	return append(out, "signature "+strings.TrimRight(base64.StdEncoding.EncodeToString(sig), "=")+"\n"...)
}
