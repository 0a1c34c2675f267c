package join

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/coord/join/door"
)

// TestJoinAmongIdleConnections: 200 connections that say nothing keep nobody
// from joining.
func TestJoinAmongIdleConnections(t *testing.T) {
	s := newSite(t)
	for range 200 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := Join(t.Context(), s.token(1), t.TempDir(), s.options("n2")); err != nil {
		t.Error(err)
	}
}

// TestServerSaysNothingElse: what the HTTP server would answer by itself is
// the usual 404, or nothing.
func TestServerSaysNothingElse(t *testing.T) {
	s := newSite(t)
	ask := func(request string) string {
		c, err := tls.Dial("tcp", s.addr, door.ClientTLS(s.id.IDPub))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, request)
		b, _ := io.ReadAll(c)
		return string(b)
	}
	want := ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if !strings.HasPrefix(want, "HTTP/1.1 404 ") || strings.Contains(want, "Date") {
		t.Fatalf("%q", want)
	}
	if got := ask("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); got != want {
		t.Errorf("OPTIONS *: %q", got)
	}
	for name, r := range map[string]string{
		"large headers":   "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 3*door.MaxRequest) + "\r\n\r\n",
		"no host":         "GET / HTTP/1.1\r\n\r\n",
		"unknown version": "GET / HTTP/7.1\r\nHost: x\r\n\r\n",
		"expectation":     "POST / HTTP/1.1\r\nHost: x\r\nExpect: much\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":         "hello\r\n\r\n",
	} {
		if got := ask(r); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
