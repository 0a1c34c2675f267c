package status

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// carriedBy is a request as a host would bring it that got it from a user.
func carriedBy(t *testing.T, r *http.Request) api.Carried {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	c := api.Carried{Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: map[string]string{}, Body: body}
	for name := range r.Header {
		c.Header[name] = r.Header.Get(name)
	}
	return c
}

// TestProofOfOneHostElsewhere: a host that an operator asked to do something itself cannot
// have others do the same, neither as what it brings them nor where users ask.
func TestProofOfOneHostElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		local := 0
		for _, rt := range s.handlers.table() {
			path := strings.NewReplacer("{id}", string(jobA), "{name}", "x", "{node}", "n3", "{address}", "a", "{inc}", "1", "{seq}", "1").Replace(rt.path)
			if rt.named && !strings.HasSuffix(rt.path, "/drain") { // a drain may name no host
				continue
			}
			if !rt.holder {
				f.actors = nil
				if a := s.Carried(t.Context(), "n2", carriedBy(t, asUser(t, "olga", rt.method, path, "", time.Now()))); a.Status != http.StatusForbidden || len(f.actors) > 0 {
					t.Errorf("%s %s, brought by n2: %d %s, done by %v", rt.method, rt.path, a.Status, a.Body, f.actors)
				}
			}
			if !rt.change || rt.holder || rt.needs != access.Operate {
				continue
			}
			local++
			ask := func(host string) (int, string) {
				r := asUser(t, "olga", rt.method, path, "", time.Now(), host)
				ctx := door.With(r.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"})
				w := httptest.NewRecorder()
				ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7443})
				s.mux.ServeHTTP(w, r.WithContext(ctx))
				return w.Code, w.Body.String()
			}
			for _, host := range []string{"n2:7443", "10.0.0.2:7443", "10.0.0.1:7444", "10.0.0.1", "localhost:7443", "127.0.0.1:7443", "[::1]:7443", "h2", "xn1:7443", "skein"} {
				if code, text := ask(host); code != http.StatusForbidden || !strings.Contains(text, "n1") {
					t.Errorf("%s %s signed for %s: %d %s", rt.method, rt.path, host, code, text)
				}
			}
			for _, host := range []string{"n1:7443", "N1.example.org", "10.0.0.1:7443", "[::ffff:10.0.0.1]:7443", "h1:7443"} {
				if code, text := ask(host); code == http.StatusForbidden || code == http.StatusUnauthorized {
					t.Errorf("%s %s signed for %s: %d %s", rt.method, rt.path, host, code, text)
				}
			}
		}
		if local < 7 {
			t.Errorf("%d routes", local)
		}
	})
}

// TestSignedForTheAskedHost: what a host was shown it cannot show to another one, a read
// as little as a change, though both be on one machine.
func TestSignedForTheAskedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		ask := func(r *http.Request, p door.Peer, local *net.TCPAddr) (int, string) {
			ctx := context.WithValue(door.With(r.Context(), p), http.LocalAddrContextKey, net.Addr(local))
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r.WithContext(ctx))
			return w.Code, w.Body.String()
		}
		user := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}
		for _, p := range []door.Peer{user, {TCP: true, Addr: "127.0.0.1"}} {
			for _, c := range []struct {
				host  string
				local string
				want  int
			}{
				{"127.0.0.1:24441", "127.0.0.1:24441", http.StatusOK},
				{"127.0.0.1:24441", "127.0.0.1:24443", http.StatusForbidden},
				{"localhost:24441", "127.0.0.1:24441", http.StatusOK},
				{"localhost:24441", "127.0.0.1:24443", http.StatusForbidden},
				{"[::1]:24441", "[::1]:24441", http.StatusOK},
				{"10.0.0.1:24441", "10.0.0.2:24441", http.StatusForbidden},
				{"10.0.0.1", "10.0.0.1:80", http.StatusOK},
				{"10.0.0.1", "10.0.0.1:443", http.StatusForbidden}, // it came without TLS
				{"n1:1", "10.0.0.1:24441", http.StatusOK},
				{"n1.example.org", "10.0.0.1:24441", http.StatusOK},
				{"h1:9", "10.0.0.1:24441", http.StatusOK}, // a further name
				{"n2:24441", "10.0.0.1:24441", http.StatusForbidden},
				{"balancer.example.org", "10.0.0.1:24441", http.StatusForbidden},
			} {
				local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
				code, text := ask(asUser(t, "ann", "GET", "/v1/jobs", "", time.Now(), c.host), p, local)
				if code != c.want || c.want != http.StatusOK && !strings.Contains(text, "api.names") {
					t.Errorf("signed for %s, asked at %s: %d %s, want %d", c.host, c.local, code, text, c.want)
				}
			}
		}
	})
}

