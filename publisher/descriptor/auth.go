package descriptor

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha3"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"strings"
)

// Restricted discovery: the inner layer opens only with a cookie, which the
// middle layer holds encrypted for each client's X25519 key. Entries come in
// sixteens, the rest random, so that nobody can count the clients.
const (
	authMultiple = 16
	// MaxClients is how many keys fit in a descriptor with MaxPoints points and
	// the entry of the publisher itself, see Built.Probe.
	MaxClients = 7*authMultiple - 1

	clientIDLen = 8
	ivLen       = 16
)

// clientBox is an auth-client entry.
type clientBox struct {
	id     [clientIDLen]byte
	iv     [ivLen]byte
	cookie [cookieLen]byte
}

// clientSecret is what one client and the descriptor share: the client's entry
// is named id, and key encrypts the cookie in it.
func clientSecret(subcred Subcredential, own *ecdh.PrivateKey, other *ecdh.PublicKey) (id [clientIDLen]byte, key [32]byte, err error) {
	shared, err := own.ECDH(other)
	if err != nil {
		return id, key, fmt.Errorf("%w: %w", ErrClientKey, err)
	}
	h := sha3.NewSHAKE256()
	_, _ = h.Write(subcred[:])
	_, _ = h.Write(shared)
	_, _ = h.Read(id[:])
	_, _ = h.Read(key[:])
	return id, key, nil
}

func sealCookie(cookie [cookieLen]byte, iv [ivLen]byte, id [clientIDLen]byte, key [32]byte) clientBox {
	b := clientBox{id: id, iv: iv}
	ctr(key, iv).XORKeyStream(b.cookie[:], cookie[:])
	return b
}

// middle is the content of the first encrypted layer.
type middle struct {
	ephemeral [32]byte
	clients   []clientBox
	body      []byte
}

func parseMiddle(text []byte) (m middle, err error) {
	all, err := items(text, maxItems)
	if err != nil {
		return m, err
	}
	one, err := each(all, "desc-auth-type", "desc-auth-ephemeral-key", "encrypted")
	if err != nil {
		return m, err
	}
	if t := one["desc-auth-type"].args; len(t) == 0 || t[0] != "x25519" {
		return m, fmt.Errorf("%w: %w of desc-auth-type, need x25519", ErrSyntax, errUnsupported)
	}
	key, err := one["desc-auth-ephemeral-key"].fixed64(0, 32)
	if err != nil {
		return m, err
	}
	m.ephemeral = [32]byte(key)
	for _, it := range all {
		if it.keyword != "auth-client" {
			continue
		}
		id, err1 := it.fixed64(0, clientIDLen)
		iv, err2 := it.fixed64(1, ivLen)
		cookie, err3 := it.fixed64(2, cookieLen)
		if err1 != nil || err2 != nil || err3 != nil {
			return m, fmt.Errorf("%w: auth-client needs an id, an iv and a cookie", ErrSyntax)
		}
		m.clients = append(m.clients, clientBox{[clientIDLen]byte(id), [ivLen]byte(iv), [cookieLen]byte(cookie)})
	}
	box := one["encrypted"]
	if !box.is("encrypted", tagMessage) {
		return m, fmt.Errorf("%w: encrypted has no %s", ErrSyntax, tagMessage)
	}
	m.body = box.object
	return m, nil
}

func (m middle) encode() []byte {
	out := []byte("desc-auth-type x25519\ndesc-auth-ephemeral-key " + base64.StdEncoding.EncodeToString(m.ephemeral[:]) + "\n")
	raw := base64.RawStdEncoding
	for _, c := range m.clients {
		out = append(out, "auth-client "+raw.EncodeToString(c.id[:])+" "+raw.EncodeToString(c.iv[:])+" "+
			raw.EncodeToString(c.cookie[:])+"\n"...)
	}
	out = append(out, "encrypted\n"...)
	return bytes.TrimSuffix(appendObject(out, tagMessage, m.body), []byte("\n"))
}

// cookie finds the entry of a client and opens it.
func (m middle) cookie(subcred Subcredential, client *ecdh.PrivateKey) ([]byte, error) {
	ephemeral, err := ecdh.X25519().NewPublicKey(m.ephemeral[:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClientKey, err)
	}
	id, key, err := clientSecret(subcred, client, ephemeral)
	if err != nil {
		return nil, err
	}
	for _, c := range m.clients {
		if c.id == id {
			cookie := make([]byte, cookieLen)
			ctr(key, c.iv).XORKeyStream(cookie, c.cookie[:])
			return cookie, nil
		}
	}
	return nil, fmt.Errorf("%w: no entry for this key", ErrClientAuth)
}

const clientKeyHead = "descriptor:x25519:"

var keyBase32 = base32.StdEncoding.WithPadding(base32.NoPadding)

// ParseClientKey reads the public key of a client in the form of tor's .auth
// files, descriptor:x25519:<base32>.
func ParseClientKey(text string) (*ecdh.PublicKey, error) {
	raw, err := clientKeyBytes(text)
	if err != nil {
		return nil, err
	}
	pub, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClientKey, err)
	}
	// A key of small order shares the same secret with everybody.
	probe, err := ecdh.X25519().NewPrivateKey([]byte("any scalar shows a weak point..."))
	if err != nil {
		panic("descriptor: 32 bytes are a key of X25519: " + err.Error())
	}
	if _, err := probe.ECDH(pub); err != nil {
		return nil, fmt.Errorf("%w: of small order", ErrClientKey)
	}
	return pub, nil
}

// FormatClientKey writes the line of a .auth file.
func FormatClientKey(k *ecdh.PublicKey) string {
	return clientKeyHead + keyBase32.EncodeToString(k.Bytes())
}

// FormatClientSecret writes the line of a .auth_private file. It is a secret of
// the client.
func FormatClientSecret(a Address, k *ecdh.PrivateKey) string {
	return a.ID() + ":" + clientKeyHead + keyBase32.EncodeToString(k.Bytes())
}

func clientKeyBytes(text string) ([]byte, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(text), clientKeyHead)
	if !ok {
		return nil, fmt.Errorf("%w: does not begin with %s", ErrClientKey, clientKeyHead)
	}
	raw, err := keyBase32.DecodeString(strings.ToUpper(strings.TrimRight(body, "=")))
	if err != nil || len(raw) != 32 {
		return nil, fmt.Errorf("%w: not base32 of 32 bytes", ErrClientKey)
	}
	return raw, nil
}
