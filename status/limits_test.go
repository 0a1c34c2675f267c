package status

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// TestRequestsOfUsersAreLimited: by user, whatever host brings them; a burst is
// allowed, and whoever waits as told passes.
func TestRequestsOfUsersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s, f := usersServer(t, func(_ *fake, o *Options) { o.Registerer = reg })
		twoOwners(f)
		time.Sleep(2 * access.Window)
		ask := func(r *http.Request) (int, time.Duration) {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			var p api.Problem
			if w.Code != http.StatusTooManyRequests {
				return w.Code, 0
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.RetryAfterSeconds == nil || w.Header().Get("Retry-After") == "" || !p.Retryable() {
				t.Fatalf("%v %s", err, w.Body)
			}
			return w.Code, time.Duration(*p.RetryAfterSeconds * float64(time.Second))
		}
		stop := "/v1/jobs/" + string(jobA) + "/stop"
		for name, c := range map[string]struct {
			who, method, path string
			burst             int
			every             time.Duration
		}{
			"submit": {"ann", "POST", "/v1/jobs", 100, time.Second / 10},
			"invite": {"olga", "POST", "/v1/tokens", 10, 6 * time.Second},
			"other":  {"ann", "POST", stop, 200, time.Second / 20},
		} {
			time.Sleep(time.Hour)
			for i := range c.burst {
				if code, _ := ask(asUser(t, c.who, c.method, c.path, "{}", time.Now())); code == http.StatusTooManyRequests {
					t.Fatalf("%s: number %d is told to wait", name, i)
				}
			}
			code, wait := ask(asUser(t, c.who, c.method, c.path, "{}", time.Now()))
			if code != http.StatusTooManyRequests || wait > c.every+time.Millisecond || wait < c.every-time.Millisecond {
				t.Errorf("%s: %d, wait %v, one comes every %v", name, code, wait, c.every)
			}
			if code, _ := ask(asUser(t, "vic", "GET", "/v1/jobs", "", time.Now())); code != http.StatusOK {
				t.Errorf("%s: another user is told %d", name, code)
			}
			time.Sleep(wait)
			if code, _ := ask(asUser(t, c.who, c.method, c.path, "{}", time.Now())); code == http.StatusTooManyRequests {
				t.Errorf("%s: after the wait %d", name, code)
			}
			var m dto.Metric
			if err := s.metrics.limited.WithLabelValues(name).Write(&m); err != nil || m.GetCounter().GetValue() != 1 {
				t.Errorf("%s: %v, counted %v", name, err, m.GetCounter().GetValue())
			}
		}
		// What another host brings counts together with what comes here.
		time.Sleep(time.Hour)
		for range 200 {
			ask(asUser(t, "ann", "POST", stop, "{}", time.Now()))
		}
		r := asUser(t, "ann", "POST", stop, "{}", time.Now())
		c := api.Carried{Method: r.Method, Host: r.Host, Path: stop, Header: map[string]string{}, Body: []byte("{}")}
		for _, name := range carriedHeaders {
			if v := r.Header.Get(name); v != "" {
				c.Header[name] = v
			}
		}
		if a := s.Carried(t.Context(), "n2", c); a.Status != http.StatusTooManyRequests || a.Header["Retry-After"] == "" {
			t.Errorf("by another host: %d", a.Status)
		}
		// Who was told to wait may send the very same again: its nonce takes no room.
		again := asUser(t, "ann", "POST", stop, "{}", time.Now())
		code, wait := ask(again)
		if code != http.StatusTooManyRequests {
			t.Errorf("one too many: %d", code)
		}
		time.Sleep(wait)
		again.Body = io.NopCloser(strings.NewReader("{}"))
		if code, _ := ask(again); code != http.StatusOK {
			t.Errorf("the same after the wait: %d", code)
		}
		// A key proves as seldom on the socket of a host, where anybody may be.
		uid := asUser(t, "ann", "POST", stop, "{}", time.Now())
		if code, _ := ask(uid.WithContext(door.With(t.Context(), door.Peer{UID: 7}))); code != http.StatusTooManyRequests {
			t.Errorf("on the socket by a key: %d", code)
		}
		// On the socket nothing is counted.
		for range 1000 {
			r := httptest.NewRequest("POST", stop, strings.NewReader("{}"))
			if code, _ := ask(r.WithContext(door.With(t.Context(), door.Peer{Admin: true}))); code != http.StatusOK {
				t.Fatalf("on the socket: %d", code)
			}
		}
	})
}

