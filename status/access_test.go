package status

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/fastest"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

const testCluster = "c1"

func userKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func someone(name string, role access.Role) access.User {
	return access.User{Name: name, Role: role, Keys: []ed25519.PublicKey{userKey(name).Public().(ed25519.PublicKey)}}
}

// usersServer is a server that knows a user of each role; ann's is the job.
func usersServer(t testing.TB, change func(*fake, *Options)) (*Server, *fake) {
	t.Helper()
	f := newFake()
	f.job.Owner = "user:ann"
	f.users = access.NewDirectory([]access.User{
		someone("vic", access.Viewer), someone("ann", access.Submitter), someone("sam", access.Submitter), someone("olga", access.Operator),
	})
	reg := prometheus.NewRegistry()
	o := Options{Socket: "/x", Backend: f, ClusterID: testCluster, Hosts: []string{"h1"}, Log: zerolog.Nop(), Gatherer: reg}
	if change != nil {
		change(f, &o)
	}
	return newServer(t, o), f
}

var nonces uint32 // used so far

// asUser makes a request that a user has signed, for h1 unless another host is named.
func asUser(t testing.TB, name, method, path, body string, now time.Time, host ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}), method, "http://"+append(host, "h1:7443")[0]+path, strings.NewReader(body))
	sum := sha256.Sum256([]byte(body))
	nonces++
	p, err := access.Sign(access.Request{Cluster: testCluster, Method: method, Host: strings.ToLower(r.Host), Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Body: sum},
		userKey(name), [access.NonceBytes]byte(binary.BigEndian.AppendUint32(make([]byte, 12), nonces)), now)
	if err != nil {
		t.Fatal(err)
	}
	p.Put(r.Header)
	if strings.HasPrefix(path, "/v1/artefacts") {
		r.Header.Set(access.HeaderBody, hex.EncodeToString(sum[:]))
	}
	return r
}

// rights is what each route takes, said a second time: a change of it is meant.
var rights = map[access.Right][]string{
	0: {
		"GET /v1/version", "GET /v1/openapi.json", "GET /healthz", "GET /readyz",
	},
	access.Look: {
		"GET /v1/status", "GET /v1/members", "GET /v1/mesh", "GET /v1/lease",
		"GET /v1/lease/history", "GET /v1/lease/voters", "GET /v1/overload", "GET /v1/zones", "GET /v1/workers", "GET /v1/log/snapshots",
		"GET /v1/log/density", "GET /v1/whoami", "GET /v1/onion", "GET /metrics",
	},
	access.Read: {
		"GET /v1/jobs", "GET /v1/jobs/{id}", "GET /v1/jobs/{id}/explain", "GET /v1/jobs/{id}/map",
		"GET /v1/jobs/{id}/series", "GET /v1/jobs/{id}/history", "GET /v1/replay", "GET /v1/jobs/{id}/watch",
		"GET /v1/jobs/{id}/chunks", "GET /v1/jobs/{id}/logs", "GET /v1/jobs/{id}/outputs", "GET /v1/jobs/{id}/outputs/{chunk}/{name}", "GET /v1/events/{node}/{inc}/{seq}", "GET /v1/events", "GET /v1/watch",
		"GET /v1/load", "GET /v1/load/{id}", "GET /v1/load/{id}/report", "GET /v1/load/{id}/live", "GET /v1/load/{id}/follow", "GET /v1/workflows", "GET /v1/workflows/{id}", "GET /v1/schedules", "GET /v1/schedules/{id}",
	},
	access.Use: {
		"POST /v1/jobs", "POST /v1/jobs/{id}/stop", "POST /v1/jobs/{id}/release", "PUT /v1/artefacts",
		"POST /v1/load", "POST /v1/load/{id}/stop", "POST /v1/workflows", "POST /v1/workflows/{id}/stop", "POST /v1/workflows/{id}/retry",
		"PUT /v1/schedules/{id}", "DELETE /v1/schedules/{id}", "POST /v1/schedules/{id}/pause", "POST /v1/schedules/{id}/resume", "POST /v1/schedules/{id}/run",
	},
	access.Operate: {
		"GET /v1/users", "PUT /v1/users/{name}", "PUT /v1/members/{node}/owner", "GET /v1/gateway", "GET /v1/gateway/workers",
		"POST /v1/gateway/workers", "DELETE /v1/gateway/workers/{worker}", "GET /v1/gateway/tokens", "POST /v1/gateway/tokens",
		"DELETE /v1/gateway/tokens/{id}", "GET /v1/groups", "PUT /v1/groups/{name}", "GET /v1/reservations", "PUT /v1/reservations/{name}", "DELETE /v1/reservations/{name}", "GET /v1/events/verify",
		"GET /v1/config", "GET /v1/doctor", "GET /v1/tokens", "POST /v1/log/snapshots",
		"POST /v1/tokens", "DELETE /v1/tokens/{id}", "POST /v1/lease/step-down", "POST /v1/lease/voters",
		"POST /v1/leave", "POST /v1/members/{node}/remove", "POST /v1/mesh/rotate", "POST /v1/worker/drain",
		"POST /v1/onion", "POST /v1/onion/drain", "POST /v1/onion/rotate", "DELETE /v1/onion/{address}",
		"PUT /v1/onion/{address}/clients", "POST /v1/onion/{address}/grant", "POST /v1/onion/{address}/export", "POST /v1/onion/{address}/verify",
		"POST /v1/onion/{address}/publish",
	},
	access.Debug: {
		"GET /v1/debug",
	},
}

