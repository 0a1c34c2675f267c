package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

const public = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"

// limit bounds every wait of these tests.
const limit = 30 * time.Second

// run starts a proxy on a unix socket, as tor's target is, and returns its path.
func run(t *testing.T, o Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	o.Log = zerolog.Nop()
	if c, ok := o.Listen.(*closings); ok {
		c.Listener = l
	} else {
		o.Listen = l
	}
	if o.Mode == "" {
		o.Mode = ModeHTTP
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(limit):
			t.Error("the proxy does not stop")
		}
	})
	return path
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return c
}

// raw sends text as it is and reads one answer.
func raw(t *testing.T, path, text string) (*http.Response, string) {
	t.Helper()
	c := dial(t, path)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("answer to %.60q: %v", text, err)
	}
	defer resp.Body.Close()
	// A refusal may come with a reset, since the rest was never read.
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + public + "\r\n\r\n" }

// checked is a target that answers health checks, which h does not see.
func checked(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != checkAgent {
			h(w, r)
		}
	})
}

func address(s *httptest.Server) string { return s.Listener.Addr().String() }

func TestRewriting(t *testing.T) {
	seen := make(chan *http.Request, 1)
	target := httptest.NewServer(checked(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Clone(context.Background())
		h := w.Header()
		h.Set("Location", "https://"+r.Host+"/next?a=b")
		h.Add("Set-Cookie", "a=b; Domain="+strings.Split(r.Host, ":")[0]+"; Path=/; Secure; HttpOnly")
		h.Add("Set-Cookie", "c=d; Domain=elsewhere.example")
		h.Set("Content-Security-Policy", "default-src 'self' https://"+r.Host+" wss://"+r.Host+"/ws https://cdn.example; upgrade-insecure-requests")
		h.Set("Strict-Transport-Security", "max-age=1")
		h.Set("Access-Control-Allow-Origin", "http://"+r.Host)
		w.WriteHeader(http.StatusFound)
	}))
	defer target.Close()
	path := run(t, Options{Targets: []string{address(target)}, Public: func() []string { return []string{public} }})
	resp, _ := raw(t, path, "GET /x?y=1 HTTP/1.1\r\nHost: "+public+"\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n"+
		"X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-Forwarded-Prefix: /admin\r\nx-forwarded-anything: 1\r\nX_Forwarded_For: 1.2.3.4\r\n"+
		"Connection: X-Secret\r\nX-Secret: 1\r\nOrigin: http://"+public+"\r\nReferer: http://"+public+"/a\r\n\r\n")
	r := <-seen
	if r.Host != address(target) || r.URL.String() != "/x?y=1" {
		t.Errorf("target saw %s %s", r.Host, r.URL)
	}
	for key, v := range r.Header {
		if !slices.Contains([]string{"Origin", "Referer", "User-Agent"}, key) {
			t.Errorf("target saw %s: %s", key, v)
		}
	}
	if got := r.Header.Get("Origin") + " " + r.Header.Get("Referer"); got != "http://"+address(target)+" http://"+address(target)+"/a" {
		t.Errorf("origin and referer %q", got)
	}
	for key, want := range map[string]string{
		"Location":                    "http://" + public + "/next?a=b",
		"Content-Security-Policy":     "default-src 'self' http://" + public + " ws://" + public + "/ws https://cdn.example",
		"Strict-Transport-Security":   "",
		"Access-Control-Allow-Origin": "http://" + public,
	} {
		if got := resp.Header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := strings.Join(resp.Header["Set-Cookie"], "|"); got != "a=b; Path=/; HttpOnly|c=d; Domain=elsewhere.example" {
		t.Errorf("cookies %q", got)
	}
	for _, host := range []string{"evil.example", "evil" + public, public + ".evil.example"} {
		if resp, _ := raw(t, path, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("foreign host %s: %s", host, resp.Status)
		}
	}
	for _, host := range []string{strings.ToUpper(public), public + ":80", "www." + public} {
		if resp, _ := raw(t, path, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); resp.StatusCode != http.StatusFound {
			t.Errorf("own host %s: %s", host, resp.Status)
		}
		<-seen
	}
}

