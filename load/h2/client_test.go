package h2

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// server speaks HTTP/2, and tells its name.
func server(t *testing.T, name string, secure bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	var p http.Protocols
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	s.Config.Protocols, s.EnableHTTP2 = &p, true
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, c *Client, to any, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(to, req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.ProtoMajor != 2 {
		t.Fatalf("%s, %v", r.Proto, err)
	}
	return string(text)
}

// TestKeep: requests share a connection while its address is one of the origin, and no longer.
func TestKeep(t *testing.T) {
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	s := server(t, "a", false)
	at, dials := one, 0
	c := New(func(ctx context.Context, secure bool) (net.Conn, netip.Addr, error) {
		if dials++; secure {
			t.Error("TLS was not asked for")
		}
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
		return raw, at, err
	})
	defer c.Close()
	if c.tr.Proxy != nil {
		t.Error("requests go through a proxy")
	}
	for i, x := range []struct {
		gen   uint64
		addrs []netip.Addr
		want  int // dials until then
	}{
		{1, []netip.Addr{one}, 1},
		{1, nil, 1}, // nobody looks
		{2, []netip.Addr{two, one}, 1},
		{3, []netip.Addr{two}, 2},
		{3, []netip.Addr{two}, 2},
		{4, []netip.Addr{two}, 2},
	} {
		if c.Keep("a", x.gen, func() []netip.Addr { return x.addrs }); x.gen > 2 {
			at = two
		}
		if got := ask(t, c, "a", s.URL); got != "a" || dials != x.want {
			t.Errorf("%d: %q after %d dials, want %d", i, got, dials, x.want)
		}
	}
}

// TestHand: a connection that is handed over is for its own origin, whoever dials next.
func TestHand(t *testing.T) {
	a, b := server(t, "a", true), server(t, "b", true)
	of := map[any]*httptest.Server{"a": a, "b": b}
	connect := func(ctx context.Context, to any) net.Conn {
		roots := x509.NewCertPool()
		roots.AddCert(of[to].Certificate())
		raw, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}}).DialContext(ctx, "tcp", of[to].Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var dialled []any
	local := netip.MustParseAddr("127.0.0.1")
	c := New(func(ctx context.Context, _ bool) (net.Conn, netip.Addr, error) {
		to := ctx.Value(originKey{})
		dialled = append(dialled, to)
		return connect(ctx, to), local, nil
	})
	defer c.Close()
	c.Hand("a", connect(t.Context(), "a"), local)
	if got := ask(t, c, "b", b.URL); got != "b" || len(dialled) != 1 {
		t.Errorf("b is answered by %q, dialled %v", got, dialled)
	}
	if got := ask(t, c, "a", a.URL); got != "a" || len(dialled) != 1 {
		t.Errorf("a is answered by %q, dialled %v", got, dialled)
	}
}
