package certfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pair writes a certificate that is good from and until, and its key.
func pair(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "h1"}, DNSNames: []string{"h1"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, about, about, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "CERTIFICATE", der), write(t, "PRIVATE KEY", secret)
}

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLoad: what clients would not take is refused, and the file and what to do are named.
func TestLoad(t *testing.T) {
	cert, key := pair(t, now.Add(-time.Hour), now.Add(time.Hour))
	_, other := pair(t, now.Add(-time.Hour), now.Add(time.Hour))
	old, oldKey := pair(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, earlyKey := pair(t, now.Add(time.Hour), now.Add(2*time.Hour))
	garbage := write(t, "CERTIFICATE", []byte("garbage"))
	none := filepath.Join(t.TempDir(), "none.pem")
	if c, err := Load(cert, key, now); err != nil || c.Leaf.Subject.CommonName != "h1" {
		t.Fatalf("a good one: %v", err)
	}
	for name, c := range map[string]struct {
		cert, key string
		ofKey     bool
		named     string
		text      string
	}{
		"no certificate":       {none, key, false, none, "must be able to read"},
		"no key":               {cert, none, true, none, "must be able to read"},
		"a folder":             {filepath.Dir(cert), key, false, filepath.Dir(cert), "is no file"},
		"a key as certificate": {key, key, false, key, "holds no certificate"},
		"a certificate as key": {cert, cert, true, cert, "holds no private key"},
		"another's key":        {cert, other, true, other, "does not match"},
		"garbage":              {garbage, key, true, garbage, "issued for"},
		"ended":                {old, oldKey, false, old, "have it renewed"},
		"not yet":              {early, earlyKey, false, early, "clock"},
	} {
		_, err := Load(c.cert, c.key, now)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.OfKey != c.ofKey || !strings.Contains(e.Msg, c.named) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %s and %q", name, err, c.named, c.text)
		}
	}
}
