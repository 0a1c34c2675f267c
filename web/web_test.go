package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
)

// daemon answers as one does, and notes what it was asked.
type daemon struct {
	asked atomic.Pointer[http.Request]
	body  atomic.Pointer[string]
	say   func(*http.Request) (*http.Response, error)
}

func (d *daemon) RoundTrip(r *http.Request) (*http.Response, error) {
	d.asked.Store(r)
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
	}
	d.body.Store(&body)
	if d.say != nil {
		return d.say(r)
	}
	return answered(http.StatusOK, "application/json", `{"api_version":"1"}`), nil
}

func answered(status int, kind, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
}

func newPage(t *testing.T, o Options) http.Handler {
	t.Helper()
	if o.Names == nil {
		o.Names = []string{"127.0.0.1", "localhost"}
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type exchange struct {
	method, path, body string
	host               string
	header             map[string]string
}

func (e exchange) do(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	if e.method == "" {
		e.method = http.MethodGet
	}
	r := httptest.NewRequest(e.method, e.path, strings.NewReader(e.body))
	r.Host = "127.0.0.1:4711"
	if e.host != "" {
		r.Host = e.host
	}
	if e.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range e.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestWhoAsks: only the page itself, under a listed name of this host, with the
// bearer.
func TestWhoAsks(t *testing.T) {
	gate, code := NewGate(time.Now)
	bearer, ok := gate.Trade(code)
	if !ok {
		t.Fatal("the code is not taken")
	}
	d := &daemon{}
	h := newPage(t, Options{API: d, Gate: gate, Names: []string{"127.0.0.1", "localhost", "ops.example"}})
	with := func(more ...string) map[string]string {
		m := map[string]string{"Authorization": "Bearer " + bearer}
		for i := 0; i+1 < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		e      exchange
		status int
		says   string
	}{
		"the page":                 {exchange{path: "/"}, 200, "<!doctype html>"},
		"with the bearer":          {exchange{path: "/v1/status", header: with()}, 200, "api_version"},
		"of itself":                {exchange{path: "/v1/status", header: with("Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:4711")}, 200, ""},
		"another listed name":      {exchange{path: "/v1/status", host: "OPS.example:80", header: with()}, 200, ""},
		"through a tunnel":         {exchange{path: "/v1/status", host: "localhost:9000", header: with("Origin", "http://localhost:9000")}, 200, ""},
		"no bearer":                {exchange{path: "/v1/status"}, 401, "skein ui"},
		"an old bearer":            {exchange{path: "/v1/status", header: map[string]string{"Authorization": "Bearer " + secret()}}, 401, "skein ui"},
		"a bearer in the query":    {exchange{path: "/v1/status?bearer=" + bearer}, 401, "skein ui"},
		"a foreign name":           {exchange{path: "/", host: "evil.example"}, 403, "--host evil.example"},
		"a foreign name, bearer":   {exchange{path: "/v1/status", host: "evil.example:4711", header: with()}, 403, `evil.example`},
		"no name":                  {exchange{path: "/", host: ":80"}, 403, "--host"},
		"a foreign origin":         {exchange{path: "/v1/status", header: with("Origin", "http://evil.example")}, 403, "--host"},
		"another port's page":      {exchange{path: "/v1/status", header: with("Origin", "http://127.0.0.1:80")}, 403, "--host"},
		"no origin at all":         {exchange{path: "/v1/status", header: with("Origin", "null")}, 403, "--host"},
		"another site's fetch":     {exchange{path: "/v1/status", header: with("Sec-Fetch-Site", "cross-site")}, 403, "--host"},
		"the same site's fetch":    {exchange{path: "/v1/status", header: with("Sec-Fetch-Site", "same-site")}, 403, "--host"},
		"a code of another site":   {exchange{method: "POST", path: "/ui/session", body: `{"code":"x"}`, header: with("Sec-Fetch-Site", "cross-site")}, 403, "--host"},
		"a path that is no asset":  {exchange{path: "/assets/..%2fdoc.go"}, 404, ""},
		"the sum of the sources":   {exchange{path: "/sources.sum"}, 404, ""},
		"an asset that is missing": {exchange{path: "/assets/app-0.js"}, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.e.do(t, h)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
					"form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			if w.Header().Get("Set-Cookie") != "" {
				t.Error("a cookie")
			}
		})
	}
}

// TestActions: a closed list, for whoever may change anything.
func TestActions(t *testing.T) {
	d := &daemon{}
	h := newPage(t, Options{API: d})
	for _, path := range []string{"/v1/lease/step-down", "/v1/worker/drain", "/v1/onion/drain", "/v1/jobs/j1/stop", "/v1/jobs/j1/release", "/v1/workflows/w1/stop", "/v1/workflows/w1/retry", "/v1/schedules/s1/pause", "/v1/schedules/s1/resume", "/v1/schedules/s1/run", "/v1/load/l1/stop"} {
		w := exchange{method: "POST", path: path, body: `{"node":"n1"}`, header: map[string]string{"Idempotency-Key": "k"}}.do(t, h)
		r := d.asked.Load()
		if w.Code != 200 || r.Method != "POST" || r.URL.Path != path || *d.body.Load() != `{"node":"n1"}` || r.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("%s: %d, asked %s %s with %q", path, w.Code, r.Method, r.URL, *d.body.Load())
		}
	}
	d.asked.Store(nil)
	for _, e := range []exchange{
		{method: "POST", path: "/v1/leave"},
		{method: "POST", path: "/v1/members/n1/remove"},
		{method: "POST", path: "/v1/tokens"},
		{method: "GET", path: "/v1/tokens"},
		{method: "GET", path: "/v1/config"},
		{method: "PUT", path: "/v1/users/ann"},
		{method: "DELETE", path: "/v1/tokens/1"},
		{method: "POST", path: "/v1/status"},
		{method: "GET", path: "/v1/worker/drain"},
		{method: "POST", path: "/v1/jobs"},
		{method: "GET", path: "/metrics"},
		{method: "POST", path: "/v1/onion/a/export"},
	} {
		if w := e.do(t, h); w.Code != 404 || !strings.Contains(w.Body.String(), "not_found") {
			t.Errorf("%s %s: %d %s", e.method, e.path, w.Code, w.Body)
		}
	}
	for name, e := range map[string]exchange{
		"a form":    {method: "POST", path: "/v1/worker/drain", body: "a=b", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		"plain":     {method: "POST", path: "/v1/worker/drain", body: "{}", header: map[string]string{"Content-Type": "text/plain"}},
		"too large": {method: "POST", path: "/v1/worker/drain", body: strings.Repeat("x", maxBody+1)},
	} {
		if w := e.do(t, h); w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	only := newPage(t, Options{API: d, ReadOnly: true})
	if w := (exchange{method: "POST", path: "/v1/worker/drain", body: "{}"}).do(t, only); w.Code != 403 || !strings.Contains(w.Body.String(), "--read-only") {
		t.Errorf("of a page that only shows: %d %s", w.Code, w.Body)
	}
	if r := d.asked.Load(); r != nil {
		t.Errorf("the daemon was asked %s %s", r.Method, r.URL)
	}
	// Who may not is told so by the daemon.
	d.say = func(*http.Request) (*http.Response, error) {
		return answered(403, "application/problem+json", `{"code":"forbidden","hint":"ask an operator"}`), nil
	}
	if w := (exchange{method: "POST", path: "/v1/worker/drain", body: "{}"}).do(t, h); w.Code != 403 || !strings.Contains(w.Body.String(), "ask an operator") {
		t.Errorf("without the right: %d %s", w.Code, w.Body)
	}
	d.say = func(*http.Request) (*http.Response, error) {
		return nil, &api.UnreachableError{Target: "/run/x", Err: errors.New("connection refused")}
	}
	if w := (exchange{path: "/v1/status"}).do(t, h); w.Code != 503 || !strings.Contains(w.Body.String(), "connection refused") {
		t.Errorf("without a daemon: %d %s", w.Code, w.Body)
	}
}

// TestCode: it is taken once and in time; what is wrong is not told apart, and too
// much of it shuts the gate.
func TestCode(t *testing.T) {
	now := time.Now()
	gate, code := NewGate(func() time.Time { return now })
	h := newPage(t, Options{API: &daemon{}, Gate: gate})
	trade := func(code string) *httptest.ResponseRecorder {
		return exchange{method: "POST", path: "/ui/session", body: fmt.Sprintf(`{"code":%q}`, code)}.do(t, h)
	}
	wrong := trade("guess").Body.String()
	first := trade(code)
	if first.Code != 200 || gate.Opened() != true {
		t.Fatalf("the code: %d %s", first.Code, first.Body)
	}
	stamp := regexp.MustCompile(`"observed_at":"[^"]*"`)
	again := trade(code)
	if again.Code != 401 || stamp.ReplaceAllString(again.Body.String(), "") != stamp.ReplaceAllString(wrong, "") {
		t.Errorf("the code again: %d %s, a guess: %s", again.Code, again.Body, wrong)
	}
	bearer := regexp.MustCompile(`"bearer":"([\w-]{43})"`).FindStringSubmatch(first.Body.String())
	if bearer == nil || !gate.Admits(bearer[1]) || gate.Admits("") || gate.Admits(code) {
		t.Fatalf("what was handed out: %s", first.Body)
	}
	for range maxTries - 3 {
		trade("guess")
	}
	select {
	case <-gate.Shut():
		t.Fatal("shut too early")
	default:
	}
	trade("guess")
	<-gate.Shut()
	if trade(code).Code != 401 || gate.Admits(bearer[1]) {
		t.Error("a gate that is shut lets in")
	}

	late, code := NewGate(func() time.Time { return now })
	now = now.Add(CodeLife)
	if _, ok := late.Trade(code); ok {
		t.Error("a late code was taken")
	}
	open := newPage(t, Options{API: &daemon{}})
	if w := (exchange{method: "POST", path: "/ui/session", body: "{}"}).do(t, open); w.Code != 404 {
		t.Errorf("a code where none is asked for: %d", w.Code)
	}
	for _, body := range []string{"", "[]", "{", `{"code":7}`} {
		fresh, _ := NewGate(time.Now)
		page := newPage(t, Options{API: &daemon{}, Gate: fresh})
		if w := (exchange{method: "POST", path: "/ui/session", body: body}).do(t, page); w.Code != 400 {
			t.Errorf("body %q: %d", body, w.Code)
		}
	}
}

// TestStream: lines come as they are written, each event with its sentence, and a
// reader that takes nothing is cut.
func TestStream(t *testing.T) {
	from, to := io.Pipe()
	defer to.Close()
	d := &daemon{say: func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Accept") != "application/x-ndjson" || r.Header.Get("Last-Event-ID") != "b.1" || r.URL.RawQuery != "topics=events" || r.Header.Get("Authorization") != "" {
			return nil, fmt.Errorf("asked %s with %v", r.URL, r.Header)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/x-ndjson"}}, Body: from}, nil
	}}
	s := httptest.NewServer(newPage(t, Options{API: d, ReadOnly: true}))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/watch?topics=events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", "b.1")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer x")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	event := `{"source":{"node":"n1","inc":1},"seq":2,"hlc":117679626762125312,"term":3,"kind":"lease_released","body":{"term":3,"reason":"<b>\u202e"},"hash":"00"}`
	for _, c := range [][2]string{
		{"", ""},
		{`{"id":"b.1;n1/1:2","event":"synced","data":{}}`, `{"id":"b.1;n1/1:2","event":"synced","data":{}}`},
		{`{"event":"log","data":{"events":[` + event + `],"cursor":"n1/1:2"}}`, `"seq":2,"hlc":117679626762125312`},
		{`{"event":"log","data":{"events":[` + event + `],"cursor":"n1/1:2"}}`, `"text":"n1 gave up the lease of term 3: \u003cb\u003e` + "\uFFFD" + `"}],"cursor":"n1/1:2"}}`},
		{event, `"text":"n1 gave up the lease of term 3`},
		{`{"event":"hello","data":{"may_change":true,"node":"n1"}}`, `"may_change":false`},
		{`{"event":"log","data":{"events":[7,"x",{"kind":1}]}}`, `{"event":"log"`},
		{`not JSON`, `not JSON`},
	} {
		if _, err := io.WriteString(to, c[0]+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, c[1]) {
			t.Fatalf("for %s came %q, %v; want %s", c[0], line, err, c[1])
		}
	}
	to.Close()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}