// TestRightsOfRoutes: each route needs what is said here, and none is left out.
func TestRightsOfRoutes(t *testing.T) {
	s, _ := usersServer(t, nil)
	want := map[string]access.Right{}
	for right, list := range rights {
		for _, rt := range list {
			want[rt] = right
		}
	}
	for _, rt := range s.handlers.table() {
		name := rt.method + " " + rt.path
		right, said := want[name]
		if !said || rt.open != (right == 0) || !rt.open && rt.needs != right {
			t.Errorf("%s: right %d, open %t; the table of this test: %d, %t", name, rt.needs, rt.open, right, said)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no routes: %v", want)
	}
	if err := openapi.CheckRights([]openapi.Route{{Method: "GET", Path: "/v1/new"}}); err == nil {
		t.Error("a route without a right is served")
	}
}

// TestEveryRoleOnEveryRoute walks the whole table: who may, may not, and is told that
// there is no such thing; by a signature, by tokens for each role, and by a uid.
func TestEveryRoleOnEveryRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		s, f := usersServer(t, func(_ *fake, o *Options) { o.Bearer = "all" })
		roles := map[string]access.Role{"vic": access.Viewer, "ann": access.Submitter, "sam": access.Submitter, "olga": access.Operator}
		var users []access.User
		for i, who := range []string{"vic", "ann", "sam", "olga"} {
			u := someone(who, roles[who])
			u.UIDs = []uint64{1000 + uint64(i)}
			users = append(users, u)
		}
		f.users = access.NewDirectory(users)
		time.Sleep(2 * access.Window)
		routes := s.handlers.table()
		if len(routes) < 40 {
			t.Fatalf("%d routes", len(routes))
		}
		const here, gateway = "h1:7443", "gw1.example.org:8443"
		overTCP := door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}
		atGateway := &contract{t: t, next: s.ForUsers()}
		served := 0 // there
		type caller struct {
			how      string
			role     access.Role // what is asked as
			had      access.Role // what the user is
			owner    bool        // of the job
			asks     func(host, method, path string) *http.Request
			as       door.Peer
			unproven bool
		}
		plain := func(host, method, path string) *http.Request {
			return httptest.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(""))
		}
		callers := []caller{
			{how: "nobody over TCP", unproven: true, asks: plain, as: overTCP},
			{how: "uid 7, no user's", role: access.Viewer, had: access.Viewer, asks: plain, as: door.Peer{UID: 7}},
			{how: "root", role: access.Operator, had: access.Operator, asks: plain, as: door.Peer{Admin: true}},
		}
		for i, who := range []string{"vic", "ann", "sam", "olga"} {
			role := roles[who]
			callers = append(callers,
				caller{how: who + " signed", role: role, had: role, owner: who == "ann", as: overTCP, asks: func(host, method, path string) *http.Request {
					return asUser(t, who, method, path, "", time.Now(), host)
				}},
				// A uid owns what it submitted as that, not what its user did with a key.
				caller{how: "the uid of " + who, role: role, had: role, asks: plain, as: door.Peer{UID: uint32(1000 + i)}})
			for lent := access.Viewer; lent <= role; lent++ {
				callers = append(callers, caller{how: who + " by a token for a " + lent.String(), role: lent, had: role, owner: who == "ann", as: overTCP, asks: func(host, method, path string) *http.Request {
					text, err := access.Mint(testCluster, who, lent, userKey(who), "id", time.Now(), time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					r := plain(host, method, path)
					r.Header.Set("Authorization", "Bearer "+text)
					return r
				}})
			}
		}
		for _, rt := range routes {
			path := strings.NewReplacer("{id}", string(jobA), "{name}", "x", "{node}", "n3", "{address}", "a", "{inc}", "1", "{seq}", "1", "{chunk}", "3").Replace(rt.path)
			for _, c := range callers {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // streams go on
				w := httptest.NewRecorder()
				s.mux.ServeHTTP(w, c.asks(here, rt.method, path).WithContext(door.With(ctx, c.as)))
				cancel()
				reach := min(access.Allowed(c.role, rt.needs), access.Allowed(c.had, rt.needs))
				want := 0 // anything but a refusal
				switch {
				case rt.open:
				case c.unproven:
					want = http.StatusUnauthorized
				case reach == access.None || rt.path == "/v1/debug" && !c.as.Admin: // of an administrator's, on the socket
					want = http.StatusForbidden
				case reach == access.Own && !c.owner && strings.HasPrefix(rt.path, "/v1/jobs/{id}"):
					want = http.StatusNotFound
				}
				refused := w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden || w.Code == http.StatusTooManyRequests || w.Code == http.StatusNotFound && strings.Contains(rt.path, "/jobs/{id}")
				if want != 0 && w.Code != want || want == 0 && refused {
					t.Errorf("%s %s by %s: %d %s, want %d", rt.method, rt.path, c.how, w.Code, w.Body, want)
				}
				if !c.as.Users {
					continue
				}
				// At a gateway the same, and of all other routes nothing.
				ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
				as := c.as
				as.Gate.Host = gateway
				again, code := httptest.NewRecorder(), w.Code
				if slices.Contains(ofUsers, rt.path) {
					served++
				} else {
					code = http.StatusNotFound
				}
				atGateway.ServeHTTP(again, c.asks(gateway, rt.method, path).WithContext(door.With(ctx, as)))
				cancel()
				if again.Code != code {
					t.Errorf("at a gateway: %s %s by %s: %d %s, want %d", rt.method, rt.path, c.how, again.Code, again.Body, code)
				}
			}
			synctest.Wait()
			time.Sleep(time.Minute) // what somebody may ask is counted
		}
		if want := 15 * 13; served != want {
			t.Errorf("%d requests are served at a gateway, want %d", served, want)
		}
	})
}

