package status

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/stream"
)

const openAPIFile = "../docs/openapi.json"

func described(t testing.TB) ([]byte, []route) {
	t.Helper()
	s, _ := usersServer(t, func(_ *fake, o *Options) { o.Gatherer = prometheus.NewRegistry() })
	table := s.handlers.table()
	text, err := json.MarshalIndent(openapi.Describe(told(table)), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n'), table
}

// TestOpenAPI: the file is what the routes say, and OpenAPI.
func TestOpenAPI(t *testing.T) {
	text, _ := described(t)
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(openAPIFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(openAPIFile); err != nil || !bytes.Equal(file, text) {
		t.Errorf("%s is stale (%v): SKEIN_UPDATE=1 go test ./status -run OpenAPI", openAPIFile, err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnknownParameters: no route takes a parameter that is not described, or one
// twice that it takes once.
func TestUnknownParameters(t *testing.T) {
	s, _ := usersServer(t, nil)
	ask := func(rt route, query string) (int, string) {
		path := strings.NewReplacer("{id}", string(jobA), "{name}", "x", "{node}", "n3", "{address}", "a", "{inc}", "1", "{seq}", "1").Replace(rt.path)
		return asAdmin(t, s, rt.method, path+"?"+query, "")
	}
	for _, rt := range s.handlers.table() {
		for query, want := range map[string]string{"colour=red": "unknown parameter", "%zz": "query", "idempotency-key=x": "unknown parameter"} {
			if code, text := ask(rt, query); code != http.StatusBadRequest || !strings.Contains(text, want) {
				t.Errorf("%s %s?%s: %d %s", rt.method, rt.path, query, code, text)
			}
		}
		for _, p := range rt.shape.Params {
			if p.Header || p.Many() {
				continue
			}
			if code, text := ask(rt, p.Name+"=1&"+p.Name+"=1"); code != http.StatusBadRequest || !strings.Contains(text, "2 times") {
				t.Errorf("%s %s with two of %s: %d %s", rt.method, rt.path, p.Name, code, text)
			}
		}
	}
}

// newServer is New of all tests of this package: what is asked and answered is held
// against the description.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{t: t, next: s.mux}
	t.Cleanup(c.end)
	s.mux = c
	return s
}

// TestEveryServerIsHeldToTheContract: tests make servers by newServer, but for those
// that are refused.
func TestEveryServerIsHeldToTheContract(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name == "TestOptions" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "New" {
					if found++; fn.Name.Name != "newServer" {
						t.Errorf("%s of %s makes a server that is not held against the description: use newServer", fn.Name.Name, name)
					}
				}
				return true
			})
		}
	}
	if found != 1 {
		t.Errorf("%d calls of New", found)
	}
}

// heard is a test that only hears what is wrong.
type heard struct {
	testing.TB
	errors int
}

func (h *heard) Name() string          { return "" }
func (h *heard) Errorf(string, ...any) { h.errors++ }

// TestContract: what is not as described is noticed.
func TestContract(t *testing.T) {
	const head = `{"api_version":"1","node":"n1","observed_at":"2026-01-02T03:04:05Z","position":0`
	const problem = head + `,"type":"","title":"","detail":"","retry_after_seconds":null,"status":404,"code":`
	for _, tc := range []struct {
		name, method, path, body, kind string
		status                         int
		answer                         string
		wrong                          bool
	}{
		{"good", "GET", "/healthz", "", "application/json", 503, head + `,"ok":false}`, false},
		{"a field that nobody knows", "GET", "/healthz", "", "application/json", 200, head + `,"ok":true,"okay":true}`, true},
		{"a field of another type", "GET", "/healthz", "", "application/json", 200, head + `,"ok":"yes"}`, true},
		{"a field is missing", "GET", "/healthz", "", "application/json", 200, head + `}`, true},
		{"no JSON", "GET", "/healthz", "", "application/json", 200, "fine", true},
		{"another media type", "GET", "/healthz", "", "text/plain", 200, head + `,"ok":true}`, true},
		{"a problem", "GET", "/healthz", "", "application/problem+json", 404, problem + `"not_found"}`, false},
		{"a problem with a code of its own", "GET", "/healthz", "", "application/problem+json", 404, problem + `"lost"}`, true},
		{"a problem that is none", "GET", "/healthz", "", "application/json", 404, head + `,"ok":true}`, true},
		{"no such operation", "GET", "/v1/nothing", "", "application/json", 200, head + `}`, true},
		{"lines", "GET", "/v1/events", "", "application/x-ndjson", 200, "\n{\"cursor\":\"n1/1:1\"}\n", false},
		{"a line of another kind", "GET", "/v1/events", "", "application/x-ndjson", 200, "{\"cursor\":\"n1/1:1\"}\n{\"end\":true}\n", true},
		{"an event of another kind", "GET", "/v1/events", "", "text/event-stream", 200, "event: end\ndata: {\"end\":true}\n\n", true},
		{"a watch", "GET", "/v1/watch", "", "text/event-stream", 200, "id: a\nevent: bye\ndata: {\"end\":true}\n\n", false},
		{"a request that is refused", "POST", "/v1/lease/step-down", `{"to":7}`, "application/problem+json", 404, problem + `"not_found"}`, false},
		{"a request that should be", "PUT", "/v1/members/n1/owner", `{"owner":7}`, "application/json", 200, head + `,"host":"n1","owner":"x"}`, true},
		{"a parameter of another type", "GET", "/v1/jobs?limit=many", "", "application/json", 200, head + `,"jobs":[]}`, true},
	} {
		h := &heard{}
		mux := http.NewServeMux()
		pattern := strings.Replace(strings.Split(tc.path, "?")[0], "n1", "{node}", 1)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", tc.kind)
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.answer)
		})
		(&contract{t: h, next: mux}).ServeHTTP(httptest.NewRecorder(), asked(t, tc.method, tc.path, tc.body))
		if h.errors > 0 != tc.wrong {
			t.Errorf("%s: %d errors", tc.name, h.errors)
		}
	}
}

