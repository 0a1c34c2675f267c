package gateway

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/skein-project/skein/status/door"
)

// TestUsersBehindAGateway: they are served what is theirs by whoever serves users, who
// learns from where they come; the gateway's own name is what they sign for.
func TestUsersBehindAGateway(t *testing.T) {
	var got []door.Peer
	var hosts []string
	users := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, hosts = append(got, door.Of(r.Context())), append(hosts, r.Host)
		w.WriteHeader(http.StatusTeapot)
	})
	w := start(t, func(o *Options) {
		o.Users, o.HTTP.Proxies = users, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	ask := func(method, path string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	n := 0
	for _, what := range [][2]string{
		{"GET", "/v1/jobs"}, {"POST", "/v1/jobs"}, {"GET", "/v1/jobs/a/watch"}, {"POST", "/v1/jobs/a/stop"}, {"GET", "/v1/workflows"}, {"POST", "/v1/workflows"}, {"GET", "/v1/workflows/w"}, {"POST", "/v1/workflows/w/retry"}, {"PUT", "/v1/artefacts"}, {"GET", "/v1/whoami"}, {"GET", "/v1/version"},
	} {
		if code := ask(what[0], what[1]); code != http.StatusTeapot {
			t.Errorf("%s %s: %d", what[0], what[1], code)
		}
		n++
	}
	for _, what := range [][2]string{
		{"GET", "/v1/status"}, {"GET", "/v1/users"}, {"POST", "/v1/leave"}, {"GET", "/v1/artefacts/00"}, {"GET", "/v1/info"}, {"GET", "/metrics"}, {"GET", "/v1/watch"},
	} {
		if code := ask(what[0], what[1]); code == http.StatusTeapot {
			t.Errorf("%s %s is served as a user's", what[0], what[1])
		}
	}
	if len(got) != n {
		t.Fatalf("%d requests were handed on, want %d", len(got), n)
	}
	for i, p := range got {
		if want := (door.Peer{TCP: true, Users: true, Addr: "192.0.2.7", Gate: door.Gate{Host: name}}); p.Addr != want.Addr || p.Gate != want.Gate || !p.TCP || !p.Users || p.Carried || p.Admin || hosts[i] != name {
			t.Errorf("%+v, host %s", p, hosts[i])
		}
	}
	// Without anybody who serves users there is nothing.
	w = start(t, nil)
	if code := ask("GET", "/v1/jobs"); code != http.StatusNotFound {
		t.Errorf("nobody serves users: %d", code)
	}
}
