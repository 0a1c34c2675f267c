package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

func TestSummarise(t *testing.T) {
	// 1, 2, 3, 4: mean 2.5, sample deviation sqrt(5/3).
	s := Summarise(job.Metric{N: 4, Mean: 2.5, M2: 5, Min: 1, Max: 4})
	if s.Std == nil || math.Abs(*s.Std-math.Sqrt(5.0/3)) > 1e-15 || math.Abs(*s.SE-*s.Std/2) > 1e-15 {
		t.Fatalf("%+v", s)
	}
	if math.Abs(*s.CI95High-2.5-1.959963984540054**s.SE) > 1e-12 || *s.CI95Low > *s.CI95High {
		t.Errorf("interval %g to %g", *s.CI95Low, *s.CI95High)
	}
	for _, m := range []job.Metric{{N: 1, Mean: 1, Min: 1, Max: 1}, {}, {N: 3, M2: math.Inf(1)}, {N: 3, M2: -1}} {
		if s := Summarise(m); s.Std != nil || s.SE != nil || s.CI95Low != nil || s.CI95High != nil {
			t.Errorf("%+v gives %+v", m, s)
		}
	}
}

func TestSummariseQuantiles(t *testing.T) {
	s := Summarise(job.Metric{N: 100, Mean: 1, M2: 5, Min: 1, Max: 1000, Sketch: &job.Sketch{Above: []int64{0, 90, 160, 9, 319, 1}}})
	if s.P50 == nil || *s.P50 != 1 || math.Abs(*s.P90-1) > 0.011 || math.Abs(*s.P99-32) > 0.36 || *s.QuantileError > 0.0109 {
		t.Errorf("%v %v %v %v", *s.P50, *s.P90, *s.P99, *s.QuantileError)
	}
	if s.RelativeError == nil || math.Abs(*s.RelativeError-(*s.CI95High-1)) > 1e-12 {
		t.Errorf("relative error %v, interval up to %g", s.RelativeError, *s.CI95High)
	}
}

func TestDialTargets(t *testing.T) {
	for target, base := range map[string]string{
		"/run/skein/skein.sock": "http://skein", "unix:/x": "http://skein", "skein.sock": "http://skein", "./s:1/x": "http://skein",
		"127.0.0.1:80": "http://127.0.0.1:80", "http://[::1]:80/": "http://[::1]:80",
	} {
		c, err := Dial(target)
		if err != nil || c.base != base || c.Target() != target {
			t.Errorf("%s: %+v, %v", target, c, err)
		}
	}
	for _, bad := range []string{"", "http://x"} {
		if _, err := Dial(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func client(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := Dial(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestErrors(t *testing.T) {
	missing, err := Dial(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = missing.Status(t.Context())
	if un, ok := errors.AsType[*UnreachableError](err); !ok || un.Target != missing.Target() || !Temporary(err) {
		t.Errorf("no socket: %v", err)
	}
	for name, tc := range map[string]struct {
		handler   http.HandlerFunc
		temporary bool
		is        error
		code      Code
	}{
		"problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			w.Write([]byte(`{"code":"no_holder","detail":"none","retry_after_seconds":1}`))
		}, true, nil, CodeNoHolder},
		"final problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			w.Write([]byte(`{"code":"not_found","detail":"none","retry_after_seconds":null}`))
		}, false, nil, CodeNotFound},
		"not ours":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false, ErrAnswer, ""},
		"redirect":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, false, ErrAnswer, ""},
		"not JSON":  {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hi")) }, false, ErrAnswer, ""},
		"broke off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, ErrInterrupted, ""},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("{"))
			panic(http.ErrAbortHandler)
		}, true, ErrInterrupted, ""},
	} {
		_, err := client(t, tc.handler).Status(t.Context())
		if err == nil || Temporary(err) != tc.temporary || tc.is != nil && !errors.Is(err, tc.is) || tc.code != "" && !IsCode(err, tc.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	blocked := client(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := blocked.Status(ctx); !errors.Is(err, context.Canceled) || Temporary(err) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want func(error) bool
	}{
		"empty lines": {"\n\n{\"seq\":1}\n\n", func(err error) bool { return err == nil }},
		"problem":     {"{\"problem\":{\"code\":\"internal\",\"detail\":\"x\"}}\n", func(err error) bool { return IsCode(err, CodeInternal) }},
		"not JSON":    {"hello\n", func(err error) bool { return errors.Is(err, ErrAnswer) }},
		"long line":   {strings.Repeat("x", maxLine+1) + "\n", func(err error) bool { return errors.Is(err, ErrAnswer) }},
	} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(tc.body)) })
		if err := c.Events(t.Context(), EventQuery{}, FollowOptions{}, func(Event) error { return nil }); !tc.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	torn := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("{\"seq\":1}\n{\"se"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	seen := 0
	err := torn.Events(t.Context(), EventQuery{}, FollowOptions{}, func(Event) error { seen++; return nil })
	if !errors.Is(err, ErrInterrupted) || seen != 1 {
		t.Errorf("half a line: %d events, %v", seen, err)
	}
	own := errors.New("own")
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{\"seq\":1}\n")) })
	if err := c.Events(t.Context(), EventQuery{Follow: true}, FollowOptions{}, func(Event) error { return own }); !errors.Is(err, own) {
		t.Errorf("callback: %v", err)
	}
}

