package status

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/fakeflows"
	"github.com/skein-project/skein/status/door"
)

// lent is access tokens by their text, which is skt_ and their ID.
type lent struct {
	mu sync.Mutex
	by map[string]access.Lent
}

func (l *lent) Lent(text string, now time.Time) (access.Lent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.by[text]
	return x, ok && now.Before(x.Expires)
}

func (l *lent) Lends(key string, now time.Time) (access.Lent, bool) { return l.Lent(key, now) }

func newLent() *lent {
	l := &lent{by: map[string]access.Lent{}}
	for id, x := range map[string]access.Lent{
		"both": {User: "ann", Submit: true, Watch: true}, "submit": {User: "ann", Submit: true}, "watch": {User: "ann", Watch: true}, "work": {User: "ann"},
		"sams": {User: "sam", Submit: true, Watch: true}, "olgas": {User: "olga", Submit: true, Watch: true}, "vics": {User: "vic", Submit: true, Watch: true},
		"nobodys": {User: "nobody", Submit: true},
	} {
		x.ID, x.Expires = id, time.Now().Add(time.Hour)
		l.by["skt_"+id] = x
	}
	l.by["skt_over"] = access.Lent{ID: "over", User: "ann", Submit: true, Expires: time.Now()}
	return l
}

func withToken(ctx context.Context, p door.Peer, method, path, token string) *http.Request {
	body := ""
	if method == http.MethodPost {
		body = "{}"
		if path == "/v1/workflows" {
			body = `{"key":"k","definition":{"step":[{"name":"a","job":{"executor":"wasm","artefact":"` + strings.Repeat("ab", 32) + `","iterations":1}}]}}`
		}
		if path == "/v1/jobs" {
			body = `{"spec":{"key":"k","executor":"wasm","artefact":"` + strings.Repeat("ab", 32) + `","iterations":1}}`
		}
	}
	r := httptest.NewRequestWithContext(door.With(ctx, p), method, "http://gw1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// TestAccessTokens: what an access token lends is the user's own jobs, to see or to change as
// its roles say, whatever api.bearer says and the user may besides; at gateways alone, and
// at the holder, to which a gateway brings it.
func TestAccessTokens(t *testing.T) {
	own, stop, run := "/v1/jobs/"+string(jobA), "/v1/jobs/"+string(jobA)+"/stop", "/v1/workflows/"+string(fakeflows.Run)
	for _, c := range []struct {
		token, method, path string
		want                int
		says                string
	}{
		{"both", "GET", "/v1/jobs", 200, ""},
		{"both", "GET", own, 200, ""},
		{"both", "POST", "/v1/jobs", 200, ""},
		{"both", "POST", stop, 200, ""},
		{"both", "PUT", "/v1/artefacts", 200, ""},
		{"submit", "POST", stop, 200, ""},
		{"submit", "GET", own, 200, ""},
		{"watch", "GET", own, 200, ""},
		{"watch", "POST", stop, 403, "not for submit"},
		{"watch", "POST", "/v1/jobs", 403, "skein gateway token create --owner user:ann --role submit"},
		{"watch", "PUT", "/v1/artefacts", 403, "not for submit"},
		{"work", "GET", own, 403, "not for watch"},
		{"work", "POST", stop, 403, "not for submit"},
		{"both", "POST", "/v1/workflows", 200, ""},
		{"submit", "GET", "/v1/workflows", 200, ""},
		{"watch", "POST", "/v1/workflows", 403, "skein gateway token create --owner user:ann --role submit"},
		{"work", "GET", "/v1/workflows", 403, "not for watch"},
		{"both", "GET", run, 404, "no run"}, // another's
		{"both", "POST", run + "/stop", 404, "no run"},
		{"both", "POST", run + "/retry", 404, "no run"},
		{"watch", "POST", run + "/retry", 403, "not for submit"},
		{"vics", "GET", run, 200, ""},
		{"vics", "POST", run + "/stop", 403, "viewer"},
		{"sams", "GET", own, 404, "no job"},
		{"sams", "POST", stop, 404, "no job"},
		{"olgas", "GET", own, 404, "no job"}, // no token is an operator
		{"olgas", "POST", stop, 404, "no job"},
		{"vics", "GET", own, 200, ""}, // as vic, who sees all jobs, may
		{"vics", "POST", stop, 403, "viewer"},
		{"vics", "POST", "/v1/jobs", 403, "viewer"},
		{"nobodys", "GET", own, 401, "no good proof"},
		{"over", "GET", own, 401, "no good proof"},
		{"none", "GET", own, 401, "no good proof"},
	} {
		for _, bearer := range []string{"off", "read", "all"} {
			s, f := usersServer(t, func(f *fake, o *Options) { o.Bearer, o.Tokens, f.job.ID = bearer, newLent(), jobA })
			gateway := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: "gw1"}}
			ask := func(h http.Handler, p door.Peer) (int, string) {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, withToken(t.Context(), p, c.method, c.path, "skt_"+c.token))
				return w.Code, w.Body.String()
			}
			code, text := ask(&contract{t: t, next: s.ForUsers()}, gateway)
			if code == http.StatusCreated {
				code = http.StatusOK
			}
			if code != c.want || !strings.Contains(text, c.says) {
				t.Errorf("api.bearer %s: %s %s with %s: %d %s, want %d %q", bearer, c.method, c.path, c.token, code, text, c.want, c.says)
			}
			if did := len(f.actors) > 0; did && (c.method == "GET" || c.want != 200 || f.actors[0] != "user:ann") {
				t.Errorf("%s %s with %s: done by %v", c.method, c.path, c.token, f.actors)
			}
			elsewhere := gateway
			elsewhere.Gate.Host = ""
			if code, _ := ask(s.mux, elsewhere); code != http.StatusUnauthorized {
				t.Errorf("%s %s with %s at api.listen: %d", c.method, c.path, c.token, code)
			}
		}
	}
}