// TestDebugChecksAnew: what a host is brought it gathers for an operator who has signed
// it for this host; whatever the host says that brings it.
func TestDebugChecksAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		brought := func(who, query string) int {
			return s.Carried(t.Context(), "n2", carriedBy(t, asUser(t, who, "GET", "/v1/debug"+query, "", time.Now()))).Status
		}
		for _, c := range []struct {
			who, query string
			want       int
		}{
			{"olga", "?node=n1", http.StatusOK},
			{"olga", "", http.StatusForbidden},
			{"ann", "?node=n1", http.StatusForbidden},
			{"vic", "?node=n1", http.StatusForbidden},
			{"nobody", "?node=n1", http.StatusUnauthorized},
		} {
			if got := brought(c.who, c.query); got != c.want {
				t.Errorf("%s asks %q: %d, want %d", c.who, c.query, got, c.want)
			}
		}
		again := carriedBy(t, asUser(t, "olga", "GET", "/v1/debug?node=n1", "", time.Now()))
		other := again
		other.Query = "node=n1&profile_seconds=10"
		for _, c := range []struct {
			req  api.Carried
			want int
		}{{other, http.StatusUnauthorized}, {again, http.StatusOK}, {again, http.StatusUnauthorized}} {
			if got := s.Carried(t.Context(), "n2", c.req).Status; got != c.want {
				t.Errorf("%s: %d, want %d", c.req.Query, got, c.want)
			}
		}
		unsigned := api.Carried{Method: "GET", Host: "n1", Path: "/v1/debug", Query: "node=n1"}
		if got := s.Carried(t.Context(), "n2", unsigned).Status; got != http.StatusUnauthorized {
			t.Errorf("without a proof: %d", got)
		}
	})
}

// TestTokenOfALesserRole: a viewer sees all jobs and a submitter the own ones, and a token
// for a viewer that a submitter signed shows no more than that.
func TestTokenOfALesserRole(t *testing.T) {
	s, f := usersServer(t, nil)
	twoOwners(f)
	for who, want := range map[string][2]bool{"ann": {true, false}, "vic": {true, true}, "olga": {true, true}} {
		text, err := access.Mint(testCluster, who, access.Viewer, userKey(who), "id", time.Now(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path string) (int, string) {
			r := httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true}), method, path, nil)
			r.Header.Set("Authorization", "Bearer "+text)
			w := askFor(t, s, r, time.Second)
			return w.Code, w.Body.String()
		}
		for _, path := range []string{"/v1/jobs", "/v1/events", "/v1/watch?topics=jobs"} {
			_, shown := ask("GET", path)
			if got := [2]bool{strings.Contains(shown, string(jobA)), strings.Contains(shown, string(jobB))}; got != want {
				t.Errorf("%s by %s as a viewer: %s", path, who, shown)
			}
		}
		if code, _ := ask("GET", "/v1/users"); code != http.StatusForbidden {
			t.Errorf("the users by %s as a viewer: %d", who, code)
		}
	}
}