// TestOwnJobsOnly: a list and the events show a submitter what is the submitter's.
func TestOwnJobsOnly(t *testing.T) {
	s, f := usersServer(t, nil)
	time.Sleep(2 * time.Millisecond) // proofs are of milliseconds
	for who, want := range map[string]int{"ann": 1, "sam": 0, "vic": 1} {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, asUser(t, who, "GET", "/v1/jobs/"+string(jobA[:6]), "", time.Now()))
		if (w.Code == http.StatusOK) != (want == 1) {
			t.Errorf("%s by part of an id: %d %s", who, w.Code, w.Body)
		}
	}
	events := func(who string) int {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, asUser(t, who, "GET", "/v1/events", "", time.Now()))
		return strings.Count(w.Body.String(), `"kind"`)
	}
	add := func(kind event.Kind, body string) {
		f.log = append(f.log, event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: uint64(len(f.log) + 1), Kind: kind, Body: json.RawMessage(body)})
	}
	add(event.KindChunkFailed, `{"job":"`+string(jobA)+`","worker":"n2"}`)
	add(event.KindChunkFailed, `{"job":"jbbbbbbbbbbbbbbbbbbbbbbbbb","worker":"n2"}`)
	add(event.KindJobSubmitted, `{"job":"jbbbbbbbbbbbbbbbbbbbbbbbbb","owner":"user:sam"}`)
	add(event.KindHostStarted, `{"version":"1"}`)
	for who, want := range map[string]int{"ann": 1, "sam": 1, "vic": 4} {
		if n := events(who); n != want {
			t.Errorf("%s sees %d events, want %d", who, n, want)
		}
	}
}

