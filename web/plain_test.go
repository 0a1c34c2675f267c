package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// nasty is what somebody may write wherever texts are taken.
const nasty = "<img src=x onerror=alert(1)>\u202egnp.exe\x1b[31m\x00\u2028\"'></td></table><script>window.owned=1</script>&lt;"

// written answers as a daemon does whose every text is s.
func written(s string) func(*http.Request) (*http.Response, error) {
	type fields map[string]any
	at := "2026-01-02T03:04:05Z"
	head := fields{"api_version": "1", "node": s, "observed_at": at}
	with := func(more fields) fields {
		for k, v := range head {
			if _, there := more[k]; !there {
				more[k] = v
			}
		}
		return more
	}
	lease := fields{"holder": s, "term": 7, "mode": s, "profile": s, "publisher": s, "publish_why": s, "abstaining": []string{s}, "blocked": s, "config": fields{"voters": []string{s}}}
	bodies := map[string]fields{
		"/v1/status":        {"cluster": s, "state": s, "reasons": []string{s}, "role": s, "lease": lease, "mesh": fields{"backend": s, "interface": s, "address": s}, "publish": fields{"state": s, "reason": s, "by": s}},
		"/v1/members":       {"members": []fields{{"node": s, "addr": s, "state": s, "role": s, "path": s, "version": s, "zone": s, "endpoints": []string{s, s}, "reason": s}}},
		"/v1/lease":         lease,
		"/v1/lease/history": {"terms": []fields{{"term": 7, "holder": s, "cause": s, "successor": s, "previous": s, "grants": []string{s}}}},
		"/v1/lease/voters":  {"voters": []fields{{"node": s, "zone": s, "state": s, "abstaining": s}}},
		"/v1/jobs":          {"jobs": []fields{{"id": s, "name": s, "owner": s, "state": s}}},
		"/v1/jobs/one":      {"id": s, "name": s, "owner": s, "state": s, "reason": s, "waits": s, "failures": []fields{{"worker": s, "reason": s}}, "aggregates": fields{s: fields{"n": 1}}},
		"/v1/workflows":     {"workflows": []fields{{"id": s, "name": s, "owner": s, "state": s, "reason": s}}},
		"/v1/workflows/one": {"id": s, "name": s, "owner": s, "state": s, "reason": s, "stopped_by": s, "stop_reason": s, "steps": []fields{{
			"name": s, "role": s, "state": s, "reason": s, "after": []string{s}, "instances": []fields{{"state": s, "outputs": fields{s: s}}},
		}}},
		"/v1/workers": {"workers": []fields{{"node": s, "live": s, "progress": s, "verdict": s, "owner": s, "accept": s, "accept_names": []string{s}}}},
		"/v1/onion":   {"tor": fields{"enabled": true, "version": s, "state": s, "reason": s}, "problems": []string{s}, "addresses": []fields{{"address": s, "publisher": s, "keepers": []string{s}, "clients": []string{s}}}, "hosts": []fields{{"node": s, "health": s, "left_out": s}}},
		"/v1/version": {},
	}
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v1/events" {
			line, err := json.Marshal(with(fields{"source": fields{"node": s, "inc": 1}, "seq": 1, "kind": "lease_released", "time": at, "body": fields{"term": 7, "successor": s, "reason": s}}))
			if err != nil {
				return nil, err
			}
			other, err := json.Marshal(with(fields{"source": fields{"node": s, "inc": 1}, "seq": 2, "kind": s, "time": at, "body": fields{s: s}}))
			return answered(200, "application/x-ndjson", string(line)+"\n"+string(other)+"\n"), err
		}
		body, ok := bodies[r.URL.Path]
		if !ok {
			return nil, fmt.Errorf("asked %s", r.URL)
		}
		text, err := json.Marshal(with(body))
		return answered(200, "application/json", string(text)), err
	}
}

var plainPaths = []string{"overview", "members?gone=on&wide=on", "lease?wide=on", "events", "jobs?wide=on", "jobs?job=one", "workflows?wide=on", "workflows?run=one", "workers?wide=on", "onion?wide=on"}

