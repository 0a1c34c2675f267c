package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// TestBearer: what tokens are good for is said by the host that acts, whether a user asked
// it or another host brings the request. No read is carried by a token.
func TestBearer(t *testing.T) {
	stop := "/v1/jobs/" + string(jobA) + "/stop"
	for _, c := range []struct {
		bearer  string
		carried bool
		method  string
		path    string
		want    int
	}{
		{"off", false, "GET", "/v1/jobs", http.StatusForbidden},
		{"off", false, "POST", stop, http.StatusForbidden},
		{"off", true, "GET", "/v1/debug?node=n1", http.StatusForbidden},
		{"off", true, "POST", stop, http.StatusForbidden},
		{"read", false, "GET", "/v1/jobs", http.StatusOK},
		{"read", false, "POST", stop, http.StatusForbidden},
		{"read", true, "GET", "/v1/debug?node=n1", http.StatusForbidden},
		{"read", true, "POST", stop, http.StatusForbidden},
		{"all", false, "GET", "/v1/jobs", http.StatusOK},
		{"all", false, "POST", stop, http.StatusOK},
		{"all", true, "GET", "/v1/debug?node=n1", http.StatusForbidden},
		{"all", true, "POST", stop, http.StatusOK},
	} {
		s, f := usersServer(t, func(_ *fake, o *Options) { o.Bearer = c.bearer })
		text, err := access.Mint(testCluster, "olga", access.Operator, userKey("olga"), "id", time.Now(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true}), c.method, c.path, strings.NewReader(""))
		r.Header.Set("Authorization", "Bearer "+text)
		var a api.Answered
		if c.carried {
			a = s.Carried(t.Context(), "n2", carriedBy(t, r))
		} else {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			a = api.Answered{Status: w.Code, Body: w.Body.Bytes()}
		}
		if a.Status != c.want || c.want == http.StatusForbidden && !strings.Contains(string(a.Body), "sign the request") {
			t.Errorf("api.bearer %s, carried %t: %s %s: %d %s, want %d", c.bearer, c.carried, c.method, c.path, a.Status, a.Body, c.want)
		}
		if did := len(f.actors) > 0; did != (c.method == "POST" && c.want == http.StatusOK) {
			t.Errorf("api.bearer %s, carried %t: %s %s: done by %v", c.bearer, c.carried, c.method, c.path, f.actors)
		}
	}
}
