package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stuck is a service that takes connections and never answers, as one that was
// stopped does.
func stuck(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stuck")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "unix:" + path
}

// TestCheckAsks: in mode http a target must answer, as told; in mode tcp it must
// take a connection.
func TestCheckAsks(t *testing.T) {
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI + " " + r.Host
		var code int
		if _, err := fmt.Sscanf(r.URL.Query().Get("code"), "%d", &code); err == nil {
			w.WriteHeader(code)
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		name   string
		target string
		o      Options
		asks   string // what the target sees
		want   string // in the error; empty: none
	}{
		{"by default", address(s), Options{}, "GET / " + address(s), ""},
		{"path and host", address(s), Options{Host: "app.example", Check: Check{Path: "/up?code=404"}}, "GET /up?code=404 app.example", ""},
		{"error of the server", address(s), Options{Check: Check{Path: "/?code=503"}}, "GET /?code=503 " + address(s), "GET /?code=503: answers 503 Service Unavailable, want 100 to 499"},
		{"not the status", address(s), Options{Check: Check{Path: "/?code=302", Low: 200, High: 200}}, "GET /?code=302 " + address(s), "want 200 to 200"},
		{"a status that is an error elsewhere", address(s), Options{Check: Check{Path: "/?code=503", Low: 503, High: 503}}, "GET /?code=503 " + address(s), ""},
		{"hangs", stuck(t), Options{}, "", "GET /: no answer within 100ms"},
		{"hangs, unasked", stuck(t), Options{Mode: ModeTCP}, "", ""},
		{"is not there", "unix:/nonexistent/socket", Options{}, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Mode == "" {
				c.o.Mode = ModeHTTP
			}
			if c.asks == "" {
				c.o.Check.Within = 100 * time.Millisecond
			}
			err := CheckTarget(t.Context(), c.target, c.o)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if c.asks == "" {
				return
			}
			select {
			case got := <-asked:
				if got != c.asks {
					t.Errorf("target saw %q, want %q", got, c.asks)
				}
			case <-time.After(limit):
				t.Error("the target was not asked")
			}
		})
	}
}

// TestCheckByPublicName: a target behind a socket is asked under the name that
// clients use.
func TestCheckByPublicName(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	host := make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host <- r.Host }))
	s.Listener = l
	s.Start()
	defer s.Close()
	o := Options{Mode: ModeHTTP, Public: func() []string { return []string{public} }}
	for _, want := range []string{public, "localhost"} {
		if err := CheckTarget(t.Context(), "unix:"+l.Addr().String(), o); err != nil {
			t.Error(err)
		} else if got := <-host; got != want {
			t.Errorf("asked as %s, want %s", got, want)
		}
		o.Public = nil
	}
}

// TestHangingTarget: one that takes connections and answers nothing is reported,
// and others take the requests.
func TestHangingTarget(t *testing.T) {
	n, a, b, _ := onions()
	n.web(t, b)
	dial := func(ctx context.Context, target string) (net.Conn, error) {
		if target == a {
			client, server := net.Pipe()
			t.Cleanup(func() { client.Close(); server.Close() })
			go func() { _, _ = server.Read(make([]byte, 1<<10)) }() // hears what is asked
			return client, nil
		}
		return n.dial(ctx, target)
	}
	told := make(chan string, 4)
	path := run(t, Options{
		Targets: []string{a, b}, Dial: dial, Check: Check{Within: 50 * time.Millisecond, Every: 10 * time.Millisecond},
		OnHealth: func(target string, healthy bool, why error) { told <- fmt.Sprint(target, " ", healthy, " ", why) },
	})
	select {
	case got := <-told:
		if want := a + " false target " + a + ": GET /: no answer within 50ms"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	case <-time.After(limit):
		t.Fatal("a target that hangs is not noticed")
	}
	for range 4 {
		if resp, body := raw(t, path, get("/")); resp.StatusCode != http.StatusOK || body[:1] != "b" {
			t.Errorf("answer %s %q", resp.Status, body)
		}
	}
}

// TestHysteresis: three checks in a row change a target's health, fewer do not.
func TestHysteresis(t *testing.T) {
	bad := errors.New("refused")
	var h health
	var changes []int
	for i, ok := range []bool{
		true, false, false, true, false, false, false /* 6 */, false, true, true, false, true, true, true /* 13 */, true, false,
	} {
		err := bad
		if ok {
			err = nil
		}
		if h.judge(err) {
			changes = append(changes, i)
		}
	}
	if want := []int{6, 13}; !slices.Equal(changes, want) || h.failing {
		t.Errorf("changed after the checks %v, want %v; failing at the end: %t", changes, want, h.failing)
	}
}

func TestCheckOptions(t *testing.T) {
	for want, c := range map[string]Check{
		"is no path":    {Path: "up"},
		"is no path to": {Path: "http://x/up"},
		"no status":     {Low: 500, High: 200},
		"want 100 to":   {Low: 200, High: 600},
	} {
		if err := CheckTarget(t.Context(), "127.0.0.1:1", Options{Mode: ModeHTTP, Check: c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: want %q, got %v", c, want, err)
		}
	}
}
