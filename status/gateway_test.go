package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/status/door"
)

// TestSignedForAGateway: what names the gateway counts there, once, and nowhere else on
// this host; what came to this host by another way is the same there.
func TestSignedForAGateway(t *testing.T) {
	const gateway = "gw1.example.org:8443"
	s, _ := usersServer(t, nil)
	time.Sleep(2 * time.Millisecond) // proofs are of milliseconds
	users := &contract{t: t, next: s.ForUsers()}
	peer := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: gateway}}
	ask := func(h http.Handler, r *http.Request, as door.Peer) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.Clone(door.With(t.Context(), as)))
		return w.Code
	}
	r := asUser(t, "ann", "GET", "/v1/jobs", "", time.Now(), gateway)
	plain := peer
	plain.Gate.Host = ""
	if code := ask(s.mux, r, plain); code != http.StatusForbidden {
		t.Errorf("signed for the gateway, shown at api.listen: %d", code)
	}
	if code := ask(users, r, peer); code != http.StatusOK {
		t.Errorf("signed for the gateway: %d", code)
	}
	if code := ask(users, r, peer); code != http.StatusUnauthorized {
		t.Errorf("the same once more: %d", code)
	}
	other := asUser(t, "ann", "GET", "/v1/jobs", "", time.Now(), "gw2.example.org:8443")
	if code := ask(users, other, peer); code != http.StatusForbidden {
		t.Errorf("signed for another gateway: %d", code)
	}
	used := asUser(t, "ann", "GET", "/v1/jobs", "", time.Now(), "h1:7443")
	if code := ask(s.mux, used, plain); code != http.StatusOK {
		t.Errorf("signed for the host: %d", code)
	}
	if code := ask(users, used, peer); code != http.StatusUnauthorized {
		t.Errorf("shown at the gateway once more: %d", code)
	}
}

// TestBodiesAtAGateway: no longer than elsewhere.
func TestBodiesAtAGateway(t *testing.T) {
	s, f := usersServer(t, func(_ *fake, o *Options) { o.Bearer, o.MaxArtefactBytes = "all", 1000 })
	users := &contract{t: t, next: s.ForUsers()}
	token, err := access.Mint(testCluster, "ann", access.Submitter, userKey("ann"), "id", time.Now(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		bytes, want  int
	}{
		{"PUT", "/v1/artefacts", 1000, http.StatusOK},
		{"PUT", "/v1/artefacts", 1001, http.StatusRequestEntityTooLarge},
		{"POST", "/v1/jobs", maxBody + 1, http.StatusRequestEntityTooLarge},
		{"POST", "/v1/jobs/" + string(jobA) + "/stop", maxBody + 1, http.StatusRequestEntityTooLarge},
	} {
		for _, told := range []bool{true, false} {
			ctx := door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: "gw1"}})
			r := httptest.NewRequestWithContext(ctx, c.method, "http://gw1"+c.path, strings.NewReader(`"`+strings.Repeat("x", c.bytes-2)+`"`))
			r.Header.Set("Authorization", "Bearer "+token)
			if !told {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			users.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s %s of %d bytes, told %t: %d %s, want %d", c.method, c.path, c.bytes, told, w.Code, w.Body, c.want)
			}
		}
	}
	if len(f.actors) != 0 {
		t.Errorf("done by %v", f.actors)
	}
}
