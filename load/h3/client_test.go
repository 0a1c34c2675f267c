package h3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
)

// target speaks HTTP/3 on loopback.
type target struct {
	*http3.Server
	at   netip.AddrPort
	conf *tls.Config // of its clients
}

func newTarget(t *testing.T, h http.HandlerFunc) *target {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	t.Cleanup(web.Close)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &http3.Server{Handler: h, TLSConfig: http3.ConfigureTLSConfig(web.TLS)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(socket)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		socket.Close()
		<-done
	})
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return &target{s, socket.LocalAddr().(*net.UDPAddr).AddrPort(), &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: Protocols, MinVersion: tls.VersionTLS13}} //nolint:forcetypeassert // a UDP socket has one
}

// client counts what it dials, and what is closed again.
type client struct {
	*Client
	to           atomic.Pointer[target]
	mu           sync.Mutex
	made, closed int
}

func (tg *target) client(t *testing.T) *client {
	t.Helper()
	c := &client{}
	c.to.Store(tg)
	c.Client = New(func(ctx context.Context) (*quic.Conn, netip.Addr, error) {
		tg := c.to.Load()
		k, err := Connect(ctx, tg.at, tg.conf, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.closed++
		})
		if err == nil {
			c.mu.Lock()
			c.made++
			c.mu.Unlock()
		}
		return k, tg.at.Addr(), err
	})
	t.Cleanup(c.Close)
	return c
}

func (c *client) counts() (made, closed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made, c.closed
}

func (c *client) waitClosed(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, n := c.counts(); n == want {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d connections are closed, want %d", n, want)
		}
	}
}

func (c *client) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com"+path, nil)
	if err != nil {
		return "", err
	}
	r, err := c.Do("a", req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func addrs(list ...string) func() []netip.Addr {
	return func() (out []netip.Addr) {
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
}

// TestConnections: requests share a connection, whoever begins it; it is given up when its address
// is gone, when the target takes no more requests, and when nobody needs it, but never under one.
func TestConnections(t *testing.T) {
	open := make(chan struct{})
	tg := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(w, "begun ")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // as of any server
			select {
			case <-open:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "done")
	})
	c := tg.client(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if text, err := c.get(t.Context(), "/"); text != "done" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	all.Wait()
	if made, _ := c.counts(); made != 1 {
		t.Fatalf("%d connections", made)
	}
	c.Keep("a", 1, addrs("127.0.0.2", "127.0.0.1"))
	if _, err := c.get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	// One is under way when its address goes.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := c.Do("a", req)
	if err != nil {
		t.Fatal(err)
	}
	c.Keep("a", 2, addrs("127.0.0.2"))
	c.Keep("a", 2, func() []netip.Addr { t.Error("nothing changed"); return nil })
	if _, err := c.get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	if made, closed := c.counts(); made != 2 || closed != 0 {
		t.Fatalf("%d connections, %d closed", made, closed)
	}
	close(open)
	text, err := io.ReadAll(slow.Body)
	if string(text) != "begun done" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	slow.Body.Close()
	c.waitClosed(t, 1)
	c.Close()
	c.waitClosed(t, 2)
	if text, err := c.get(t.Context(), "/"); text != "done" || err != nil {
		t.Errorf("after Close: %q, %v", text, err)
	}
	if made, _ := c.counts(); made != 3 {
		t.Errorf("%d connections", made)
	}
}

// TestGoAway: where the target takes no more requests on a connection, the next goes over another,
// and what is under way on it ends.
func TestGoAway(t *testing.T) {
	open, begun := make(chan struct{}), make(chan struct{}, 1)
	first := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-open
		}
		_, _ = io.WriteString(w, "first")
	})
	second := newTarget(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "second") })
	c := first.client(t)
	slow := make(chan error, 1)
	go func() {
		text, err := c.get(t.Context(), "/slow")
		if err == nil && text != "first" {
			err = errors.New(text)
		}
		slow <- err
	}()
	<-begun
	over := make(chan error, 1)
	go func() { over <- first.Shutdown(t.Context()) }()
	c.to.Store(second)
	for end := time.Now().Add(10 * time.Second); ; {
		text, err := c.get(t.Context(), "/")
		if err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
		if text == "second" {
			break
		}
	}
	close(open)
	if err := <-slow; err != nil {
		t.Errorf("what was under way: %v", err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestFaults: what can go wrong has its class.
func TestFaults(t *testing.T) {
	tg := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			_, _ = io.WriteString(w, "some")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // as of any server
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "some")
		case "/silent":
			<-r.Context().Done()
		}
	})
	c := tg.client(t)
	for path, want := range map[string]load.Class{"/abort": load.Reset, "/short": load.EOF} {
		_, err := c.get(t.Context(), path)
		class, ok := Fault(err)
		if !ok && err != nil {
			class = h1.ClassOf(err)
		}
		if err == nil || class != want {
			t.Errorf("%s: %s, %v", path, class, err)
		}
	}
	if made, _ := c.counts(); made != 1 {
		t.Errorf("%d connections: one is of use after a request on it has failed", made)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.get(short, "/silent"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a target that is silent: %v", err)
	}
	// While it is silent, all else goes on; when it goes, that shows.
	slow := make(chan error, 1)
	go func() {
		_, err := c.get(t.Context(), "/silent")
		slow <- err
	}()
	for range 10 {
		if _, err := c.get(t.Context(), "/"); err != nil {
			t.Error(err)
		}
	}
	_ = tg.Close()
	if class, ok := Fault(<-slow); !ok || class != load.EOF {
		t.Errorf("a target that goes: %s", class)
	}
}

// TestConnect: what keeps a connection from being made has its class, and leaves no socket.
func TestConnect(t *testing.T) {
	tg := newTarget(t, func(http.ResponseWriter, *http.Request) {})
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stranger, other := tg.conf.Clone(), tg.conf.Clone()
	stranger.RootCAs = x509.NewCertPool()
	other.NextProtos = []string{"other"}
	for name, k := range map[string]struct {
		at   netip.AddrPort
		conf *tls.Config
		want load.Class
	}{
		"no root":        {tg.at, stranger, load.TLSVerify},
		"other protocol": {tg.at, other, load.TLS},
		"silence":        {silent.LocalAddr().(*net.UDPAddr).AddrPort(), tg.conf, load.ConnectTimeout}, //nolint:forcetypeassert // a UDP socket has one
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := Connect(ctx, k.at, k.conf, func() { t.Errorf("%s: released what was not made", name) })
		cancel()
		if own, ok := errors.AsType[*h1.Error](err); !ok || own.Class != k.want {
			t.Errorf("%s: %v, want %s", name, err, k.want)
		}
	}
}