// TestStreamsOfAUser: one user takes a quarter of the watches and followers, and leaves the rest to others.
func TestStreamsOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := usersServer(t, func(_ *fake, o *Options) { o.MaxWatchers, o.MaxFollowers = 8, 8 })
		time.Sleep(2 * access.Window)
		for _, path := range []string{"/v1/watch?topics=lease", "/v1/events?follow=true"} {
			open := func(who string) (code func() int) {
				r := asUser(t, who, "GET", path, "", time.Now())
				ctx, cancel := context.WithCancel(r.Context())
				w, done := httptest.NewRecorder(), make(chan struct{})
				go func() {
					defer close(done)
					s.mux.ServeHTTP(w, r.WithContext(ctx))
				}()
				synctest.Wait()
				return func() int {
					cancel()
					<-done
					return w.Code
				}
			}
			var codes []func() int
			for _, who := range []string{"vic", "vic", "vic", "ann"} {
				codes = append(codes, open(who))
			}
			for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusOK} {
				if code := codes[i](); code != want {
					t.Errorf("%s: number %d is told %d", path, i, code)
				}
			}
		}
	})
}

// TestStrangersAreLimited: by address, of IPv6 by /64, before anything is looked up.
func TestStrangersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := usersServer(t, nil)
		time.Sleep(2 * access.Window)
		ask := func(addr, path, token string) int {
			r := httptest.NewRequest("GET", path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r.WithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: addr})))
			return w.Code
		}
		for range 100 {
			ask("2001:db8::1", "/v1/version", "")
			ask("2001:db8::2", "/v1/jobs", "")
		}
		for path, addr := range map[string]string{"/v1/version": "2001:db8::3", "/v1/jobs": "2001:db8::4"} {
			if code := ask(addr, path, ""); code != http.StatusTooManyRequests {
				t.Errorf("%s from %s: %d", path, addr, code)
			}
		}
		if code := ask("2001:db8:0:1::1", "/v1/version", ""); code != http.StatusOK {
			t.Errorf("another network is told %d", code)
		}
		token, err := access.Mint(testCluster, "vic", access.Viewer, userKey("vic"), "id", time.Now(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if code := ask("2001:db8::1", "/v1/jobs", token); code != http.StatusOK {
			t.Errorf("a user of that network is told %d", code)
		}
		for range 20 {
			ask("2001:db8::5", "/v1/jobs", "x")
		}
		if code := ask("2001:db8::6", "/v1/jobs", token); code != http.StatusTooManyRequests {
			t.Errorf("after 20 refused proofs of the network: %d", code)
		}
	})
}

// TestTokenOfASubmitter: it lends less, never more; a viewer's shows the own jobs only.
func TestTokenOfASubmitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		twoOwners(f)
		time.Sleep(2 * access.Window)
		for _, role := range []access.Role{access.Viewer, access.Submitter} {
			token, err := access.Mint(testCluster, "sam", role, userKey("sam"), "id", time.Now(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]int{
				"/v1/jobs": http.StatusOK, "/v1/events": http.StatusOK, "/v1/watch?topics=jobs": http.StatusOK,
				"/v1/jobs/" + string(jobA): http.StatusNotFound, "/v1/status": http.StatusOK,
			} {
				r := httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}), "GET", path, nil)
				r.Header.Set("Authorization", "Bearer "+token)
				w := askFor(t, s, r, 2*time.Second)
				if w.Code != want || want == http.StatusOK && strings.Contains(w.Body.String(), string(jobA)) {
					t.Errorf("%s with a token of %s: %d %s", path, role, w.Code, w.Body)
				}
			}
		}
	})
}