// TestProofsRefused: whatever is wrong, the answer is one, with the clock of the host.
func TestProofsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		good := func() *http.Request {
			return asUser(t, "ann", "POST", "/v1/jobs/"+string(jobA)+"/stop", "{}", time.Now())
		}
		ask := func(r *http.Request) (int, api.Problem) {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			var p api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			return w.Code, p
		}
		if code, p := ask(good()); code != http.StatusOK {
			t.Fatalf("%d %s", code, p.Detail)
		}
		again := good()
		again.Body = io.NopCloser(strings.NewReader("{}"))
		first := again.Clone(again.Context())
		first.Body = io.NopCloser(strings.NewReader("{}"))
		if code, _ := ask(first); code != http.StatusOK {
			t.Fatal("the first use")
		}
		token := func(cl, who string, role access.Role, key ed25519.PrivateKey) string {
			text, err := access.Mint(cl, who, role, key, "id", time.Now(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		bearer := func(text string) *http.Request {
			r := httptest.NewRequest("GET", "/v1/jobs", nil)
			r.Header.Set("Authorization", "Bearer "+text)
			return r.WithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}))
		}
		if code, p := ask(bearer(token(testCluster, "ann", access.Submitter, userKey("ann")))); code != http.StatusOK {
			t.Fatalf("a good token: %d %s", code, p.Detail)
		}
		lower := bearer(token(testCluster, "ann", access.Submitter, userKey("ann")))
		lower.Header.Set("Authorization", "b"+lower.Header.Get("Authorization")[1:])
		if code, p := ask(lower); code != http.StatusOK {
			t.Errorf("a good token of the scheme bearer: %d %s", code, p.Detail)
		}
		actors := len(f.actors)
		for name, r := range map[string]*http.Request{
			"again":           again,
			"old":             asUser(t, "ann", "GET", "/v1/jobs", "", time.Now().Add(-access.Window-time.Second)),
			"from ahead":      asUser(t, "ann", "GET", "/v1/jobs", "", time.Now().Add(access.Window+time.Second)),
			"another's key":   asUser(t, "nobody", "GET", "/v1/jobs", "", time.Now()),
			"of another path": func() *http.Request { r := good(); r.URL.Path = "/v1/jobs/" + string(jobA) + "/release"; return r }(),
			"another body": func() *http.Request {
				r := good()
				r.Body = io.NopCloser(strings.NewReader(`{"reason":"x"}`))
				return r
			}(),
			"to another host":   func() *http.Request { r := good(); r.Host = "h2:7443"; return r }(),
			"half a proof":      func() *http.Request { r := good(); r.Header.Del(access.HeaderNonce); return r }(),
			"two proofs":        func() *http.Request { r := good(); r.Header.Set("Authorization", "Bearer x"); return r }(),
			"garbage token":     bearer("a.b.c"),
			"foreign cluster":   bearer(token("c2", "ann", access.Viewer, userKey("ann"))),
			"above its role":    bearer(token(testCluster, "ann", access.Operator, userKey("ann"))),
			"another's token":   bearer(token(testCluster, "olga", access.Viewer, userKey("ann"))),
			"token of a minted": bearer(token(testCluster, "ann", access.Viewer, userKey("nobody"))),
		} {
			code, p := ask(r)
			if code != http.StatusUnauthorized || p.Code != api.CodeUnauthorized || p.ServerTime == nil || p.Detail != "no good proof of a user: this needs a signed request, or a token" {
				t.Errorf("%s: %d %+v", name, code, p)
			}
		}
		if len(f.actors) != actors {
			t.Errorf("the backend was asked by %v", f.actors[actors:])
		}
		// A token changes nothing unless the host says so.
		change := bearer(token(testCluster, "ann", access.Submitter, userKey("ann")))
		change.Method, change.URL.Path = "POST", "/v1/jobs/"+string(jobA)+"/stop"
		if code, p := ask(change); code != http.StatusForbidden {
			t.Errorf("a change with a token: %d %s", code, p.Detail)
		}
		// 20 a minute, then nothing of this address is looked at for a while.
		for range 20 {
			ask(bearer("x"))
		}
		if code, p := ask(good()); code != http.StatusTooManyRequests || p.RetryAfterSeconds == nil {
			t.Errorf("after 20 refusals: %d %s", code, p.Detail)
		}
		time.Sleep(time.Minute)
		f.users = access.NewDirectory([]access.User{func() access.User { u := someone("ann", access.Submitter); u.Disabled = true; return u }()})
		if code, p := ask(good()); code != http.StatusUnauthorized {
			t.Errorf("a disabled user: %d %s", code, p.Detail)
		}
	})
}

