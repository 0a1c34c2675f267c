package h2

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// server speaks HTTP/2, and tells its name, or who asks.
func server(t *testing.T, name string, secure bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, cmp.Or(name, r.RemoteAddr)) }))
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
	s := server(t, "", false)
	at := one
	c := New(func(ctx context.Context, secure bool) (net.Conn, netip.Addr, error) {
		if secure {
			t.Error("TLS was not asked for")
		}
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
		return raw, at, err
	})
	defer c.Close()
	if c.tr.Proxy != nil {
		t.Error("requests go through a proxy")
	}
	known := map[string]bool{}
	// again asks until a request goes over a connection that is known: net/http lets go of one that it
	// made a moment after its first answer.
	again := func() (asked int) {
		for ; asked < 1000; asked++ {
			conn := ask(t, c, "a", s.URL)
			if known[conn] {
				return asked
			}
			known[conn] = true
		}
		t.Fatal("no connection is used twice")
		return 0
	}
	c.Keep("a", 1, func() []netip.Addr { return []netip.Addr{one} })
	again()
	c.Keep("a", 1, func() []netip.Addr { t.Error("nothing changed"); return nil })
	c.Keep("a", 2, func() []netip.Addr { return []netip.Addr{two, one} })
	if again() != 0 {
		t.Error("a connection to an address that is still there is not used")
	}
	at = two
	c.Keep("a", 3, func() []netip.Addr { return []netip.Addr{two} })
	if again() == 0 {
		t.Error("a connection to an address that is gone is used")
	}
	c.Keep("a", 4, func() []netip.Addr { return []netip.Addr{two} })
	if again() != 0 {
		t.Error("the new connection is not used")
	}
}

// TestRetire: however often addresses change, what is kept of the connections before is bounded.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		left := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.old)
		}
		for gen := range uint64(10 * oldLooks) {
			c.with("a", func(o *origin) { o.note(netip.AddrFrom4([4]byte{127, 0, 0, 1})) })
			c.Keep("a", gen+1, func() []netip.Addr { return nil })
			time.Sleep(oldTime)
			if n := left(); n < 1 || n > oldLooks+1 {
				t.Fatalf("after %d changes there are %d that are old", gen+1, n)
			}
		}
		time.Sleep(time.Hour)
		if n := left(); n > 0 {
			t.Errorf("%d are left", n)
		}
	})
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