// TestRefusalsOfOneUser: who has requests refused that a host carries does not close that
// way for others, and strangers on one machine are told apart from who is next to them.
func TestRefusalsOfOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		path := "/v1/jobs/" + string(jobA) + "/stop"
		old := func(who string) *http.Request {
			return asUser(t, who, "POST", path, "{}", time.Now().Add(-2*access.Window))
		}
		for range 25 {
			s.Carried(t.Context(), "n2", carriedBy(t, old("sam")))
		}
		if a := s.Carried(t.Context(), "n2", carriedBy(t, asUser(t, "sam", "POST", path, "{}", time.Now()))); a.Status != http.StatusTooManyRequests {
			t.Errorf("sam after 25 refusals: %d", a.Status)
		}
		if a := s.Carried(t.Context(), "n2", carriedBy(t, asUser(t, "ann", "POST", path, "{}", time.Now()))); a.Status != http.StatusOK {
			t.Errorf("ann by the same host: %d %s", a.Status, a.Body)
		}
		from := func(p door.Peer, r *http.Request) int {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r.WithContext(door.With(r.Context(), p)))
			return w.Code
		}
		for range 25 {
			from(door.Peer{UID: 7}, old("sam"))
			from(door.Peer{TCP: true, Users: true, Addr: "2001:db8::1"}, old("sam"))
		}
		for name, c := range map[string]struct {
			p    door.Peer
			want int
		}{
			"the same uid":     {door.Peer{UID: 7}, http.StatusTooManyRequests},
			"another uid":      {door.Peer{UID: 8}, http.StatusOK},
			"the same network": {door.Peer{TCP: true, Users: true, Addr: "2001:db8::2:1"}, http.StatusTooManyRequests},
			"another network":  {door.Peer{TCP: true, Users: true, Addr: "2001:db8:0:1::1"}, http.StatusOK},
		} {
			if code := from(c.p, asUser(t, "ann", "POST", path, "{}", time.Now())); code != c.want {
				t.Errorf("%s: %d, want %d", name, code, c.want)
			}
		}
	})
}

// TestSignedBeforeTheStart: a proof that may have been used before this host started is
// not taken; whoever asked is told to come again, not that the key is wrong.
func TestSignedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		time.Sleep(time.Second)
		ask := func(who string, at time.Time) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, asUser(t, who, "POST", "/v1/jobs/"+string(jobA)+"/stop", "{}", at))
			return w
		}
		if w := ask("ann", time.Now().Add(-6*time.Second)); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || len(f.actors) > 0 {
			t.Errorf("5 s before the start: %d, again after %s, done by %v", w.Code, w.Header().Get("Retry-After"), f.actors)
		}
		if w := ask("nobody", time.Now().Add(-6*time.Second)); w.Code != http.StatusUnauthorized {
			t.Errorf("the key of nobody: %d", w.Code)
		}
		if w := ask("ann", time.Now()); w.Code != http.StatusOK {
			t.Errorf("after the start: %d %s", w.Code, w.Body)
		}
	})
}

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestNobodysBodyIsNotRead: whoever has no key has the host read nothing, and wait for
// nothing.
func TestNobodysBodyIsNotRead(t *testing.T) {
	s, f := usersServer(t, nil)
	time.Sleep(2 * time.Millisecond) // proofs are of milliseconds
	ask := func(r *http.Request) int {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		return w.Code
	}
	body := &endless{}
	r := asUser(t, "nobody", "POST", "/v1/jobs", "", time.Now())
	r.Body = io.NopCloser(body)
	if code := ask(r); code != http.StatusUnauthorized || body.read > 0 {
		t.Errorf("%d, %d bytes read", code, body.read)
	}
	body = &endless{}
	r = asUser(t, "ann", "POST", "/v1/jobs", "", time.Now())
	r.Body, r.ContentLength = io.NopCloser(body), 10<<30
	if code := ask(r); code != http.StatusRequestEntityTooLarge || body.read > 0 {
		t.Errorf("10 GiB: %d, %d bytes read", code, body.read)
	}
	began := time.Now()
	f.agreed = api.Cursor{}
	r = httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true}), "GET", "/v1/version?consistency=strong&min=n9/1:99", nil)
	if code := ask(r); code != http.StatusOK || time.Since(began) > time.Second {
		t.Errorf("%d after %v", code, time.Since(began))
	}
}

// TestOwnerIsAUser: a host is not made that of nobody by a slip of the pen, since it
// would then run nothing.
func TestOwnerIsAUser(t *testing.T) {
	s, _ := usersServer(t, nil)
	for owner, want := range map[string]int{
		"user:anm": http.StatusNotFound, "user:ann": http.StatusOK, "": http.StatusOK, strings.Repeat("u", 300): http.StatusBadRequest,
	} {
		if code, text := asAdmin(t, s, "PUT", "/v1/members/n2/owner", `{"owner":"`+owner+`"}`); code != want {
			t.Errorf("%q: %d %s", owner, code, text)
		}
		if code, text := asAdmin(t, s, "POST", "/v1/tokens", `{"ttl_seconds":60,"uses":1,"owner":"`+owner+`"}`); code != want {
			t.Errorf("an invite for hosts of %q: %d %s", owner, code, text)
		}
	}
}