// TestEventsGoOnFromPosition has a daemon that tells how far it is, over events
// that the filter leaves out, and breaks off: the next request goes on there.
func TestEventsGoOnFromPosition(t *testing.T) {
	var asked []string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("after")+" "+q.Get("limit")+" "+q.Get("positions"))
		if len(asked) == 1 {
			fmt.Fprint(w, `{"source":{"node":"n1","inc":1},"seq":4}`+"\n"+`{"cursor":"n1/1:9,n2/1:3"}`+"\n"+`{"source":{"no`)
			return
		}
		fmt.Fprint(w, `{"source":{"node":"n1","inc":1},"seq":11}`+"\n")
	})
	var got []uint64
	err := c.Events(t.Context(), EventQuery{Follow: true, Limit: 2}, FollowOptions{}, func(e Event) error {
		got = append(got, e.Seq)
		return nil
	})
	if err != nil || len(got) != 2 || got[0] != 4 || got[1] != 11 {
		t.Fatalf("events %v, %v", got, err)
	}
	if len(asked) != 2 || asked[0] != " 2 true" || asked[1] != "n1/1:9,n2/1:3 1 true" {
		t.Fatalf("asked %q", asked)
	}
	bad := client(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"cursor":"nonsense"}`+"\n") })
	if err := bad.Events(t.Context(), EventQuery{}, FollowOptions{}, func(Event) error { return nil }); !errors.Is(err, ErrAnswer) {
		t.Fatalf("a position that is none: %v", err)
	}
}

// TestCodes: the list of codes has all constants.
func TestCodes(t *testing.T) {
	text, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\tCode\w+ +Code *= "`).FindAll(text, -1)); n != len(Codes()) {
		t.Errorf("%d codes, %d in the list", n, len(Codes()))
	}
}

// TestCertificateOfAnAuthority: a host without a pin is known by the name in its
// certificate.
func TestCertificateOfAnAuthority(t *testing.T) {
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer host.Close()
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate()) // for 127.0.0.1, not for localhost
	_, port, err := net.SplitHostPort(host.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"127.0.0.1": true, "localhost": false} {
		target, err := ParseTarget("https://" + net.JoinHostPort(name, port))
		if err != nil {
			t.Fatal(err)
		}
		tr := target.Transport(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots})
		_, err = New("h1", target.Base(), tr).Version(t.Context())
		tr.CloseIdleConnections()
		if (err == nil) != good || !good && !strings.Contains(err.Error(), "localhost") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