// TestLineBound: a line without end is not kept in memory.
func TestLineBound(t *testing.T) {
	_, err := readLine(bufio.NewReader(io.LimitReader(zeros{}, 1<<40)))
	if !errors.Is(err, bufio.ErrTooLong) {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestSlowReader: the connection of a reader that takes nothing ends.
func TestSlowReader(t *testing.T) {
	deadline := make(chan time.Time, 100)
	w := &patient{w: httptest.NewRecorder(), c: http.NewResponseController(deadlines{httptest.NewRecorder(), deadline})}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(<-deadline); left <= 0 || left > patience {
		t.Errorf("a write has %s", left)
	}
}

type deadlines struct {
	http.ResponseWriter
	set chan time.Time
}

func (d deadlines) SetWriteDeadline(t time.Time) error { d.set <- t; return nil }

// TestAssets: what index.html names, and what that loads, is there, gzipped for those
// who take it, and never changes under its name. The first look at the page is small.
func TestAssets(t *testing.T) {
	h := newPage(t, Options{API: &daemon{}})
	page := exchange{path: "/"}.do(t, h)
	if page.Header().Get("Cache-Control") != "no-store" {
		t.Error("the page itself may be kept")
	}
	text := page.Body.String()
	first, size := map[string]bool{}, map[string]int{}
	var look func(path string)
	look = func(path string) {
		if _, seen := size[path]; seen {
			return
		}
		plain := exchange{path: path}.do(t, h)
		if plain.Code != 200 || !strings.Contains(plain.Header().Get("Cache-Control"), "immutable") || !regexp.MustCompile(`^/assets/\w+-(\w{8}|\w{12})\.`).MatchString(path) {
			t.Fatalf("%s: %d %v", path, plain.Code, plain.Header())
		}
		zip := exchange{path: path, header: map[string]string{"Accept-Encoding": "gzip, br"}}.do(t, h)
		size[path] = zip.Body.Len()
		r, err := gzip.NewReader(zip.Body)
		if err != nil {
			t.Fatal(err)
		}
		if unzipped, err := io.ReadAll(r); err != nil || !bytes.Equal(unzipped, plain.Body.Bytes()) {
			t.Errorf("%s: zipped it is another, %v", path, err)
		}
		if foreign := regexp.MustCompile(`https?://[^"'\s)]+`).FindAllString(strings.ReplaceAll(plain.Body.String(), "http://www.w3.org/", ""), -1); len(foreign) > 0 {
			t.Errorf("%s names %q", path, foreign)
		}
		for _, m := range regexp.MustCompile(`(from|import|import\()"\./([^"]+)"`).FindAllStringSubmatch(plain.Body.String(), -1) {
			to := "/assets/" + m[2]
			if m[1] != "import(" && !first[to] && first[path] {
				t.Errorf("%s needs %s, which the page does not name", path, to)
			}
			look(to)
		}
	}
	for _, m := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(text, -1) {
		first[m[1]] = true
	}
	for path := range first {
		look(path)
	}
	const mostFirst, most, mostPage = 25_000, 60_000, 7_000
	begin, all := 0, 0
	for path, n := range size {
		if strings.HasSuffix(path, ".svg") {
			continue
		}
		if strings.HasPrefix(path, "/assets/load-") || strings.HasPrefix(path, "/assets/flows-") || strings.HasPrefix(path, "/assets/zones-") { // pages that come when they are opened
			if t.Logf("%s: %d bytes", path, n); n > mostPage {
				t.Errorf("%s has %d bytes, want at most %d", path, n, mostPage)
			}
			continue
		}
		all += n
		if first[path] {
			begin += n
		}
	}
	t.Logf("gzipped: %d bytes to begin with, %d in all, in %d files", begin, all, len(size))
	if len(size) < len(first)+2 {
		t.Errorf("%d files, %d of them to begin with: nothing is loaded later", len(size), len(first))
	}
	if begin > mostFirst || all > most {
		t.Errorf("gzipped, the page begins with %d bytes of script and style and has %d: want at most %d and %d", begin, all, mostFirst, most)
	}
	files, err := fs.Glob(dist, "dist/assets/*")
	if err != nil || len(files) != len(size) {
		t.Errorf("%d files are there and %d are used: %v", len(files), len(size), err)
	}
	if strings.Contains(text, "<style") || strings.Contains(text, " style=") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(text) {
		t.Error("the page has what its policy forbids")
	}
}

// TestDistIsOfTheSources: web/dist was made of web/ui as it is, web/worker/dist of web/worker.
func TestDistIsOfTheSources(t *testing.T) {
	for sources, dist := range map[string]string{"ui": "dist", "worker": "worker/dist"} {
		t.Run(sources, func(t *testing.T) { isOf(t, sources, filepath.FromSlash(dist)) })
	}
}

func isOf(t *testing.T, sources, dist string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(dist, "sources.sum"))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	err = filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if d.IsDir() || d.Name() == ".gitignore" {
			return nil
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(sources, path)
		fmt.Fprintf(&got, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("web/%s has changed since web/%s was made: run `make web` and commit it\n%s\nmade of\n%s", sources, dist, got.String(), want)
	}
}

func TestHostname(t *testing.T) {
	for in, want := range map[string]string{"A.b:80": "a.b", "[::1]:80": "::1", "::1": "::1", "localhost": "localhost", "": "", ":80": "", "a:b:c": "a:b:c"} {
		if got := hostname(in); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}

// TestTopics: the page gets what `skein explain` prints, in parts, and who may not read
// gets nothing.
func TestTopics(t *testing.T) {
	gate, code := NewGate(time.Now)
	bearer, _ := gate.Trade(code)
	may := map[string]string{"Authorization": "Bearer " + bearer}
	for _, c := range []struct {
		o            Options
		path, says   string
		header       map[string]string
		code, atMost int
	}{
		{Options{}, "/topics", `{"name":"term_start","kind":"event"}`, nil, 200, 50_000},
		{Options{Base: "/ui"}, "/ui/topics", `{"name":"status.ui","kind":"key"}`, nil, 200, 50_000},
		{Options{Gate: gate}, "/topics", "skein ui", nil, 401, 500},
		{Options{Gate: gate}, "/topics/6", "skein ui", nil, 401, 500},
		{Options{Gate: gate}, "/topics/6", `"kind":"exit code","doc":"docs/cli.md","parts":[{"is":"text","text":"the daemon answers and something is degraded`, may, 200, 500},
		{Options{}, "/topics/noholder", `{"name":"SkeinNoHolder","kind":"alert"`, nil, 200, 20_000},
		{Options{}, "/topics/lease.profile", `["Environment","`, nil, 200, 20_000},
		{Options{}, "/topics/voters", `{"name":"voters","kind":"guide"`, nil, 200, 20_000},
		{Options{}, "/topics/" + strings.Repeat("x", 5000), "nothing is called", nil, 404, 500},
		{Options{}, "/topics/%3Cimg%3E", `nothing is called \"`, nil, 404, 500},
		{Options{Plain: true, Gate: gate}, "/topics", "not_found", nil, 404, 500},
	} {
		d := &daemon{}
		c.o.API = d
		w := exchange{path: c.path, header: c.header}.do(t, newPage(t, c.o))
		if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.says) || len(body) > c.atMost {
			t.Errorf("%.40s: %d, %d bytes: %.600s", c.path, w.Code, len(body), body)
		}
		if d.asked.Load() != nil {
			t.Errorf("%.40s: the daemon was asked", c.path)
		}
	}
}
