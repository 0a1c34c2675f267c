package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTargetWithACertificate: a host whose certificate this machine trusts needs no pin,
// and one that has the certificate of another is refused.
func TestTargetWithACertificate(t *testing.T) {
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer host.Close()
	trust := x509.NewCertPool()
	trust.AddCert(host.Certificate()) // of 127.0.0.1
	ask := func(url string) error {
		target, err := ParseTarget(url)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.Base(), nil)
		if err != nil {
			t.Fatal(err)
		}
		rt := target.Transport(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trust})
		defer rt.CloseIdleConnections()
		resp, err := rt.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := ask(host.URL); err != nil {
		t.Error(err)
	}
	err := ask(strings.Replace(host.URL, "127.0.0.1", "localhost", 1))
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !refused {
		t.Errorf("by a name that the certificate has not: %v", err)
	}
}