// TestAccessTokenIsCarried: the holder looks at the token by itself, and no host can have it
// be more than it is.
func TestAccessTokenIsCarried(t *testing.T) {
	holder, hf := usersServer(t, func(f *fake, o *Options) { o.Tokens = newLent() })
	edge, ef := usersServer(t, func(f *fake, o *Options) { o.Tokens = newLent() })
	ef.holder = "n2"
	ef.carry = func(ctx context.Context, c api.Carried) api.Answered { return holder.Carried(ctx, "n2", c) }
	stop := "/v1/jobs/" + string(jobA) + "/stop"
	gateway := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: "gw1"}}
	w := httptest.NewRecorder()
	edge.ForUsers().ServeHTTP(w, withToken(t.Context(), gateway, "POST", stop, "skt_both"))
	if w.Code != http.StatusOK || len(hf.actors) != 1 || hf.actors[0] != "user:ann" || len(ef.actors) != 0 {
		t.Fatalf("%d %s: done by %v at the holder, %v here", w.Code, w.Body, hf.actors, ef.actors)
	}
	for token, want := range map[string]int{"watch": 403, "none": 401, "over": 401, "sams": 404} {
		a := holder.Carried(t.Context(), "n2", api.Carried{Method: "POST", Host: "gw1", Path: stop, Header: map[string]string{"Authorization": "Bearer skt_" + token}, Body: []byte("{}")})
		if a.Status != want {
			t.Errorf("%s, which another host brings: %d %s", token, a.Status, a.Body)
		}
	}
	for _, path := range []string{"/v1/users", "/v1/debug?node=n1", "/v1/config"} {
		p, query, _ := strings.Cut(path, "?")
		a := holder.Carried(t.Context(), "n2", api.Carried{Method: "GET", Host: "gw1", Path: p, Query: query, Header: map[string]string{"Authorization": "Bearer skt_olgas"}})
		if a.Status != http.StatusForbidden {
			t.Errorf("%s by the token of an operator: %d %s", path, a.Status, a.Body)
		}
	}
	if len(hf.actors) != 1 {
		t.Errorf("done by %v", hf.actors)
	}
}

// TestAccessTokenEnds: a stream ends soon after the token that opened it was revoked, or
// lends something else.
func TestAccessTokenEnds(t *testing.T) {
	for what, change := range map[string]func(*lent){
		"revoked":   func(l *lent) { delete(l.by, "skt_watch") },
		"less":      func(l *lent) { x := l.by["skt_watch"]; x.Watch = false; l.by["skt_watch"] = x },
		"another's": func(l *lent) { x := l.by["skt_watch"]; x.User = "sam"; l.by["skt_watch"] = x },
	} {
		t.Run(what, func(t *testing.T) {
			tokens := newLent()
			s, _ := usersServer(t, func(_ *fake, o *Options) { o.Tokens = tokens })
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			gateway := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: "gw1"}}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.ForUsers().ServeHTTP(w, r.WithContext(door.With(r.Context(), gateway)))
			}))
			defer srv.Close()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/jobs/"+string(jobA)+"/watch", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer skt_watch")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			tokens.mu.Lock()
			change(tokens)
			tokens.mu.Unlock()
			began := time.Now()
			var text strings.Builder
			buf := make([]byte, 4096)
			for err == nil {
				var n int
				n, err = resp.Body.Read(buf)
				text.Write(buf[:n])
			}
			if took := time.Since(began); ctx.Err() != nil || took > 5*time.Second || !strings.Contains(text.String(), "no good proof") {
				t.Errorf("%v after %v: %s", err, took, text.String())
			}
		})
	}
}
