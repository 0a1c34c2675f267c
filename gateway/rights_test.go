package gateway

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// Who may ask for something.
const (
	anybody = iota
	bySignature
	byAccess      // an access token of whatever role
	byWork        // an access token for work
	byWatch       // an access token to watch, or to submit
	ownerOrWorker // the worker itself, or an access token of its owner
	byWorker      // a worker's own token
	overConn      // who connects proves it over the connection: TestRealtime
)

// rights is what each route of the gateway takes, said a second time: a change of it is
// meant. What users ask is not here: it is a part of the API of hosts, of which package
// status walks every route.
var rights = map[string]int{
	"GET /v1/info": anybody, "GET /healthz": anybody, "GET /readyz": anybody, "GET /.well-known/jwks.json": anybody,
	"GET /{file}": anybody, "GET /{$}": anybody,
	"POST /v1/workers/register": bySignature, "POST /v1/workers/token": bySignature,
	"GET /v1/workers": byAccess, "POST /v1/workers/claim": byWork, "DELETE /v1/workers/{worker}": byWork,
	"POST /v1/realtime/token":  byWatch,
	"GET /v1/workers/{worker}": ownerOrWorker,
	"POST /v1/rpc/{method}":    byWorker, "GET /v1/artefacts/{hash}": byWorker,
	"GET /v1/realtime": overConn,
}

// TestRightsOfRoutes: who asks for what is not the asker's is refused, at every route, and
// each route that the gateway serves has its row.
func TestRightsOfRoutes(t *testing.T) {
	served := patterns(t)
	for _, p := range served {
		if _, said := rights[p]; !said {
			t.Errorf("%s has no row in this test", p)
		}
	}
	for p := range rights {
		if !slices.Contains(served, p) {
			t.Errorf("%s is not served", p)
		}
	}
	type caller struct {
		how    string
		token  func(f *floor, own string) string
		signs  bool
		access bool // shows an access token
		work   bool // for work
		ours   bool // of the worker's owner, or the worker
		worker bool
	}
	for _, c := range []caller{
		{how: "nobody", token: func(*floor, string) string { return "" }},
		{how: "an access token that is none", token: func(*floor, string) string { return "skt_x" }},
		{how: "a worker's token that is none", token: func(*floor, string) string { return "a.b.c" }},
		{how: "a worker's signature", token: func(*floor, string) string { return "" }, signs: true},
		{how: "the owner, for work", token: func(f *floor, _ string) string { return f.token("user:ann", "work") }, access: true, work: true, ours: true},
		{how: "the owner, to watch", token: func(f *floor, _ string) string { return f.token("user:ann", "watch") }, access: true, ours: true},
		{how: "another, for work", token: func(f *floor, _ string) string { return f.token("user:bob", "work") }, access: true, work: true},
		{how: "another, to watch", token: func(f *floor, _ string) string { return f.token("user:bob", "watch") }, access: true},
		{how: "the worker", token: func(_ *floor, own string) string { return own }, worker: true, ours: true},
		{how: "another worker", token: func(f *floor, _ string) string { _, token := f.hired(2); return token }, worker: true},
	} {
		f := startFloor(t) // refusals of an address are counted
		id, own := f.hired(1)
		text := c.token(f, own)
		for _, p := range served {
			method, path, _ := strings.Cut(p, " ")
			path = strings.NewReplacer("{worker}", string(id), "{method}", api.RPCAttach, "{hash}", strings.Repeat("0", 64), "{file}", "x", "{$}", "").Replace(path)
			var body any
			switch p {
			case "POST /v1/workers/register":
				body = newComputer(1).register("")
			case "POST /v1/workers/token":
				body = api.WorkerTokenRequest{Client: 1}
			case "POST /v1/workers/claim":
				body = api.WorkerClaim{ClaimCode: "7K3QD-0V9XW"}
			case "POST /v1/rpc/{method}":
				body = attaching()
			}
			var req *http.Request
			if c.signs && method == http.MethodPost {
				signer := newComputer(1)
				signer.nonce = byte(100 + slices.Index(served, p))
				req = signer.signed(f.world, path, body, nil)
			} else {
				text, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				if req, err = http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, bytes.NewReader(text)); err != nil {
					t.Fatal(err)
				}
				req.Header.Set(access.HeaderKey, string(id)) // it says who it is, without a proof
			}
			if text != "" {
				req.Header.Set("Authorization", "Bearer "+text)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := 0 // anything but a refusal of who asks
			switch rights[p] {
			case bySignature:
				if !c.signs {
					want = http.StatusUnauthorized
				}
			case byAccess, byWork, byWatch:
				switch {
				case !c.access:
					want = http.StatusUnauthorized
				case rights[p] == byWork && !c.work, rights[p] == byWatch && c.work:
					want = http.StatusForbidden
				case strings.Contains(p, "{worker}") && !c.ours:
					want = http.StatusNotFound
				}
			case ownerOrWorker:
				switch {
				case !c.access && !c.worker:
					want = http.StatusUnauthorized
				case !c.ours:
					want = http.StatusNotFound
				}
			case byWorker:
				switch {
				case c.worker:
				case c.access:
					want = http.StatusForbidden
				default:
					want = http.StatusUnauthorized
				}
			case overConn:
				want = http.StatusBadRequest // this is no connection
			}
			refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusTooManyRequests
			if want != 0 && resp.StatusCode != want || want == 0 && refused {
				t.Errorf("%s by %s: %d, want %d", p, c.how, resp.StatusCode, want)
			}
		}
	}
}

// patterns are the routes with a method that Gateway.routes serves, as its source says.
func patterns(t *testing.T) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "handlers.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "routes" {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " /") {
					list = append(list, text)
				}
			}
			return true
		})
	}
	if len(list) < 10 {
		t.Fatalf("routes of the gateway: %q", list)
	}
	return list
}
