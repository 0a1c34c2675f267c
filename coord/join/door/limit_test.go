package door

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func testLimited(ln net.Listener) *Limited {
	return Limit(ln, &tls.Config{MinVersion: tls.VersionTLS13}, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"reason"}))
}

// test returns a connection that came from there, and whether l admits it.
func (l *Limited) test(t *testing.T, from string) (c *joinConn, admitted bool) {
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
		ConnState(c, http.StateActive)
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

func counted(t *testing.T, v *prometheus.CounterVec, label string) float64 {
	t.Helper()
	var m dto.Metric
	if err := v.WithLabelValues(label).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
