package ws

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// serve has a handler serve WebSockets.
func serve(t *testing.T, f func(ctx context.Context, c *websocket.Conn)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no":
			w.WriteHeader(http.StatusForbidden)
			return
		case "/plain":
			return
		case "/junk":
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n\xff\xff"))
				c.Close()
			}
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow() //nolint:errcheck // the end of a test
		f(r.Context(), c)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestExchange(t *testing.T) {
	echo := serve(t, func(ctx context.Context, c *websocket.Conn) {
		_, text, err := c.Read(ctx)
		if err != nil {
			return
		}
		for range 3 {
			if c.Write(ctx, websocket.MessageText, text) != nil {
				return
			}
		}
		_, _, _ = c.Read(ctx) // the end
	})
	large := serve(t, func(ctx context.Context, c *websocket.Conn) {
		_ = c.Write(ctx, websocket.MessageText, []byte(strings.Repeat("x", 2000)))
		_, _, _ = c.Read(ctx)
	})
	leaves := serve(t, func(_ context.Context, c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "bye") })
	silent := serve(t, func(ctx context.Context, c *websocket.Conn) { _, _, _ = c.Read(ctx); _, _, _ = c.Read(ctx) })
	for _, c := range []struct {
		url    string
		count  int
		status int
		last   string
		err    error
	}{
		{echo, 3, 101, "hello", nil},
		{echo, 0, 101, "", nil},
		{echo + "/no", 1, 403, "", nil},
		{echo + "/plain", 1, 200, "", ErrProtocol},
		{echo + "/junk", 1, 101, "", ErrProtocol},
		{large, 1, 101, "", ErrLarge},
		{leaves, 1, 101, "", ErrClosed},
		{silent, 1, 101, "", context.DeadlineExceeded},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if errors.Is(c.err, context.DeadlineExceeded) {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		a, err := Exchange(ctx, Request{Client: http.DefaultClient, URL: c.url, Message: []byte("hello"), Messages: c.count, Max: 1000})
		cancel()
		wrong := !errors.Is(err, c.err)
		if errors.Is(c.err, context.DeadlineExceeded) {
			wrong = err == nil // how the end of a context shows depends on where it is met
		}
		if wrong || a.Status != c.status || string(a.Last) != c.last || c.err == nil && a.Size != int64(c.count*len(c.last)) {
			t.Errorf("%s: %d %q of %d bytes, %v, want %d %q, %v", c.url, a.Status, a.Last, a.Size, err, c.status, c.last, c.err)
		}
		if c.err == nil && a.End.IsZero() {
			t.Errorf("%s: no end", c.url)
		}
	}
}
