package status

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/status/openapi"
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

// TestOpenAPI: every route is described, by its true types, and the file is what the
// routes say.
func TestOpenAPI(t *testing.T) {
	text, table := described(t)
	routes := map[string]bool{}
	for _, rt := range table {
		name := rt.method + " " + rt.path
		routes[name] = true
		if _, ok := openapi.Shapes[name]; !ok && !strings.HasPrefix(rt.path, "/v1/onion") && rt.path != "/v1/openapi.json" {
			t.Errorf("%s has no shape", name)
		}
	}
	for name := range openapi.Shapes {
		if !routes[name] {
			t.Errorf("%s is no route", name)
		}
	}
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(openAPIFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(openAPIFile); err != nil || !bytes.Equal(file, text) {
		t.Errorf("%s is stale (%v): SKEIN_UPDATE=1 go test ./status -run OpenAPI", openAPIFile, err)
	}
}

var document struct {
	once sync.Once
	doc  *openapi3.T
	err  error
}

// conforms checks an answer, and the body that was sent for it, against the
// description. What is no JSON, and streams, are not checked.
func conforms(t *testing.T, method, path, body string, status int, answer string) {
	t.Helper()
	document.once.Do(func() {
		text, err := os.ReadFile(openAPIFile)
		if err == nil {
			document.doc, err = openapi3.NewLoader().LoadFromData(text)
		}
		document.err = err
	})
	if document.err != nil {
		t.Fatal(document.err)
	}
	check := func(what string, schema *openapi3.SchemaRef, text string) {
		t.Helper()
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return // that it is JSON is for others to test
		}
		if err := schema.Value.VisitJSON(v); err != nil {
			t.Errorf("%s %s: %s: %v", method, path, what, err)
		}
	}
	if status >= http.StatusBadRequest {
		if strings.Contains(answer, `"code":`) {
			check("problem", document.doc.Components.Schemas["Problem"], answer)
		}
		return
	}
	plain, _, _ := strings.Cut(path, "?")
	parts := strings.Split(plain, "/")
	for name, item := range document.doc.Paths.Map() {
		want := strings.Split(name, "/")
		fits := len(want) == len(parts)
		for i := range want {
			fits = fits && (want[i] == parts[i] || strings.HasPrefix(want[i], "{"))
		}
		op := item.GetOperation(method)
		if !fits || op == nil || strings.Contains(name, "{") && item.GetOperation(method) == nil {
			continue
		}
		if exact := document.doc.Paths.Value(plain); exact != nil && exact != item {
			continue
		}
		if op.RequestBody != nil && body != "" {
			check("request", op.RequestBody.Value.Content["application/json"].Schema, body)
		}
		if kind := op.Responses.Value("200").Value.Content["application/json"]; kind != nil {
			check("answer", kind.Schema, answer)
		}
	}
}
