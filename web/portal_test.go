package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestPortalFiles: the page and all that it names are served, under a policy and for ever but
// the page itself; what only tests load is not.
func TestPortalFiles(t *testing.T) {
	h, err := Portal("")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	page := get("/")
	if page.Code != 200 || page.Header().Get("Content-Security-Policy") != PortalPolicy || page.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", page.Code, page.Header())
	}
	named := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(named) < 2 {
		t.Fatalf("the page names %v", named)
	}
	for _, n := range named {
		if w := get("/" + n[1]); w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", n[1], w.Code, w.Header())
		}
	}
	for _, path := range []string{"/work.js", "/sources.sum", "/../handler.go", "/dist/index.html"} {
		if w := get(path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for name := range mustPortal(t) {
		if strings.HasPrefix(name, "/work") || name == "/sources.sum" {
			t.Errorf("%s is served", name)
		}
	}
}

// TestPortalConnects: a page that connects elsewhere may do that, and nothing more.
func TestPortalConnects(t *testing.T) {
	h, err := Portal("wss://rt.example.org:8443/connection/websocket")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	want := strings.Replace(PortalPolicy, "connect-src 'self';", "connect-src 'self' wss://rt.example.org:8443;", 1)
	if got := w.Header().Get("Content-Security-Policy"); got != want || got == PortalPolicy {
		t.Errorf("%s", got)
	}
}

func mustPortal(t *testing.T) map[string]asset {
	t.Helper()
	files, err := assets(portal, "worker/dist")
	if err != nil {
		t.Fatal(err)
	}
	return files
}