// TestSmuggling: what can be read in two ways is refused, or reaches the
// target as one request of one meaning.
func TestSmuggling(t *testing.T) {
	requests := make(chan string, 100)
	target := httptest.NewServer(checked(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength > 0 || r.Header.Get("Content-Length") != "" && len(r.TransferEncoding) > 0 {
			t.Errorf("target saw a length of %d beside %v", r.ContentLength, r.TransferEncoding)
		}
		requests <- r.Method + " " + r.URL.Path + " " + string(body)
	}))
	defer target.Close()
	path := run(t, Options{Targets: []string{address(target)}, Public: func() []string { return []string{public} }})
	head := "POST /a HTTP/1.1\r\nHost: " + public + "\r\nConnection: close\r\n"
	hidden := "GET /hidden HTTP/1.1\r\nHost: " + public + "\r\n\r\n"
	for name, text := range map[string]string{
		"two lengths":        head + "Content-Length: 5\r\nContent-Length: 0\r\n\r\n" + hidden,
		"length and chunks":  head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(hidden)) + hidden,
		"odd chunks":         head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"two encodings":      head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"blank before colon": head + "Content-Length : 100\r\n\r\n" + hidden,
		"folded line":        head + "X: a\r\n Content-Length: 100\r\n\r\n" + hidden,
		"negative length":    head + "Content-Length: -1\r\n\r\n" + hidden,
		"plus length":        head + "Content-Length: +5\r\n\r\nabcde" + hidden,
		"NUL in a value":     head + "X: a\x00b\r\nContent-Length: 0\r\n\r\n" + hidden,
		"no host":            "POST /a HTTP/1.1\r\n\r\n",
		"two hosts":          head + "Host: evil.example\r\nContent-Length: 0\r\n\r\n" + hidden,
		"connect":            "CONNECT " + public + ":80 HTTP/1.1\r\nHost: " + public + "\r\n\r\n",
		"huge header":        head + "X: " + strings.Repeat("x", 2*defaultHeader) + "\r\n\r\n",
	} {
		resp, _ := raw(t, path, text)
		// Of these two Go makes one request with one meaning: chunks win over a length,
		// which the target never sees, and a folded line is one line.
		if resp.StatusCode < 400 && name != "length and chunks" && name != "folded line" {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	close(requests)
	for r := range requests {
		if r != "POST /a " {
			t.Errorf("target saw %q", r)
		}
	}
}

func TestBodies(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	defer target.Close()
	path := run(t, Options{Targets: []string{address(target)}, Public: func() []string { return []string{public} }, Body: 1000, Idle: time.Second})
	post := "POST / HTTP/1.1\r\nHost: " + public + "\r\n"
	if resp, body := raw(t, path, post+"Content-Length: 1000\r\n\r\n"+strings.Repeat("x", 1000)); resp.StatusCode != 200 || body != "1000 <nil>" {
		t.Errorf("full body: %s %q", resp.Status, body)
	}
	if resp, _ := raw(t, path, post+"Content-Length: 1001\r\n\r\n"); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("announced body: %s", resp.Status)
	}
	if resp, _ := raw(t, path, post+"Transfer-Encoding: chunked\r\n\r\n7d0\r\n"+strings.Repeat("x", 2000)+"\r\n0\r\n\r\n"); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("endless body: %s", resp.Status)
	}
	begin := time.Now()
	if resp, body := raw(t, path, post+"Content-Length: 100\r\n\r\nslow"); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("body that does not come: %s %q", resp.Status, body)
	}
	if took := time.Since(begin); took < time.Second || took > limit {
		t.Errorf("body that does not come: after %s", took)
	}
	// A client that takes a part of an endless answer and goes.
	c := dial(t, path)
	if _, err := io.WriteString(c, get("/endless")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, c, 1<<20); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestTargetFails(t *testing.T) {
	block := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer target.Close()
	defer close(block)
	path := run(t, Options{Targets: []string{address(target)}, Answer: 100 * time.Millisecond})
	if resp, body := raw(t, path, get("/")); resp.StatusCode != http.StatusGatewayTimeout || strings.Contains(body, "127.0.0.1") {
		t.Errorf("slow target: %s %q", resp.Status, body)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	path = run(t, Options{Targets: []string{address(gone)}})
	if resp, body := raw(t, path, get("/")); resp.StatusCode != http.StatusBadGateway || strings.Contains(body, "127.0.0.1") {
		t.Errorf("no target: %s %q", resp.Status, body)
	}
}

// TestUpgrade passes bytes both ways after a WebSocket handshake.
func TestUpgrade(t *testing.T) {
	target := httptest.NewServer(checked(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(c, "echo "+line)
	}))
	defer target.Close()
	c := dial(t, run(t, Options{Targets: []string{address(target)}}))
	if _, err := io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.ReadString('\n'); err != nil || got != "echo hello\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestUpgradedEnds: a connection that was upgraded ends when its client takes
// nothing more, and with the proxy.
func TestUpgradedEnds(t *testing.T) {
	ended := make(chan error, 1)
	target := httptest.NewServer(checked(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for err == nil {
			_, err = c.Write(make([]byte, 64<<10))
		}
		ended <- err
	}))
	defer target.Close()
	// open returns a client of the proxy once it is upgraded.
	open := func(t *testing.T, path string) net.Conn {
		t.Helper()
		c := dial(t, path)
		if _, err := io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", resp, err)
		}
		return c
	}
	await := func(what string) {
		t.Helper()
		select {
		case err := <-ended:
			t.Logf("%s: %v", what, err)
		case <-time.After(limit):
			t.Fatalf("%s: the connection goes on", what)
		}
	}
	c := open(t, run(t, Options{Targets: []string{address(target)}, Idle: time.Second}))
	if _, err := io.WriteString(c, "still here"); err != nil {
		t.Fatal(err)
	}
	await("client that reads nothing")

	// The client of a proxy that stops neither reads nor writes.
	l := closings{closed: make(chan struct{}, 8)}
	t.Run("proxy", func(inner *testing.T) {
		open(t, run(inner, Options{Targets: []string{address(target)}, Idle: time.Hour, Listen: &l}))
	})
	await("proxy that stopped")
	select {
	case <-l.closed:
	case <-time.After(limit):
		t.Error("the proxy stopped and keeps the connection")
	}
}