// TestPlainHostile: whatever others write is text, cut, with what cannot be seen made
// visible, on every plain page and on the page that is served with data.
func TestPlainHostile(t *testing.T) {
	long := strings.Repeat("ä", 64<<10)
	for name, text := range map[string]string{
		"markup":    nasty,
		"bad UTF-8": "a\xff\xfe<b>\xc3(",
		"long":      long,
		"long bidi": strings.Repeat("\u202e\u2066\u200f\u061c", 16<<10),
		"as markup": "&#60;script&#62;", "a quote": `" onmouseover="alert(1)`, "a link": "javascript:alert(1)",
	} {
		h := newPage(t, Options{API: &daemon{say: written(text)}, ReadOnly: true})
		paths := []string{"/"}
		for _, p := range plainPaths {
			paths = append(paths, "/p/"+p)
		}
		for _, path := range paths {
			w := exchange{path: path}.do(t, h)
			page := w.Body.String()
			if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || w.Header().Get("Content-Security-Policy") != policy {
				t.Fatalf("%s: %s: %d %v", name, path, w.Code, w.Header())
			}
			if !utf8.ValidString(page) || strings.ContainsAny(page, "\x00\x1b\u202e\u2066\u2028\u200f\u061c") {
				t.Errorf("%s: %s has what cannot be seen", name, path)
			}
			if len(page) > 60<<10 {
				t.Errorf("%s: %s is %d bytes", name, path, len(page))
			}
			judge(t, name+": "+path, page)
		}
		if name == "long" && !strings.Contains(exchange{path: "/p/jobs"}.do(t, h).Body.String(), strings.Repeat("ä", mostWord)+"…") {
			t.Error("what is too long is not cut where it should be")
		}
		if name == "markup" && !strings.Contains(exchange{path: "/p/jobs"}.do(t, h).Body.String(), "&lt;img src=x onerror=alert(1)&gt;\uFFFDgnp.exe\uFFFD[31m\uFFFD\uFFFD") {
			t.Error("a text is not shown as it is")
		}
	}
}

// judge reads a page as a browser does: only elements that this program writes, no
// handler, no address but of this page.
func judge(t *testing.T, what, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	elements := map[string]bool{}
	for e := range strings.FieldsSeq("html head meta title link body header div strong span nav a main h1 h2 p section dl dt dd table thead tbody tr th td bdi form label input select option button script noscript code") {
		elements[e] = true
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && !elements[n.Data] {
			t.Errorf("%s: an element %s", what, n.Data)
		}
		for _, a := range n.Attr {
			u, err := url.Parse(a.Val)
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style":
				t.Errorf("%s: an attribute %s", what, a.Key)
			case a.Key == "href" || a.Key == "src":
				if err != nil || u.IsAbs() || u.Host != "" {
					t.Errorf("%s: a way to %q", what, a.Val)
				}
			case len(a.Val) > 4*mostWord:
				t.Errorf("%s: attribute %s has %d bytes", what, a.Key, len(a.Val))
			}
		}
		if n.Type == html.ElementNode && n.Data == "script" && n.FirstChild != nil {
			t.Errorf("%s: a script of its own", what)
		}
	}
}

