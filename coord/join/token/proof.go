package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// Step is what a newcomer asks for with a proof.
type Step string

// The steps of a join.
const (
	// Ask asks whether the sponsor would admit the newcomer. It changes nothing.
	Ask Step = "skein/join/ask/2\n"
	// Confirm says that the newcomer has checked the sponsor's word against its
	// token: from now on a use is spent.
	Confirm Step = "skein/join/confirm/2\n"
)

// bindingLabel is that of the keying material which binds a proof to its connection.
const bindingLabel = "EXPORTER-skein-join-proof"

// Proof proves that t was handed over as it was made: it is the HMAC, under the
// secret, of all that a token says and of the connection that it is sent on, in
// base64url. The addresses are not part of it, since a server at a wrong one lacks
// the sponsor's key, nor is the sponsor's WireGuard key, which the newcomer's
// request proves.
func (t Token) Proof(step Step, conn tls.ConnectionState) (string, error) {
	binding, err := conn.ExportKeyingMaterial(bindingLabel, nil, sha256.Size)
	if err != nil {
		return "", err
	}
	h := hmac.New(sha256.New, t.Secret.Bytes())
	h.Write([]byte(step))
	for _, f := range [][]byte{
		binding, t.Cluster[:], t.IDPub, t.RootPub, []byte(t.Network.String()), []byte(t.Invite),
		[]byte(strconv.FormatInt(t.Deadline.Unix(), 10)),
	} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f))))
		h.Write(f)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)), nil
}
