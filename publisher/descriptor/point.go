package descriptor

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Fingerprint is the RSA identity of a relay, by which directories and
// introduction points are told apart.
type Fingerprint [20]byte

// String returns 40 upper-case hex digits, the form of the control port.
func (f Fingerprint) String() string { return strings.ToUpper(hex.EncodeToString(f[:])) }

// ParseFingerprint reads 40 hex digits, with or without the $ and the nickname
// that the control port puts around them.
func ParseFingerprint(text string) (f Fingerprint, err error) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(text, "$"), "~")
	if len(digits) != 2*len(f) {
		return f, fmt.Errorf("%w: relay fingerprint of %d characters, need 40", ErrSyntax, len(digits))
	}
	if _, err := hex.Decode(f[:], []byte(digits)); err != nil {
		return f, fmt.Errorf("%w: relay fingerprint is not hex", ErrSyntax)
	}
	return f, nil
}

// Point is an introduction point. Two are the same if they are equal: the
// certificates are made anew with each descriptor.
type Point struct {
	Relay    Fingerprint
	Links    string   // link specifiers, encoded as they came
	OnionKey [32]byte // of the relay, ntor
	AuthKey  [32]byte
	EncKey   [32]byte // of the service, X25519
	// EncCert is what the certificate of the encryption key is for, and the
	// type it has there.
	EncCert     [32]byte
	AuthKeyType byte
	EncKeyType  byte
}

func (p Point) String() string {
	return fmt.Sprintf("point at %s auth %s", p.Relay, hex.EncodeToString(p.AuthKey[:4]))
}

// The kinds of link specifiers, and how long each is.
const (
	linkIPv4    = 0
	linkIPv6    = 1
	linkRSA     = 2
	linkEd25519 = 3
)

func linkSize(kind byte) int {
	switch kind {
	case linkIPv4:
		return 4 + 2
	case linkIPv6:
		return 16 + 2
	case linkRSA:
		return 20
	case linkEd25519:
		return 32
	}
	return -1
}

// maxLinks are one specifier of each kind: MaxPoints points of that size fit in
// a descriptor with MaxClients clients, whoever they are of.
const maxLinks = 1 + 4*2 + (4 + 2) + (16 + 2) + 20 + 32

// relayOf finds the RSA identity within link specifiers.
func relayOf(links []byte) (f Fingerprint, err error) {
	bad := func(why string) (Fingerprint, error) {
		return Fingerprint{}, fmt.Errorf("%w: link specifiers: %s", ErrPoint, why)
	}
	if len(links) == 0 {
		return bad("none")
	}
	if len(links) > maxLinks {
		return bad(fmt.Sprintf("%d bytes, at most %d", len(links), maxLinks))
	}
	n, rest, found := int(links[0]), links[1:], false
	for range n {
		if len(rest) < 2 || len(rest) < 2+int(rest[1]) {
			return bad("cut off")
		}
		kind, value := rest[0], rest[2:2+int(rest[1])]
		if want := linkSize(kind); want >= 0 && want != len(value) {
			return bad(fmt.Sprintf("kind %d of %d bytes", kind, len(value)))
		}
		if kind == linkRSA {
			if found {
				return bad("two RSA identities")
			}
			f, found = Fingerprint(value), true
		}
		rest = rest[2+len(value):]
	}
	switch {
	case len(rest) != 0:
		return bad("bytes left over")
	case !found:
		return bad("no RSA identity")
	}
	return f, nil
}

// parsePoint reads the items of one introduction point. Its certificates must
// be by signer, the key of the descriptor.
func parsePoint(all []item, signer [32]byte, now time.Time) (p Point, err error) {
	for _, it := range all {
		if it.keyword == "legacy-key" || it.keyword == "legacy-key-cert" {
			return p, fmt.Errorf("%w: legacy key", ErrPoint)
		}
	}
	one, err := each(all, "introduction-point", "auth-key", "enc-key-cert")
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrPoint, err)
	}
	if len(one["introduction-point"].args) != 1 {
		return p, fmt.Errorf("%w: introduction-point needs one argument", ErrPoint)
	}
	links, err := decode64(one["introduction-point"].args[0])
	if err != nil {
		return p, fmt.Errorf("%w: link specifiers are not base64", ErrPoint)
	}
	if p.Relay, err = relayOf(links); err != nil {
		return p, err
	}
	p.Links = string(links)
	if p.OnionKey, err = ntorKey(all, "onion-key"); err != nil {
		return p, err
	}
	if p.EncKey, err = ntorKey(all, "enc-key"); err != nil {
		return p, err
	}
	auth, err := pointCert(one["auth-key"], CertAuth, signer, now)
	if err != nil {
		return p, err
	}
	enc, err := pointCert(one["enc-key-cert"], CertEnc, signer, now)
	if err != nil {
		return p, err
	}
	p.AuthKey, p.AuthKeyType = auth.Key, auth.KeyType
	p.EncCert, p.EncKeyType = enc.Key, enc.KeyType
	return p, nil
}

// ntorKey reads the one line with a key of kind ntor. Keys of other kinds are
// left to those who know them.
func ntorKey(all []item, keyword string) (key [32]byte, err error) {
	found := false
	for _, it := range all {
		if it.keyword != keyword || len(it.args) == 0 || it.args[0] != "ntor" {
			continue
		}
		raw, err := it.fixed64(1, len(key))
		if err != nil {
			return key, fmt.Errorf("%w: %w", ErrPoint, err)
		}
		if found {
			return key, fmt.Errorf("%w: two lines %s ntor", ErrPoint, keyword)
		}
		key, found = [32]byte(raw), true
	}
	if !found {
		return key, fmt.Errorf("%w: no %s ntor", ErrPoint, keyword)
	}
	return key, nil
}

func pointCert(it item, kind CertType, signer [32]byte, now time.Time) (Cert, error) {
	if it.tag != tagCert {
		return Cert{}, fmt.Errorf("%w: %s has no %s", ErrPoint, it.keyword, tagCert)
	}
	c, err := ParseCert(it.object)
	if err == nil {
		err = c.Valid(kind, signer, now)
	}
	if err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrPoint, it.keyword, err)
	}
	return c, nil
}

// append writes the point with fresh certificates by the descriptor's key.
func (p Point) append(out []byte, signer [32]byte, expires time.Time, sign func([]byte) []byte) []byte {
	line := func(keyword string, raw []byte) {
		out = append(append(append(out, keyword...), base64.StdEncoding.EncodeToString(raw)...), '\n')
	}
	cert := func(keyword string, kind CertType, keyType byte, key [32]byte) {
		c := Cert{Type: kind, KeyType: keyType, Key: key, Signer: signer, Expires: expires}
		out = appendObject(append(append(out, keyword...), '\n'), tagCert, c.encode(sign))
	}
	line("introduction-point ", []byte(p.Links))
	line("onion-key ntor ", p.OnionKey[:])
	cert("auth-key", CertAuth, p.AuthKeyType, p.AuthKey)
	line("enc-key ntor ", p.EncKey[:])
	cert("enc-key-cert", CertEnc, p.EncKeyType, p.EncCert)
	return out
}
