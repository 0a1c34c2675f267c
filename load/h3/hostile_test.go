package h3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
)

// newRaw is a target that has a connection of QUIC and does with it what it likes.
func newRaw(t *testing.T, serve func(k *quic.Conn)) *target {
	t.Helper()
	tg := newTarget(t, func(http.ResponseWriter, *http.Request) {})
	l, err := quic.ListenAddr("127.0.0.1:0", tg.TLSConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			k, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			serve(k)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	tg.at = l.Addr().(*net.UDPAddr).AddrPort() //nolint:forcetypeassert // a UDP socket has one
	return tg
}

// control opens the control stream, with empty settings and what follows.
func control(k *quic.Conn, more string) {
	if s, err := k.OpenUniStream(); err == nil {
		_, _ = s.Write([]byte("\x00\x04\x00" + more))
	}
}

// answering answers the first request with these bytes.
func answering(k *quic.Conn, text string, after func(s *quic.Stream)) {
	control(k, "")
	if s, err := k.AcceptStream(k.Context()); err == nil {
		_, _ = s.Write([]byte(text))
		after(s)
	}
}

// TestHostile: what a target does on a connection of QUIC has its class.
func TestHostile(t *testing.T) {
	end := func(s *quic.Stream) { _ = s.Close() }
	status := "\x01\x03\x00\x00\xd9" // HEADERS: 200
	for name, x := range map[string]struct {
		serve func(k *quic.Conn)
		want  load.Class
	}{
		"closes at once":    {func(k *quic.Conn) { _ = k.CloseWithError(0x100, "bye") }, load.EOF},
		"closes with error": {func(k *quic.Conn) { _ = k.CloseWithError(0x102, "no") }, load.Reset},
		"resets": {func(k *quic.Conn) {
			answering(k, "", func(s *quic.Stream) { s.CancelWrite(0x10b); s.CancelRead(0x10b) })
		}, load.Reset},
		"resets the body": {func(k *quic.Conn) { answering(k, status+"\x00\x05some", func(s *quic.Stream) { s.CancelWrite(0x102) }) }, load.Reset},
		"closes the body": {func(k *quic.Conn) {
			answering(k, status+"\x00\x05some", func(*quic.Stream) { _ = k.CloseWithError(0x100, "") })
		}, load.EOF},
		"no answer":    {func(k *quic.Conn) { answering(k, "", end) }, load.EOF},
		"a body first": {func(k *quic.Conn) { answering(k, "\x00\x04some", end) }, load.Protocol},
		"large head":   {func(k *quic.Conn) { answering(k, "\x01\x80\x10\x00\x00"+strings.Repeat("x", 1000), end) }, load.Protocol},
		"junk head":    {func(k *quic.Conn) { answering(k, "\x01\x04\x00\x00\xff\x40", end) }, load.Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			c := newRaw(t, x.serve).client(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := c.get(ctx, "/")
			class, ok := Fault(err)
			if !ok && err != nil {
				class = h1.ClassOf(err)
				if class == load.Reset { // as of whatever nobody knows
					class = load.Protocol
				}
			}
			if err == nil || class != x.want || ctx.Err() != nil {
				t.Errorf("%s, %v, want %s", class, err, x.want)
			}
			c.Close()
			if made, _ := c.counts(); made != 1 {
				t.Errorf("%d connections", made)
			}
			c.waitClosed(t, 1)
		})
	}
}

// TestGoneAway: a request that is not sent, for a GOAWAY came before, fails as if the target had closed
// the connection, whether others are under way or not.
func TestGoneAway(t *testing.T) {
	for _, busy := range []bool{true, false} {
		open := make(chan struct{})
		c := newRaw(t, func(k *quic.Conn) {
			s, err := k.OpenUniStream()
			if err != nil {
				return
			}
			_, _ = s.Write([]byte("\x00\x04\x00"))
			<-open
			_, _ = s.Write([]byte("\x07\x01\x00"))
		}).client(t)
		k, err := c.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if busy {
			if _, err := k.OpenRequestStream(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		close(open)
		for end := time.Now().Add(10 * time.Second); usable(k.ClientConn); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it takes requests for ever")
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.RoundTrip(req) //nolint:bodyclose // there is none
		if class, ok := Fault(err); !ok || class != load.EOF {
			t.Errorf("busy %t: %s, %v", busy, class, err)
		}
		c.give(k)
		c.Close()
		c.waitClosed(t, 1)
	}
}

// TestOver: a request whose time is over has no connection made.
func TestOver(t *testing.T) {
	c := New(func(context.Context) (*quic.Conn, netip.Addr, error) {
		t.Error("dialled")
		return nil, netip.Addr{}, errors.New("no")
	})
	req, err := http.NewRequestWithContext(ended, http.MethodGet, "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("a", req); !errors.Is(err, context.Canceled) { //nolint:bodyclose // there is none
		t.Error(err)
	}
}

// TestTold: the target hears that a connection is closed, before its socket goes.
func TestTold(t *testing.T) {
	told := make(chan error, 1)
	c := newRaw(t, func(k *quic.Conn) {
		answering(k, "\x01\x03\x00\x00\xd9", func(s *quic.Stream) { _ = s.Close() })
		<-k.Context().Done()
		told <- context.Cause(k.Context())
	}).client(t)
	if _, err := c.get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if a, ok := errors.AsType[*quic.ApplicationError](<-told); !ok || !a.Remote || a.ErrorCode != 0x100 {
		t.Error(a)
	}
}