// TestForgedUser: the holder checks the proof that another host brings, whatever that
// host says.
func TestForgedUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, hf := usersServer(t, nil)
		edge, ef := usersServer(t, nil)
		var change func(*api.Carried)
		ef.holder = "n2"
		ef.carry = func(ctx context.Context, c api.Carried) api.Answered {
			if change != nil {
				change(&c)
			}
			return holder.Carried(ctx, "n2", c)
		}
		time.Sleep(2 * access.Window)
		path := "/v1/jobs/" + string(jobA) + "/stop"
		ask := func(r *http.Request) (int, string) {
			w := httptest.NewRecorder()
			edge.mux.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		if code, text := ask(asUser(t, "ann", "POST", path, "{}", time.Now())); code != http.StatusOK || len(hf.actors) != 1 || hf.actors[0] != "user:ann" || len(ef.actors) != 0 {
			t.Fatalf("%d %s, actors %v at the holder, %v here", code, text, hf.actors, ef.actors)
		}
		var kept api.Carried
		for name, forge := range map[string]func(*api.Carried){
			"another body": func(c *api.Carried) { c.Body = []byte(`{"reason":"forged"}`) },
			"another path": func(c *api.Carried) { c.Path = "/v1/jobs/" + string(jobA) + "/release" },
			"another key": func(c *api.Carried) {
				c.Header[access.HeaderKey] = access.KeyID(userKey("olga").Public().(ed25519.PublicKey))
			},
			"no proof":      func(c *api.Carried) { c.Header = nil },
			"another query": func(c *api.Carried) { c.Query = "a=1" },
			"another host":  func(c *api.Carried) { c.Host = "h9:1" },
			"a word for it": func(c *api.Carried) {
				c.Header = map[string]string{"X-Actor": "user:ann", access.HeaderKey: "user:ann"}
			},
			"a second time": func(c *api.Carried) { *c = kept },
		} {
			change = func(c *api.Carried) { kept = *c }
			if code, text := ask(asUser(t, "ann", "POST", path, "{}", time.Now())); code != http.StatusOK {
				t.Fatalf("%d %s", code, text)
			}
			before := len(hf.actors)
			change = forge
			if code, text := ask(asUser(t, "ann", "POST", path, "{}", time.Now())); code != http.StatusUnauthorized || len(hf.actors) != before {
				t.Errorf("%s: %d %s, the holder did %v", name, code, text, hf.actors[before:])
			}
			time.Sleep(time.Minute)
		}
		// What one host forges is no burden for those who come by another.
		bad := api.Carried{Method: "POST", Host: "h", Path: path, Header: map[string]string{access.HeaderSignature: "x"}, Body: []byte("{}")}
		for range 25 {
			holder.Carried(t.Context(), "n4", bad)
		}
		if a := holder.Carried(t.Context(), "n4", bad); a.Status != http.StatusTooManyRequests {
			t.Errorf("n4 after 25 forged requests: %d", a.Status)
		}
		if a := holder.Carried(t.Context(), "n5", bad); a.Status != http.StatusUnauthorized {
			t.Errorf("n5 is told %d", a.Status)
		}
		// A host that is not the holder carries nothing on.
		hf.holder = "n3"
		change = nil
		if code, _ := ask(asUser(t, "ann", "POST", path, "{}", time.Now())); code != http.StatusServiceUnavailable {
			t.Errorf("the lease has moved: %d", code)
		}
	})
}

