package door

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func testLimited(ln net.Listener) *limited {
	return limit(ln, &tls.Config{MinVersion: tls.VersionTLS13}, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"reason"}))
}

// test returns a connection that came from there, and whether l admits it.
func (l *limited) test(t *testing.T, from string) (c *Conn, admitted bool) {
	t.Helper()
	inner, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	c = &Conn{Conn: tls.Server(inner, l.conf), inner: inner, from: netip.MustParseAddr(from), l: l, since: time.Now()}
	return c, l.admit(c)
}

func (l *limited) must(t *testing.T, from string) *Conn {
	t.Helper()
	c, ok := l.test(t, from)
	if !ok {
		t.Fatalf("a connection from %s is refused", from)
	}
	return c
}

func closed(c *Conn) bool {
	return c.inner.SetDeadline(time.Time{}) != nil
}

// TestConnectionsAreBounded: of a source with too many connections, and of the one
// with the most when there are too many in all, the oldest gives way that has shown
// no token; one whose request is being answered stays.
func TestConnectionsAreBounded(t *testing.T) {
	l := testLimited(nil)
	var first []*Conn
	for range maxSourceConns + 1 {
		first = append(first, l.must(t, "192.0.2.1"))
	}
	if !closed(first[0]) || closed(first[1]) || len(l.conns) != maxSourceConns {
		t.Error("not the oldest of the source was closed")
	}
	for _, c := range first[1:] {
		c.Prove()
		c.Whole()
	}
	if _, ok := l.test(t, "192.0.2.1"); ok || closed(first[1]) {
		t.Error("a request was cut for a connection that said nothing")
	}
	var others []*Conn
	for i := range maxConns - maxSourceConns + 1 {
		others = append(others, l.must(t, fmt.Sprintf("198.51.100.%d", i)))
	}
	if !closed(others[0]) || closed(others[1]) || closed(first[1]) || len(l.conns) != maxConns {
		t.Error("not the oldest was closed")
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

// TestFewSourcesDisplaceNobody: four addresses that take every place, and take it
// again as often as they like, close only connections of their own.
func TestFewSourcesDisplaceNobody(t *testing.T) {
	l := testLimited(nil)
	flood := func(n int) {
		for i := range n {
			_, _ = l.test(t, fmt.Sprintf("192.0.2.%d", i%4))
		}
	}
	flood(maxConns)
	newcomer := l.must(t, "198.51.100.1")
	flood(5 * maxConns)
	if closed(newcomer) {
		t.Error("a newcomer lost its place to sources that hold many")
	}
}

// TestProofKeepsThePlace: among connections of as many sources as there are places,
// one that has shown a token stays, for as long as a request takes; then it gives
// way.
func TestProofKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimited(nil)
		flood := func(n int) {
			for i := range n {
				_, _ = l.test(t, fmt.Sprintf("203.0.%d.%d", i/200, i%200))
			}
		}
		stranger, newcomer := l.must(t, "192.0.2.1"), l.must(t, "198.51.100.1")
		newcomer.Prove()
		time.Sleep(wholeTime - time.Millisecond)
		flood(5 * maxConns)
		if !closed(stranger) || closed(newcomer) {
			t.Fatalf("closed: stranger %t, newcomer %t", closed(stranger), closed(newcomer))
		}
		time.Sleep(time.Millisecond)
		flood(1)
		if !closed(newcomer) {
			t.Error("a request that is not whole after 5 s keeps its place")
		}
		// Answered, it has time for its next request again.
		next := l.must(t, "198.51.100.1")
		next.Prove()
		next.Whole()
		time.Sleep(time.Minute)
		connState(next, http.StateIdle)
		flood(5 * maxConns)
		if closed(next) {
			t.Error("closed between two requests")
		}
	})
}

func counted(t *testing.T, v *prometheus.CounterVec, label string) float64 {
	t.Helper()
	var m dto.Metric
	if err := v.WithLabelValues(label).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
