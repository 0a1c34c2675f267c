package status

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/status/door"
)

// listening starts a server that takes requests of users on two addresses, of which
// one is for TLS, and returns their URLs and the pin.
func listening(t *testing.T, f *fake) (plain, secure, pin string) {
	t.Helper()
	var r *running
	dir := t.TempDir()
	r = start(t, f, func(o *Options, s *Server) {
		if s != nil {
			return
		}
		o.ClusterID = testCluster
		n := 0
		o.API = door.API{
			Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0")}, Dir: dir,
			Origins: []string{"https://portal.example"},
			Open: func(ctx context.Context, at netip.AddrPort) (net.Listener, bool, error) {
				l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
				n++
				return l, n == 1, err
			},
		}
	})
	ends := r.handlers.o.Endpoints
	if len(ends) != 2 || ends[0].Pin != "" || !strings.HasPrefix(ends[1].URL, "https://127.0.0.1:") || !strings.HasPrefix(ends[1].Pin, "sha256:") {
		t.Fatalf("endpoints %+v", ends)
	}
	return ends[0].URL, ends[1].URL, ends[1].Pin
}

// TestUsersListener: who proves to ask is served, over TLS by a pinned key, and of
// several hosts the next is asked where one does not answer.
func TestUsersListener(t *testing.T) {
	f := newFake()
	f.job.Owner = "user:ann"
	f.users = access.NewDirectory([]access.User{someone("ann", access.Submitter)})
	plain, secure, pin := listening(t, f)
	ask := func(target string, o client.Options) error {
		o.Endpoints, o.Once = strings.Split(target, ","), true
		c, err := client.Dial(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.API().StopJob(t.Context(), string(jobA), "")
		return err
	}
	ann := client.Options{Key: userKey("ann"), Pins: []string{pin}}
	for _, target := range []string{plain, secure, "127.0.0.1:1," + secure + "," + plain} {
		if err := ask(target, ann); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if f.actors[0] != "user:ann" {
		t.Errorf("actors %v", f.actors)
	}
	if err := ask(plain, client.Options{}); !api.IsCode(err, api.CodeUnauthorized) {
		t.Errorf("without a proof: %v", err)
	}
	if err := ask(plain, client.Options{Key: userKey("bob")}); !api.IsCode(err, api.CodeUnauthorized) {
		t.Errorf("with a key of nobody: %v", err)
	}
	if err := ask(secure, client.Options{Key: userKey("ann"), Pins: []string{"sha256:" + strings.Repeat("00", 32)}}); err == nil {
		t.Errorf("another pin: %v", err)
	}
	if err := ask(secure, client.Options{Key: userKey("ann")}); err == nil {
		t.Error("no pin: the certificate is nobody's")
	}
	for version, want := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		// Which key it is the pin says; here it is how they speak.
		conf := &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: version, InsecureSkipVerify: true} //nolint:gosec // see above
		conn, err := (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", strings.TrimPrefix(secure, "https://"))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	ann.Endpoints = []string{secure}
	c, err := client.Dial(ann)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if a, err := c.API().PutArtefact(t.Context(), strings.NewReader("module")); err != nil || a.SizeBytes != 6 {
		t.Errorf("upload: %+v, %v", a, err)
	}
}

func TestCrossOrigin(t *testing.T) {
	plain, _, _ := listening(t, newFake())
	for origin, want := range map[string]string{"https://portal.example": "https://portal.example", "https://evil.example": ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, plain+"/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "GET")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: %q", origin, got)
		}
		for name, value := range map[string]string{"Access-Control-Allow-Headers": api.HeaderTimeout, "Access-Control-Expose-Headers": "Retry-After"} {
			if got := resp.Header.Get(name); strings.Contains(got, value) != (want != "") {
				t.Errorf("%s: %s: %q", origin, name, got)
			}
		}
	}
}