// TestPlainPages: what a form sends chooses the rows, and every page leads to the others.
func TestPlainPages(t *testing.T) {
	var last string
	d := &daemon{}
	say := written("n2")
	d.say = func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/v1/events" {
			last = r.URL.RawQuery
		}
		if r.URL.Path == "/v1/members" && r.URL.RawQuery == "" {
			return answered(200, "application/json", `{"node":"n1","observed_at":"2026-01-02T03:04:05Z","members":[{"node":"n1","state":"alive","self":true},{"node":"n2","state":"dead"}]}`), nil
		}
		return say(r)
	}
	h := newPage(t, Options{API: d})
	get := func(path string) string {
		t.Helper()
		w := exchange{path: path}.do(t, h)
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	for _, p := range plainPaths {
		page := get("/p/" + p)
		for _, other := range plainPages() {
			if !strings.Contains(page, `href="`+other.name+`"`) {
				t.Errorf("%s does not lead to %s", p, other.name)
			}
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "svg") {
			t.Errorf("%s has a script or a picture", p)
		}
		if strings.Contains(page, "Not shown") {
			t.Errorf("%s: %s", p, page)
		}
	}
	for path, c := range map[string][2]string{
		"/p/members":                   {">n1*</bdi>", ""},
		"/p/members?state=dead":        {">n2</bdi>", ">n1*</bdi>"},
		"/p/members?q=DEAD+n2":         {">n2</bdi>", ">n1*</bdi>"},
		"/p/members?q=dead+n1":         {"No such host.", ">n2</bdi>"},
		"/p/members?state=%3Cb%3E":     {"No such host.", "<b>"},
		"/p/members?wide=on":           {"ADDR6", ""},
		"/p/events?q=successor":        {"No such event.", "n2 released"},
		"/p/events?kind=%22%3E%3Cb%3E": {"&#34;&gt;&lt;b&gt;", "<b>"},
	} {
		page := get(path)
		if !strings.Contains(page, c[0]) || c[1] != "" && strings.Contains(page, c[1]) {
			t.Errorf("%s: want %q, not %q: %s", path, c[0], c[1], page)
		}
	}
	get("/p/events?kind=lease*&node=n3&entity=node:n1&last=10&since=2h")
	q, err := url.ParseQuery(last)
	if err != nil || q.Get("kind") != "lease*" || q.Get("node") != "n3" || q.Get("entity") != "node:n1" || q.Get("tail") != "10" || q.Get("since") == "" {
		t.Errorf("asked for events %s", last)
	}
	get("/p/events?last=99999&kind=" + strings.Repeat("x", 70000))
	if q, err = url.ParseQuery(last); err != nil || q.Get("tail") != "100" || q.Get("kind") != "" {
		t.Errorf("asked for events %.100s", last)
	}
	for path, code := range map[string]int{"/p/nothing": 404, "/p/": 404, "/p/members/x": 404, "/p/events?since=whenever": 400} {
		if w := (exchange{path: path}).do(t, h); w.Code != code {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := (exchange{method: "POST", path: "/p/members", body: "{}"}).do(t, h); w.Code != 404 {
		t.Errorf("a POST: %d", w.Code)
	}
	d.say = func(*http.Request) (*http.Response, error) {
		return answered(429, "application/problem+json", `{"code":"overloaded","status":429,"detail":"<b>later","hint":"<i>"}`), nil
	}
	if w := (exchange{path: "/p/jobs"}).do(t, h); w.Code != 429 || !strings.Contains(w.Body.String(), "&lt;b&gt;later") {
		t.Errorf("a daemon that refuses: %d %s", w.Code, w.Body)
	}
	d.say = func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	if w := (exchange{path: "/p/jobs"}).do(t, h); w.Code != 503 || !strings.Contains(w.Body.String(), "does not answer") {
		t.Errorf("no daemon: %d %s", w.Code, w.Body)
	}
}

// TestManyRows: a table is bounded, and says how many rows it leaves out.
func TestManyRows(t *testing.T) {
	var list []string
	for i := range mostRows + 7 {
		list = append(list, fmt.Sprintf(`{"node":"n%d","live":"alive"}`, i))
	}
	h := newPage(t, Options{API: &daemon{say: func(*http.Request) (*http.Response, error) {
		return answered(200, "application/json", `{"node":"n1","workers":[`+strings.Join(list, ",")+`]}`), nil
	}}})
	page := exchange{path: "/p/workers"}.do(t, h).Body.String()
	if n := strings.Count(page, "<tr>"); n != mostRows+1 || !strings.Contains(page, "and 7 more") {
		t.Errorf("%d rows", n)
	}
}

// TestOpen: where everybody may read the page comes with data, and says where its
// script finds the API; where a code is wanted it has none.
func TestOpen(t *testing.T) {
	d := &daemon{say: written("n2")}
	w := exchange{path: "/"}.do(t, newPage(t, Options{API: d, Base: "/ui", ReadOnly: true, Naming: "status.listen"}))
	page := w.Body.String()
	if w.Code != 200 || !strings.Contains(page, `<div id="plain" data-base="/ui">`) || !strings.Contains(page, ">n2</bdi>") || !strings.Contains(page, `href="p/members"`) ||
		!strings.Contains(page, `<div id="app"></div>`) || strings.Contains(page, "noscript") || !regexp.MustCompile(`<script [^>]*src="/assets/`).MatchString(page) {
		t.Errorf("%d %s", w.Code, page)
	}
	d.say = func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	if w := (exchange{path: "/"}).do(t, newPage(t, Options{API: d})); w.Code != 200 || !strings.Contains(w.Body.String(), `id="plain"`) {
		t.Errorf("without a daemon: %d", w.Code)
	}
	gate, _ := NewGate(time.Now)
	shut := newPage(t, Options{API: &daemon{say: written("n2")}, Gate: gate})
	if page := (exchange{path: "/"}).do(t, shut).Body.String(); strings.Contains(page, "n2") || strings.Contains(page, `id="plain"`) {
		t.Error("data before the code was traded")
	}
	if w := (exchange{path: "/p/members"}).do(t, shut); w.Code != 404 {
		t.Errorf("a plain page without a code: %d", w.Code)
	}
}

// TestBase: below a base the page asks the API and acts on nothing; elsewhere there is
// nothing of the API.
func TestBase(t *testing.T) {
	d := &daemon{}
	h := newPage(t, Options{API: d, Base: "/ui", ReadOnly: true, Naming: "status.listen"})
	if w := (exchange{path: "/ui/v1/jobs/a%2Fb/map?x=1"}).do(t, h); w.Code != 200 || d.asked.Load().URL.String() != "http://skein/v1/jobs/a%2Fb/map?x=1" {
		t.Errorf("%d, asked %s", w.Code, d.asked.Load().URL)
	}
	d.say = func(*http.Request) (*http.Response, error) {
		return answered(200, "application/json", `{"name":"uid:0","role":"operator","rights":{"look":"all","read":"all","use":"all","operate":"all"},"may_change":true}`), nil
	}
	if w := (exchange{path: "/ui/v1/whoami"}).do(t, h); w.Code != 200 || !strings.Contains(w.Body.String(), `"may_change":false`) || !strings.Contains(w.Body.String(), `"use":"none","operate":"none"`) {
		t.Errorf("who asks: %d %s", w.Code, w.Body)
	}
	d.asked.Store(nil)
	for _, e := range []struct {
		exchange
		code int
		says string
	}{
		{exchange{path: "/v1/status"}, 404, ""},
		{exchange{path: "/ui/v1/tokens"}, 404, ""},
		{exchange{path: "/ui/v1/config"}, 404, ""},
		{exchange{method: "POST", path: "/ui/v1/leave", body: "{}"}, 404, ""},
		{exchange{method: "POST", path: "/v1/lease/step-down", body: "{}"}, 404, ""},
		{exchange{method: "POST", path: "/ui/v1/lease/step-down", body: "{}"}, 403, "skein ui"},
		{exchange{method: "POST", path: "/ui/session", body: `{"code":"x"}`}, 404, ""},
		{exchange{path: "/", host: "evil.example"}, 403, "status.listen"},
		{exchange{path: "/p/members", host: "evil.example:80"}, 403, "status.listen"},
		{exchange{path: "/p/members", header: map[string]string{"Origin": "http://evil.example"}}, 403, "status.listen"},
		{exchange{path: "/p/members", header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403, "status.listen"},
		{exchange{path: "/", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}}, 403, "status.listen"},
		{exchange{path: "/ui/v1/status", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}}, 403, "status.listen"},
	} {
		if w := e.do(t, h); w.Code != e.code || !strings.Contains(w.Body.String(), e.says) {
			t.Errorf("%s %s of %q: %d %s", e.method, e.path, e.host, w.Code, w.Body)
		}
	}
	if r := d.asked.Load(); r != nil {
		t.Errorf("the daemon was asked %s %s", r.Method, r.URL)
	}
	d.say = written("n2")
	if w := (exchange{path: "/p/members", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}}).do(t, h); w.Code != 200 {
		t.Errorf("a link from elsewhere: %d", w.Code)
	}
}