// TestDisabledUsersStreamsEnd within a second.
func TestDisabledUsersStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		ended := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			s.mux.ServeHTTP(httptest.NewRecorder(), asUser(t, "vic", "GET", "/v1/events?follow=true", "", time.Now()))
			ended <- time.Since(began)
		}()
		time.Sleep(10 * time.Second)
		select {
		case d := <-ended:
			t.Fatalf("the stream ended after %v", d)
		default:
		}
		vic := someone("vic", access.Viewer)
		vic.Disabled = true
		f.mu.Lock()
		f.users = access.NewDirectory([]access.User{vic})
		f.mu.Unlock()
		disabled := time.Now()
		<-ended
		if took := time.Since(disabled); took > time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestUIDsOfUsers: on the socket a uid may have a user's role.
func TestUIDsOfUsers(t *testing.T) {
	s, f := usersServer(t, nil)
	u := someone("ann", access.Submitter)
	u.UIDs = []uint64{1000}
	f.users = access.NewDirectory([]access.User{u})
	for uid, want := range map[uint32]int{1000: http.StatusUnprocessableEntity, 1001: http.StatusForbidden} {
		r := httptest.NewRequest("POST", "/v1/jobs", strings.NewReader("{}"))
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r.WithContext(door.With(t.Context(), door.Peer{UID: uid})))
		if w.Code != want {
			t.Errorf("uid %d: %d %s", uid, w.Code, w.Body)
		}
	}
}

func TestSetUser(t *testing.T) {
	s, f := usersServer(t, nil)
	key := access.FormatPublicKey(userKey("new").Public().(ed25519.PublicKey))
	for body, want := range map[string]int{
		fmt.Sprintf(`{"role":"viewer","keys":[%q,%q],"uids":[7,7]}`, key, key): http.StatusOK,
		`{"role":"root"}`:                   http.StatusBadRequest,
		`{"role":"viewer","keys":["AAAA"]}`: http.StatusBadRequest,
	} {
		r := httptest.NewRequest("PUT", "/v1/users/new", bytes.NewReader([]byte(body)))
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r.WithContext(door.With(t.Context(), door.Peer{Admin: true})))
		if w.Code != want {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if len(f.actors) != 1 {
		t.Errorf("actors %v", f.actors)
	}
}

// BenchmarkSigned is what a signed request costs over one on the socket.
func BenchmarkSigned(b *testing.B) {
	s, _ := usersServer(b, nil)
	time.Sleep(2 * time.Millisecond) // proofs are of milliseconds
	rule := door.Rule{Needs: access.Use}
	body := strings.Repeat("x", 1000)
	signed := func() *http.Request {
		r := asUser(b, "ann", "POST", "/v1/jobs", body, time.Now())
		return r.WithContext(door.With(b.Context(), door.Peer{Admin: true})) // whom nothing limits
	}
	admit := func(r *http.Request) time.Duration {
		began := time.Now()
		_, _, p := s.answers.door.Admit(r, rule)
		took := time.Since(began)
		if p != nil {
			b.Fatal(p)
		}
		return took
	}
	for b.Loop() {
		b.StopTimer()
		r := signed()
		b.StartTimer()
		admit(r)
	}
	if os.Getenv("SKEIN_PROVE") != "1" {
		return
	}
	best := fastest.Of(20, 200, func() time.Duration { return admit(signed()) })
	b.ReportMetric(float64(best), "best-ns/op")
	if best > 100*time.Microsecond {
		b.Errorf("%s in the best round, bound 100µs", best)
	}
}
