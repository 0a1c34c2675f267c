package status

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// TestPage: where everybody may read the page is served beside the API, under the names
// of the listener; on the socket and inside there is the API alone. Inside, whoever asks
// may what everybody may.
func TestPage(t *testing.T) {
	inside := door.NewInside()
	var addr string
	r := start(t, newFake(), func(o *Options, _ *Server) {
		o.Inside = inside
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })
		o.ListenTCP = func(ctx context.Context) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
			if err == nil {
				addr = l.Addr().String()
			}
			return l, err
		}
	})
	ask := func(via http.RoundTripper, method, host, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := via.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	tcp := &http.Transport{}
	t.Cleanup(tcp.CloseIdleConnections)
	within := inside.Transport()
	socket := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.o.Socket)
	}}
	t.Cleanup(socket.CloseIdleConnections)
	for _, c := range []struct {
		via                http.RoundTripper
		method, host, path string
		code               int
		says               string
	}{
		{tcp, "GET", "", "/", 200, "page /"},
		{tcp, "GET", "localhost:1", "/p/members", 200, "page /p/members"},
		{tcp, "GET", "", "/assets/app.js", 200, "page /assets/app.js"},
		{tcp, "GET", "", "/ui/v1/status", 200, "page /ui/v1/status"},
		{tcp, "GET", "", "/v1/status", 200, `"cluster"`},
		{tcp, "GET", "", "/v1/whoami", 200, `"proof":"none"`},
		{tcp, "GET", "", "/healthz", 200, ""},
		{tcp, "GET", "", "/nothing", 404, "not_found"},
		{tcp, "GET", "evil.example", "/", 403, "127.0.0.1 or localhost: the names of status.listen"},
		{tcp, "GET", "evil.example", "/v1/status", 403, "status.listen"},
		{tcp, "POST", "", "/v1/lease/step-down", 403, "skein ui"},
		{tcp, "POST", "", "/v1/worker/drain", 403, `"hint":"here everybody may read`},
		{tcp, "GET", "", "/v1/config", 403, `"hint"`},
		{tcp, "POST", "", "/v1/nothing", 404, "not_found"},
		{socket, "GET", "", "/", 404, "not_found"},
		{socket, "GET", "", "/p/members", 404, "not_found"},
		{within, "GET", "any.example", "/v1/status", 200, `"cluster"`},
		{within, "GET", "", "/v1/whoami", 200, `"proof":"none"`},
		{within, "GET", "", "/p/members", 404, "not_found"},
		{within, "POST", "", "/v1/lease/step-down", 403, "forbidden"},
		{within, "GET", "", "/v1/tokens", 403, "forbidden"},
	} {
		if code, text := ask(c.via, c.method, c.host, c.path); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s %s of %q: %d %s, want %d %s", c.method, c.path, c.host, code, text, c.code, c.says)
		}
	}
	// A stream goes on as long as it is read, and ends with the server.
	c := api.New("inside", "http://skein", within)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	if err := c.Watch(ctx, api.WatchQuery{}, api.FollowOptions{}, func(m api.WatchMessage) error {
		if seen++; m.Event == "synced" {
			return api.ErrStop
		}
		return nil
	}); err != nil || seen < 2 {
		t.Errorf("a watch: %v after %d messages", err, seen)
	}
}

// TestInsideEnds: who asks where nobody serves is told so.
func TestInsideEnds(t *testing.T) {
	l := door.NewInside()
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a listener that is closed accepts")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://skein/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := l.Transport().RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("an answer of nobody")
	}
}

// TestPageConnections: one address may have 64 connections to the page. Beyond them one is
// closed without a word, and counted; other addresses and the socket are served as before,
// and whoever closes a connection, or leaves in the middle of a stream, may come again.
func TestPageConnections(t *testing.T) {
	const most = 64
	var addr string
	r := start(t, newFake(), func(o *Options, _ *Server) {
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") })
		o.ListenTCP = func(ctx context.Context) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
			if err == nil {
				addr = l.Addr().String()
			}
			return l, err
		}
	})
	// open asks for a path on a connection of its own, which stays; nil: it was closed.
	open := func(from, path string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		// It may have been closed already: then there is nothing to read either.
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				t.Fatalf("neither answered nor closed: %v", err)
			}
			return nil
		}
		if !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf("%s from %s: %s", path, from, line)
		}
		return conn
	}
	again := func(what string) net.Conn {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if conn := open("127.0.0.1", "/"); conn != nil {
				return conn
			}
			if time.Now().After(deadline) {
				t.Fatalf("no place %s", what)
			}
		}
	}
	var held []net.Conn
	for i := range most {
		path := "/"
		if i == 1 {
			path = "/v1/watch?topics=lease"
		}
		conn := open("127.0.0.1", path)
		if conn == nil {
			t.Fatalf("connection %d of %d is closed", i+1, most)
		}
		held = append(held, conn)
	}
	for range 3 {
		if open("127.0.0.1", "/") != nil {
			t.Errorf("connection %d is served", most+1)
		}
	}
	if _, _, text := r.ask(t, "GET", "/metrics", ""); !strings.Contains(text, "\nskein_api_connections_refused_total 3\n") {
		t.Error("not all refusals are counted")
	}
	if open("127.0.0.2", "/") == nil {
		t.Error("another address is refused")
	}
	if _, err := r.client.Status(t.Context()); err != nil {
		t.Errorf("at the socket: %v", err)
	}
	for i, what := range []string{"after one was closed", "after a reader of a stream has gone"} {
		held[i].Close()
		held[i] = again(what)
		if open("127.0.0.1", "/") != nil {
			t.Errorf("more than one place %s", what)
		}
	}
}