// TestPlainSecret: plain pages below a secret, and nothing else; who guesses shuts it.
func TestPlainSecret(t *testing.T) {
	gate, secret := NewStanding()
	h := newPage(t, Options{API: &daemon{say: written("n2")}, Gate: gate, Plain: true})
	if w := (exchange{path: "/" + secret + "/p/members"}).do(t, h); w.Code != 200 || !strings.Contains(w.Body.String(), ">n2</bdi>") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for path, code := range map[string]int{
		"/": 404, "/p/members": 404, "/v1/status": 404, "/" + secret: 404, "/" + secret + "/p/nothing": 404, "/" + secret + "/v1/status": 404, "/favicon.ico": 404,
		"/" + strings.ToLower(secret) + "/p/members": 401, "/%20/p/members": 401,
	} {
		if w := (exchange{path: path}).do(t, h); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := (exchange{method: "POST", path: "/" + secret + "/p/members", body: "{}"}).do(t, h); w.Code != 404 {
		t.Errorf("a POST: %d", w.Code)
	}
	for range maxTries - 2 {
		exchange{path: "/guess/p/members"}.do(t, h)
	}
	<-gate.Shut()
	if w := (exchange{path: "/" + secret + "/p/members"}).do(t, h); w.Code != 401 {
		t.Errorf("a gate that is shut lets in: %d", w.Code)
	}
}
