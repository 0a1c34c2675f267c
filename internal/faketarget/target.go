package faketarget

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Answer is what / answers: 102 bytes of JSON.
const Answer = `{"ok":true,"token":"t-1","items":[{"id":1,"name":"needle"},{"id":2,"name":"thread"}],"total":2,"x":1}` + "\n"

// Freeze is when /freeze stands still: so long after its first request, for so long.
var Freeze = struct{ After, For time.Duration }{5 * time.Second, time.Second}

// Target is the handler.
type Target struct {
	mu     sync.Mutex
	counts map[string]uint64
	logins uint64
	frozen time.Time // when /freeze stands still
	last   time.Time // when it was asked last
	delays []float64 // of /lognormal, in seconds
	rng    *rand.Rand
}

// New makes one.
func New() *Target {
	return &Target{counts: map[string]uint64{}, rng: rand.New(rand.NewPCG(1, 2))}
}

// Count tells how often a path was asked for.
func (t *Target) Count(path string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[path]
}

// Delay is a quantile of what /lognormal waited, in seconds.
func (t *Target) Delay(q float64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.delays)
	return t.delays[int(q*float64(len(t.delays)-1))]
}

// ServeHTTP answers:
//
//	/           at once
//	/freeze     at once, but for a second, 5 s after its first request
//	/delay?ms=N after N milliseconds
//	/lognormal  after a time around 20 ms
//	/status?code=N, /redirect?n=N, /gzip, /echo, /stop
//	/cookie     sets one, and tells which it got
//	/login      gives a token, /pay wants it
//	/counts     how often each path was asked for
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait := t.count(r.URL.Path)
	query := r.URL.Query()
	number := func(name string) int { n, _ := strconv.Atoi(query.Get(name)); return n }
	switch r.URL.Path {
	case "/delay":
		wait = time.Duration(number("ms")) * time.Millisecond
	case "/status":
		w.WriteHeader(min(max(number("code"), 200), 599))
	case "/redirect":
		if n := number("n"); n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/redirect?n=%d", n-1), http.StatusFound)
			return
		}
	case "/gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, Answer)
		_ = z.Close()
		return
	case "/echo":
		_, _ = fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.RequestURI())
		_ = r.Header.Write(w)
		_, _ = io.Copy(w, io.LimitReader(r.Body, 1<<20))
		return
	case "/stop":
		w.Header().Set("Skein-Load", "stop")
	case "/cookie":
		c, _ := r.Cookie("seen")
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes", Path: "/"})
		_, _ = fmt.Fprintf(w, `{"seen":%t}`, c != nil)
		return
	case "/login":
		t.login(w, r)
		return
	case "/pay":
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer token-") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	case "/counts":
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = json.NewEncoder(w).Encode(t.counts)
		return
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, Answer)
}

func (t *Target) login(w http.ResponseWriter, r *http.Request) {
	var asked struct{ User string }
	if json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&asked) != nil || asked.User == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	t.logins++
	n := t.logins
	t.mu.Unlock()
	_, _ = fmt.Fprintf(w, `{"ok":true,"token":"token-%d","user":%q}`, n, asked.User)
}

// count counts a request, and says how long it is to wait.
func (t *Target) count(path string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[path]++
	switch now := time.Now(); path {
	case "/freeze":
		if t.last.IsZero() || now.Sub(t.last) > 3*time.Second { // another run
			t.frozen = now.Add(Freeze.After)
		}
		t.last = now
		if since := now.Sub(t.frozen); since >= 0 && since < Freeze.For {
			return Freeze.For - since
		}
	case "/lognormal":
		d := 0.02 * math.Exp(0.5*t.rng.NormFloat64())
		t.delays = append(t.delays, d)
		return time.Duration(d * 1e9)
	}
	return 0
}

// Pipe is a network of one listener.
type Pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipe makes one.
func NewPipe() *Pipe { return &Pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial connects to whoever accepts, whatever the address.
func (p *Pipe) Dial(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipe) Close() error { p.once.Do(func() { close(p.done) }); return nil }

// Addr implements net.Listener.
func (p *Pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
