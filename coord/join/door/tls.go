package door

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// ServerTLS is TLS 1.3 with a self-signed certificate of a sponsor's identity key. Its
// names and dates mean nothing: the joiner pins the key.
func ServerTLS(key ed25519.PrivateKey) (*tls.Config, error) {
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "skein"},
		DNSNames:     []string{"skein"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
	}, nil
}

// ClientTLS accepts only a server that holds pin.
func ClientTLS(pin ed25519.PublicKey) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: "skein",
		NextProtos: []string{"http/1.1"},
		// Instead of a chain and a name, VerifyConnection compares the key.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return ErrPin
			}
			if pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !pub.Equal(pin) {
				return ErrPin
			}
			return nil
		},
	}
}
