package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// identityCertificate wraps an identity key into the self-signed certificate
// that TLS wants. Nobody looks at anything in it but the key.
func identityCertificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "skein"}, // who asks learns no more than the key
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tlsBase is what both ends have in common: TLS 1.3, both identities shown,
// chains and names ignored, keys checked by verify.
func tlsBase(cert tls.Certificate, verify func(ed25519.PublicKey) error) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection pins the identity key
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) != 1 {
				return fmt.Errorf("%d certificates: %w", len(cs.PeerCertificates), ErrIdentity)
			}
			pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok {
				return fmt.Errorf("not an Ed25519 key: %w", ErrIdentity)
			}
			if cs.NegotiatedProtocol == "" {
				return errors.New("no protocol chosen")
			}
			return verify(pub)
		},
	}
}
