package client

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options says whom to ask, and as whom.
type Options struct {
	// Endpoints are hosts of one cluster: https://host:port, http://host:port, or the
	// path of a daemon's socket.
	Endpoints []string
	// Key is the user's; every request is signed with it. Nil: none is.
	Key ed25519.PrivateKey
	// Pins are what `skein user add` shows of the endpoints: "sha256:" and hex, of the
	// key in a certificate. With any, one of them must be that of a host; with none,
	// the host needs a certificate that this machine trusts.
	Pins []string
	// Cluster is the id of the cluster, which is signed as well; empty: the first
	// endpoint that answers says it.
	Cluster string
	// Once has a request fail when it failed at every endpoint. What is refused as
	// overloaded is asked again a few times all the same.
	Once bool
}

// check returns what TLS is to ask for.
func (o Options) check() (*tls.Config, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("dial cluster: no endpoint given")
	}
	if o.Key != nil && len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("dial cluster: the key is none of Ed25519")
	}
	conf, err := TLS(o.Pins)
	if err != nil {
		return nil, fmt.Errorf("dial cluster: %w", err)
	}
	return conf, nil
}

// TLS is what to ask of a host that has one of these pins, or with none a certificate
// that this machine trusts.
func TLS(pinned []string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	var pins [][]byte
	for _, text := range pinned {
		digits, ok := strings.CutPrefix(text, "sha256:")
		pin, err := hex.DecodeString(digits)
		if !ok || err != nil || len(pin) != sha256.Size {
			return nil, fmt.Errorf("pin %.80q, want sha256: and %d hex digits", text, 2*sha256.Size)
		}
		pins = append(pins, pin)
	}
	if len(pins) == 0 {
		return conf, nil
	}
	conf.InsecureSkipVerify = true // the pin is checked instead
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		if !slices.ContainsFunc(pins, func(p []byte) bool { return string(p) == string(sum[:]) }) {
			return fmt.Errorf("its key is sha256:%x, %w", sum, ErrNotPinned)
		}
		return nil
	}
	return conf, nil
}

// Pin is what Options.Pins calls the key of a certificate.
func Pin(cert *x509.Certificate) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(cert.RawSubjectPublicKeyInfo))
}

// ErrNotPinned is wrapped by errors about a host whose key is none of Options.Pins:
// another one, or somebody in between.
var ErrNotPinned = errors.New("which is not pinned")

// ErrNotAPI is wrapped by errors about what answers and takes no requests of users.
var ErrNotAPI = errors.New("no host that users may ask")

type patienceKey struct{}

// Patiently returns a context in which a request is tried again, whatever
// Options.Once says, until the context ends or asked, if it is not nil, returns an
// error: it is called with why each further try is needed.
func Patiently(ctx context.Context, asked func(cause error) error) context.Context {
	if asked == nil {
		asked = func(error) error { return nil }
	}
	return context.WithValue(ctx, patienceKey{}, asked)
}