// closings tells when the other end of a connection is closed.
type closings struct {
	net.Listener
	closed chan struct{}
}

type closing struct {
	net.Conn
	closed chan struct{}
}

func (l *closings) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return closing{c, l.closed}, nil
}

func (c closing) Close() error {
	select {
	case c.closed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// echo answers with what it got, once the sender is done.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			}()
		}
	}()
	return l.Addr().String()
}

func TestTCP(t *testing.T) {
	path := run(t, Options{Targets: []string{echo(t)}, Mode: ModeTCP, Connections: 2})
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	for range 5 { // more than may be open at once
		c := dial(t, path).(*net.UnixConn)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back of %d: %v", len(got), len(sent), err)
		}
	}
	idle := dial(t, run(t, Options{Targets: []string{echo(t)}, Mode: ModeTCP, Idle: 100 * time.Millisecond}))
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("idle connection: %v", err)
	}
}

// TestOnionTarget goes through the dialer, to the whole address.
func TestOnionTarget(t *testing.T) {
	to := echo(t)
	path := run(t, Options{Targets: []string{public + ":80"}, Mode: ModeTCP, Dial: func(ctx context.Context, a string) (net.Conn, error) {
		if a != public+":80" {
			return nil, errors.New("dialled " + a)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", to)
	}})
	c := dial(t, path).(*net.UnixConn)
	_, _ = io.WriteString(c, "over tor")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "over tor" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHealth: each target is looked at by itself.
func TestHealth(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "target")
	told := make(chan string, 4)
	run(t, Options{Mode: ModeTCP, Targets: []string{echo(t), socket}, Check: Check{Every: 10 * time.Millisecond}, OnHealth: func(target string, ok bool, why error) {
		told <- fmt.Sprintf("%s %t %t", target, ok, why == nil)
	}})
	if got, want := <-told, socket+" false false"; got != want {
		t.Errorf("without a target: %s", got)
	}
	l, err := net.Listen("unix", strings.TrimPrefix(socket, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, want := <-told, socket+" true true"; got != want {
		t.Errorf("with a target: %s", got)
	}
}

func TestOptions(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for want, o := range map[string]Options{
		"no listener":           {Mode: ModeTCP, Targets: []string{"127.0.0.1:1"}},
		"neither http nor tcp":  {Listen: l, Targets: []string{"127.0.0.1:1"}},
		"neither host:port nor": {Listen: l, Mode: ModeTCP, Targets: []string{"nonsense"}},
		"no port in 1-65535":    {Listen: l, Mode: ModeTCP, Targets: []string{"127.0.0.1:0"}},
		"nor an onion address":  {Listen: l, Mode: ModeTCP, Targets: []string{"example.org:80"}},
		"needs tor":             {Listen: l, Mode: ModeTCP, Targets: []string{public + ":80"}},
		"no absolute path":      {Listen: l, Mode: ModeTCP, Targets: []string{"unix:x"}},
		"no target":             {Listen: l, Mode: ModeTCP},
		`target "127.0.0.1:0"`:  {Listen: l, Mode: ModeTCP, Targets: []string{"127.0.0.1:1", "127.0.0.1:0"}},
		"is no host":            {Listen: l, Mode: ModeTCP, Targets: []string{"127.0.0.1:1"}, Host: "a b"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestJoinsStayHere: what is below JoinPath never reaches the target, and only
// under a public name.
func TestJoinsStayHere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "target "+r.URL.Path)
	}))
	defer target.Close()
	public := strings.Repeat("a", 56) + ".onion"
	p, err := New(Options{
		Listen: l, Targets: []string{strings.TrimPrefix(target.URL, "http://")}, Mode: ModeHTTP, Public: func() []string { return []string{public} }, JoinPath: "/.rb/",
		Join: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "join "+r.URL.Path) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	get := func(host, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, c := range []struct{ host, path, want string }{
		{public, "/.rb/x", "join /.rb/x"},
		{public, "/rb/x", "target /rb/x"},
		{public, "/x/.rb/", "target /x/.rb/"},
		{"other.onion", "/.rb/x", "this host is not served here\n"},
	} {
		if got := get(c.host, c.path); got != c.want {
			t.Errorf("%s%s: %q, want %q", c.host, c.path, got, c.want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Listen: l, Targets: []string{"127.0.0.1:1"}, Mode: ModeHTTP, Join: http.NotFoundHandler()}); err == nil {
		t.Error("joins without a path accepted")
	}
}
