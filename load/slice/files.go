package slice

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/skein-project/skein/load"
)

// maxSecret bounds a file with a secret.
const maxSecret = 64 << 10

// Secret is the content of a file of a directory, without the end of its last line.
func Secret(dir, name string) (string, bool) {
	if dir == "" || name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return "", false
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	return strings.TrimRight(string(text), "\r\n"), err == nil && len(text) <= maxSecret
}

// TLS is what a scenario asks for; read gets its files.
func TLS(o load.TLSOptions, read func(name string) ([]byte, error)) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName, InsecureSkipVerify: o.Insecure} //nolint:gosec // whoever writes the scenario says so
	if o.Min == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	if o.CA != "" {
		text, err := read(o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("http.tls.ca: %s has no certificate in PEM", o.CA)
		}
	}
	if o.Cert != "" {
		cert, err := read(o.Cert)
		key, err2 := read(o.Key)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("http.tls: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