var apiDocument = sync.OnceValues(func() (*openapi3.T, error) {
	text, err := os.ReadFile(openAPIFile)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	// Fields may be added to answers; here there are none that nobody has described.
	for _, s := range doc.Components.Schemas {
		if s.Value.Type.Is("object") && s.Value.Properties != nil {
			s.Value.AdditionalProperties = openapi3.BoolSchema{Has: new(false)}
		}
	}
	return doc, nil
})

// contract checks what goes through it.
type contract struct {
	t    testing.TB
	next http.Handler

	mu    sync.Mutex
	ended bool // the test has; guarded by mu
}

func (c *contract) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// kept is what is looked at of a body.
const kept = 4 << 20

// ServeHTTP implements http.Handler.
func (c *contract) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked bytes.Buffer
	if r.Body != nil {
		r.Body = readCloser{io.TeeReader(r.Body, &asked), r.Body}
	}
	seen := &answered{ResponseWriter: w}
	c.next.ServeHTTP(seen, r)
	err := seen.check(r, asked.Bytes(), strings.HasPrefix(c.t.Name(), "Fuzz"))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.ended {
		c.t.Errorf("%s %s: %d %.300s: not as described: %v", r.Method, r.URL, seen.status, seen.body.String(), err)
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// answered keeps an answer on its way.
type answered struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	broke  bool // the reader went away, or there is more than is kept
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answered) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(b []byte) (int, error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	n, err := a.ResponseWriter.Write(b)
	a.broke = a.broke || err != nil || a.body.Len() > kept
	if !a.broke {
		a.body.Write(b)
	}
	return n, err
}

// check holds an exchange against the description: an answer always, a request unless
// it was refused. Lax leaves requests out: null, by a fuzzer, is taken for an empty body.
func (a *answered) check(r *http.Request, asked []byte, lax bool) error {
	doc, err := apiDocument()
	if err != nil {
		return err
	}
	item := doc.Paths.Value(r.Pattern)
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	kind := a.Header().Get("Content-Type")
	if a.status == http.StatusTemporaryRedirect {
		return nil // to the same path without dots
	}
	if item == nil || item.GetOperation(method) == nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			return fmt.Errorf("no operation of %q", r.Pattern)
		}
		return doc.Components.Responses["Problem"].Value.Content.Get(kind).Schema.Value.VisitJSON(decoded(a.body.Bytes()))
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r.Clone(r.Context()), PathParams: map[string]string{}, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: doc, Path: r.Pattern, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	for _, p := range in.Route.Operation.Parameters {
		if p.Value.In == "path" {
			in.PathParams[p.Value.Name] = r.PathValue(p.Value.Name)
		}
	}
	in.Request.Body = io.NopCloser(bytes.NewReader(asked))
	if body := in.Route.Operation.RequestBody; body != nil && in.Request.Header.Get("Content-Type") == "" {
		for kind := range body.Value.Content {
			in.Request.Header.Set("Content-Type", kind)
		}
	}
	if a.status < http.StatusBadRequest && !lax {
		if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	if a.broke || a.status == 0 {
		return nil
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.Header(), Options: in.Options}
	schema := in.Route.Operation.Responses.Value("200").Value.Content.Get("application/x-ndjson")
	where := method + " " + r.Pattern
	if a.status != http.StatusOK || schema == nil {
		return asBefore(fmt.Sprintf("%s %d %v\n%s", where, a.status, a.Header(), &a.body), func() error {
			return openapi3filter.ValidateResponse(r.Context(), out.SetBodyBytes(a.body.Bytes()))
		})
	}
	for line := range linesOf(kind == stream.SSEType, r.Pattern == "/v1/watch", a.body.String()) {
		if err := asBefore(where+"\n"+line, func() error { return schema.Schema.Value.VisitJSON(decoded([]byte(line))) }); err != nil {
			return fmt.Errorf("line %.300s: %w", line, err)
		}
	}
	return nil
}

// fine are the sums of the answers that were found to be as described.
var fine sync.Map

// asBefore checks an answer unless the very same one was found to be fine: to look at
// one compiles its schema, and some tests ask the same a thousand times.
func asBefore(answer string, check func() error) error {
	sum := sha256.Sum256([]byte(answer))
	if _, known := fine.Load(sum); known {
		return nil
	}
	if err := check(); err != nil {
		return err
	}
	fine.Store(sum, true)
	return nil
}

// linesOf are the lines of a stream. Server-sent events of a watch are the parts of its
// lines.
func linesOf(sse, watch bool, text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		id, event := "", ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if sse {
				name, value, _ := strings.Cut(line, ": ")
				switch name {
				case "id":
					id = value
				case "event":
					event = value
				}
				if name != "data" {
					continue
				}
				if line = value; watch {
					line = fmt.Sprintf(`{"id":%q,"event":%q,"data":%s}`, id, event, value)
				}
			}
			if line != "" && !yield(line) {
				return
			}
		}
	}
}

func decoded(text []byte) any {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error() // which is no object
	}
	return v
}
