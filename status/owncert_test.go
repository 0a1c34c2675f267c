package status

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/status/door"
)

// issued writes a certificate of an authority for 127.0.0.1, and its key.
func issued(t *testing.T, until time.Time) (api door.API, authority *x509.CertPool, leaf *x509.Certificate) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	from := until.Add(-48 * time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: until, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	of := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "h1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, of, ca, key.Public(), root)
	must(err)
	leaf, err = x509.ParseCertificate(der)
	must(err)
	rootDER, err := x509.CreateCertificate(rand.Reader, ca, ca, root.Public(), root)
	must(err)
	top, err := x509.ParseCertificate(rootDER)
	must(err)
	authority = x509.NewCertPool()
	authority.AddCert(top)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	dir := t.TempDir()
	api = door.API{
		TLSCert: filepath.Join(dir, "c.pem"), TLSKey: filepath.Join(dir, "k.pem"), Dir: dir, Name: "h1",
		Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		Open: func(ctx context.Context, at netip.AddrPort) (net.Listener, bool, error) {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
			return l, false, err
		},
		Limit: func(l net.Listener) net.Listener { return l },
	}
	must(os.WriteFile(api.TLSCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(api.TLSKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return api, authority, leaf
}

// TestOwnCertificate: the certificate that the configuration names is served, has no
// pin to tell, and is good by its authority and by its pin, but by no other.
func TestOwnCertificate(t *testing.T) {
	own, authority, leaf := issued(t, time.Now().Add(24*time.Hour))
	f := newFake()
	f.job.Owner = "user:ann"
	f.users = access.NewDirectory([]access.User{someone("ann", access.Submitter)})
	r := start(t, f, func(o *Options, s *Server) {
		if s == nil {
			o.ClusterID, o.API = testCluster, own
		}
	})
	ends := r.handlers.o.Endpoints
	if len(ends) != 1 || ends[0].Pin != "" || !strings.HasPrefix(ends[0].URL, "https://127.0.0.1:") {
		t.Fatalf("endpoints %+v", ends)
	}
	for name, c := range map[string]struct {
		roots *x509.CertPool
		good  bool
	}{"its authority": {authority, true}, "another one": {x509.NewCertPool(), false}} {
		conf := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: c.roots}
		conn, err := (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", strings.TrimPrefix(ends[0].URL, "https://"))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.good {
			t.Errorf("trusting %s: %v", name, err)
		}
	}
	for pin, good := range map[string]bool{client.Pin(leaf): true, "sha256:" + strings.Repeat("00", 32): false} {
		c, err := client.Dial(client.Options{Endpoints: []string{ends[0].URL}, Key: userKey("ann"), Pins: []string{pin}, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.API().StopJob(t.Context(), string(jobA), ""); (err == nil) != good {
			t.Errorf("pin %s: %v", pin, err)
		}
	}
}

// TestOwnCertificateEnded: a host does not listen with what its clients refuse.
func TestOwnCertificateEnded(t *testing.T) {
	own, _, _ := issued(t, time.Now().Add(-time.Hour))
	open, _, err := own.OpenAll(t.Context())
	if err == nil {
		door.CloseAll(open)
	}
	if err == nil || !strings.Contains(err.Error(), own.TLSCert+" ended ") || !strings.Contains(err.Error(), "have it renewed") {
		t.Errorf("%v, want the file, that it ended, and what to do", err)
	}
}
