package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// fakeNet is what connects to onion targets: each leads to a service of this
// machine while it is up, and what is dialled is counted.
type fakeNet struct {
	mu    sync.Mutex
	up    map[string]string // address of the service by target
	dials map[string]int
}

// onions returns the names of three targets that nobody serves yet.
func onions() (n *fakeNet, a, b, c string) {
	name := func(x string) string { return strings.Repeat(x, 56) + ".onion:80" }
	return &fakeNet{up: map[string]string{}, dials: map[string]int{}}, name("a"), name("b"), name("c")
}

func (n *fakeNet) dial(ctx context.Context, target string) (net.Conn, error) {
	n.mu.Lock()
	at := n.up[target]
	n.dials[target]++
	n.mu.Unlock()
	switch at {
	case "":
		return nil, errors.New("refused")
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

// set has a target lead to a service; "": to none.
func (n *fakeNet) set(target, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up[target] = at
}

func (n *fakeNet) dialled(target string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[target]
}

// web serves a target: it answers with its name and what it saw, and leads to
// itself. It keeps no connection open.
func (n *fakeNet) web(t *testing.T, target string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "http://"+r.Host+"/next")
		fmt.Fprintf(w, "%.1s %.1s %.8s %s", target, r.Host, r.Header.Get("Origin"), body)
	}))
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	t.Cleanup(s.Close)
	n.set(target, address(s))
}

