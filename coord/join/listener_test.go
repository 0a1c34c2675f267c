package join

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func testLimited(ln net.Listener) *limited {
	return newLimited(ln, &tls.Config{MinVersion: tls.VersionTLS13}, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"reason"}))
}

// test returns a connection that came from there, and whether l admits it.
func (l *limited) test(t *testing.T, from string) (c *joinConn, admitted bool) {
	t.Helper()
	inner, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	c = &joinConn{Conn: tls.Server(inner, l.conf), inner: inner, from: netip.MustParseAddr(from), l: l}
	return c, l.admit(c)
}

func closed(c *joinConn) bool {
	return c.inner.SetDeadline(time.Time{}) != nil
}

// TestConnectionsAreBounded: the oldest silent connection goes first, that of
// the same source if that has too many; one that serves a request stays.
func TestConnectionsAreBounded(t *testing.T) {
	l := testLimited(nil)
	var first []*joinConn
	for range maxSourceConns + 1 {
		c, ok := l.test(t, "192.0.2.1")
		if !ok {
			t.Fatal("a new connection is refused though others are silent")
		}
		first = append(first, c)
	}
	if !closed(first[0]) || closed(first[1]) || len(l.conns) != maxSourceConns {
		t.Error("not the oldest of the source was closed")
	}
	for _, c := range first[1:] {
		connState(c, http.StateActive)
	}
	if _, ok := l.test(t, "192.0.2.1"); ok || closed(first[1]) {
		t.Error("a request was cut for a silent connection")
	}
	var others []*joinConn
	for i := range maxConns - maxSourceConns + 1 {
		c, ok := l.test(t, fmt.Sprintf("198.51.100.%d", i))
		if !ok {
			t.Fatal("another source is refused")
		}
		others = append(others, c)
	}
	if !closed(others[0]) || closed(others[1]) || closed(first[1]) || len(l.conns) != maxConns {
		t.Error("not the oldest silent one was closed")
	}
	if n := counted(t, l.refused, closedSource); n != 2 {
		t.Errorf("counted %v for one source", n)
	}
	if n := counted(t, l.refused, closedFull); n != 1 {
		t.Errorf("counted %v for all", n)
	}
	for _, c := range others[1:] {
		_ = c.Close() // the far end does not read: only the table matters
		_ = c.Close()
	}
	if len(l.conns) != maxSourceConns {
		t.Errorf("%d connections are left", len(l.conns))
	}
}

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
		c, err := tls.Dial("tcp", s.addr, clientTLS(s.id.IDPub))
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
		"large headers":   "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 3*maxRequest) + "\r\n\r\n",
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

func counted(t *testing.T, v *prometheus.CounterVec, label string) float64 {
	t.Helper()
	var m dto.Metric
	if err := v.WithLabelValues(label).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
