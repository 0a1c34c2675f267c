package access

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Window is how far the time of a proof may be from the clock that checks it.
const Window = time.Minute

// NonceBytes is how long the nonce of a proof is, before base64url.
const NonceBytes = 16

// Headers of a signed request.
const (
	HeaderKey       = "Skein-Key"       // KeyID, or the id of an outside worker
	HeaderTime      = "Skein-Time"      // Unix time, ms
	HeaderNonce     = "Skein-Nonce"     // NonceBytes in base64url
	HeaderSignature = "Skein-Signature" // Ed25519, base64url
	// HeaderBody is the SHA-256 of a body that is too long to be read before it is
	// taken, in hex; the proof covers it in the body's place.
	HeaderBody = "Skein-Body"
)

// ErrProof is wrapped by every error about a proof. Whoever asked is told no more
// than that; the reason is for the log of the host.
var ErrProof = errors.New("proof refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProof, fmt.Sprintf(format, args...))
}

// Request is what a proof covers of a request.
type Request struct {
	Cluster string // its id
	Method  string
	Host    string // as the client named the server, in lower case: host or host:port
	Path    string // escaped
	Query   string // raw, without '?'
	Body    [sha256.Size]byte
	// Outside is of an outside worker: its key is named by its id, and no signature of a
	// worker is one of a user who has the same key.
	Outside bool
}

// keyID is how r names the key that signs it.
func (r Request) keyID(key ed25519.PublicKey) string {
	if r.Outside {
		return string(cluster.OutsideID(key))
	}
	return KeyID(key)
}

// Proof says which key signed a request, and when. It travels in headers.
type Proof struct {
	Key       string
	Time      time.Time // ms
	Nonce     string
	Signature []byte
}

// What begins the text that is signed.
const (
	domain        = "skein-request-1"
	outsideDomain = "skein-gw-v1"
)

// message is what is signed: fields that hold no line end, each ended by one.
func (p Proof) message(r Request) ([]byte, error) {
	begin := domain
	if r.Outside {
		begin = outsideDomain
	}
	fields := []string{
		begin, r.Cluster, r.Method, r.Host, r.Path, r.Query,
		strconv.FormatInt(p.Time.UnixMilli(), 10), p.Nonce, p.Key, hex.EncodeToString(r.Body[:]),
	}
	var b []byte
	for _, f := range fields {
		if strings.ContainsAny(f, "\r\n") {
			return nil, refused("a field holds the end of a line")
		}
		b = append(append(b, f...), '\n')
	}
	return b, nil
}

// Sign proves r with key at the time now; nonce is random.
func Sign(r Request, key ed25519.PrivateKey, nonce [NonceBytes]byte, now time.Time) (Proof, error) {
	p := Proof{
		Key:   r.keyID(key.Public().(ed25519.PublicKey)),
		Time:  time.UnixMilli(now.UnixMilli()),
		Nonce: base64.RawURLEncoding.EncodeToString(nonce[:]),
	}
	text, err := p.message(r)
	if err != nil {
		return Proof{}, err
	}
	p.Signature = ed25519.Sign(key, text)
	return p, nil
}

// Header is the part of http.Header that a proof needs.
type Header interface {
	Get(name string) string
	Values(name string) []string
	Set(name, value string)
}

// Put writes p into the headers of a request.
func (p Proof) Put(h Header) {
	h.Set(HeaderKey, p.Key)
	h.Set(HeaderTime, strconv.FormatInt(p.Time.UnixMilli(), 10))
	h.Set(HeaderNonce, p.Nonce)
	h.Set(HeaderSignature, base64.RawURLEncoding.EncodeToString(p.Signature))
}

// ProofOf reads a proof from headers; false if there is none at all.
func ProofOf(h Header) (Proof, bool, error) {
	if h.Get(HeaderSignature) == "" {
		return Proof{}, false, nil
	}
	var p Proof
	for _, name := range []string{HeaderKey, HeaderTime, HeaderNonce, HeaderSignature} {
		if v := h.Values(name); len(v) != 1 || len(v[0]) > 128 {
			return Proof{}, true, refused("header %s is missing, there twice or too long", name)
		}
	}
	ms, err := strconv.ParseInt(h.Get(HeaderTime), 10, 64)
	if err != nil {
		return Proof{}, true, refused("header %s is no time", HeaderTime)
	}
	p.Key, p.Time, p.Nonce = h.Get(HeaderKey), time.UnixMilli(ms), h.Get(HeaderNonce)
	p.Signature, err = base64.RawURLEncoding.Strict().DecodeString(h.Get(HeaderSignature))
	if err != nil {
		return Proof{}, true, refused("header %s is no signature", HeaderSignature)
	}
	return p, true, p.check()
}

// check refuses what Sign would not have made.
func (p Proof) check() error {
	if len(p.Key) != len(KeyID(nil)) && !cluster.IsOutside(cluster.NodeID(p.Key)) {
		return refused("key %.32q is no id of a key", p.Key)
	}
	if n, err := base64.RawURLEncoding.Strict().DecodeString(p.Nonce); err != nil || len(n) != NonceBytes {
		return refused("nonce is not %d bytes", NonceBytes)
	}
	if len(p.Signature) != ed25519.SignatureSize {
		return refused("signature is not %d bytes", ed25519.SignatureSize)
	}
	return nil
}

// Verify checks that key, whose id p names, signed r within Window of now. A nonce
// that was there before is for the caller to refuse, afterwards: who cannot sign
// fills no Nonces.
func (p Proof) Verify(r Request, key ed25519.PublicKey, now time.Time) error {
	if err := p.check(); err != nil {
		return err
	}
	if d := now.Sub(p.Time).Abs(); d > Window {
		return refused("signed %v away from the time here", d.Round(time.Second))
	}
	if p.Key != r.keyID(key) {
		return refused("signed by key %.32q", p.Key)
	}
	text, err := p.message(r)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, text, p.Signature) {
		return refused("the signature is not one of this request")
	}
	return nil
}