// unwatched returns a proxy that does not run, so only requests and connections
// find out how its targets are.
func unwatched(t *testing.T, o Options) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	o.Listen, o.Log = l, zerolog.Nop()
	if o.Mode == "" {
		o.Mode = ModeHTTP
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask sends a request to a proxy and returns what the target said, or the code
// of another answer.
func ask(t *testing.T, p *Proxy, method, body string) string {
	t.Helper()
	s := httptest.NewServer(p.handler())
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = public
	r.Header.Set("Origin", "http://"+public)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	if got := resp.Header.Get("Location"); got != "http://"+public+"/next" {
		return "leads to " + got
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRoundRobin: targets take requests in turn; each sees its own name, and
// those of its answer are rewritten.
func TestRoundRobin(t *testing.T) {
	n, a, b, c := onions()
	for _, x := range []string{a, b, c} {
		n.web(t, x)
	}
	p := unwatched(t, Options{Targets: []string{a, b, c}, Dial: n.dial})
	for range 2 {
		for _, x := range []string{"a", "b", "c"} {
			if got, want := ask(t, p, http.MethodPost, "body"), x+" "+x+" http://"+x+" body"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	// Those that are up share evenly what another leaves to them.
	n.set(b, "")
	var got []string
	for range 5 {
		got = append(got, ask(t, p, http.MethodGet, "")[:1])
	}
	if want := []string{"a", "c", "a", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("took turns %v, want %v", got, want)
	}
	if n := n.dialled(b); n != 3 {
		t.Errorf("a target that is down was dialled %d times", n)
	}
}

// TestFailover: a request goes to the next target at once if it can be sent
// again, and targets that are down are passed over.
func TestFailover(t *testing.T) {
	n, a, b, _ := onions()
	n.web(t, b)
	options := Options{Targets: []string{a, b}, Dial: n.dial}
	p := unwatched(t, options)
	for range 4 {
		if got, want := ask(t, p, http.MethodGet, ""), "b b http://b "; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := n.dialled(a); n != 1 {
		t.Errorf("dialled %d times", n)
	}
	// One that was down gets its chance when no other is left.
	n.web(t, a)
	n.set(b, "")
	if got, want := ask(t, p, http.MethodGet, ""), "a a http://a "; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	n.web(t, b)
	n.set(a, "")
	p, before := unwatched(t, options), n.dialled(b)
	if got := ask(t, p, http.MethodPost, "body"); got != "502" || n.dialled(b) != before {
		t.Errorf("with a body: %q, %d connections to the next", got, n.dialled(b)-before)
	}
	for range 2 {
		if got, want := ask(t, p, http.MethodPost, "body"), "b b http://b body"; got != want {
			t.Errorf("with a body, later: %q, want %q", got, want)
		}
	}
}

// TestAllDown: each target is tried, and the first that is back is found.
func TestAllDown(t *testing.T) {
	n, a, b, c := onions()
	p := unwatched(t, Options{Targets: []string{a, b, c}, Dial: n.dial})
	for i := 1; i <= 3; i++ {
		if got := ask(t, p, http.MethodGet, ""); got != "502" {
			t.Errorf("answer %s", got)
		}
		if x, y, z := n.dialled(a), n.dialled(b), n.dialled(c); x != i || y != i || z != i {
			t.Errorf("after %d requests dialled %d, %d, %d times", i, x, y, z)
		}
	}
	n.web(t, c)
	if got, want := ask(t, p, http.MethodGet, ""), "c c http://c "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHanging: however many targets do not answer, a client does not wait long.
func TestHanging(t *testing.T) {
	n, a, b, c := onions()
	for _, x := range []string{a, b, c} {
		n.set(x, "hangs")
	}
	p := unwatched(t, Options{Targets: []string{a, b, c}, Dial: n.dial, Connect: time.Second / 2})
	if got := ask(t, p, http.MethodGet, ""); got != "504" {
		t.Errorf("answer %s", got)
	}
	if x, y, z := n.dialled(a), n.dialled(b), n.dialled(c); x != 1 || y != 1 || z != 0 {
		t.Errorf("dialled %d, %d, %d times", x, y, z)
	}
	// Who leaves says nothing of the target.
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.targets[2].dial(left); err == nil || p.targets[2].down.Load() {
		t.Errorf("a client left, %v, and the target counts as down", err)
	}
}

// TestRecovery: a look finds that a target is back, and it takes its turns again.
func TestRecovery(t *testing.T) {
	n, a, b, _ := onions()
	n.web(t, b)
	path := run(t, Options{Targets: []string{a, b}, Dial: n.dial, Check: Check{Every: 10 * time.Millisecond}})
	ask := func() string {
		resp, body := raw(t, path, get("/"))
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		return body[:1]
	}
	for range 4 {
		if got := ask(); got != "b" {
			t.Errorf("answer of %s", got)
		}
	}
	n.web(t, a)
	for end := time.Now().Add(limit); ask() != "a"; {
		if time.Now().After(end) {
			t.Fatal("the target is not used again")
		}
	}
	if first, second := ask(), ask(); first == second {
		t.Errorf("%s twice", first)
	}
}

// hello serves a target that says its name to whoever connects.
func (n *fakeNet) hello(t *testing.T, target string) {
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
			_, _ = io.WriteString(c, target[:1]+"\n")
			c.Close()
		}
	}()
	n.set(target, l.Addr().String())
}

// TestConnections is for bytes what the tests above are for requests.
func TestConnections(t *testing.T) {
	n, a, b, c := onions()
	n.hello(t, a)
	n.hello(t, c)
	path := run(t, Options{Targets: []string{a, b, c}, Dial: n.dial, Mode: ModeTCP, Check: Check{Every: 10 * time.Millisecond}})
	connect := func() string {
		line, _ := bufio.NewReader(dial(t, path)).ReadString('\n')
		return strings.TrimSpace(line)
	}
	await := func(want ...string) {
		t.Helper()
		for end := time.Now().Add(limit); ; {
			var got []string
			for range 2 * len(want) {
				got = append(got, connect())
			}
			slices.Sort(got)
			if slices.Equal(slices.Compact(got), want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("connections to %q, want to %q", got, want)
			}
		}
	}
	for range 6 {
		if got := connect(); got != "a" && got != "c" {
			t.Errorf("connected to %q", got)
		}
	}
	await("a", "c")
	n.hello(t, b)
	await("a", "b", "c")
	for _, x := range []string{a, b, c} {
		n.set(x, "")
	}
	if got := connect(); got != "" {
		t.Errorf("connected to %q", got)
	}
	n.hello(t, b)
	if got := connect(); got != "b" {
		t.Errorf("connected to %q", got)
	}
}
