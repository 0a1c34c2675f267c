package status

import (
	"net/http"
	"strings"
	"testing"
)

// TestOutputs: what chunks left is listed, and answered as it is.
func TestOutputs(t *testing.T) {
	r := start(t, newFake(), nil)
	if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/outputs", ""); code != http.StatusOK || !strings.Contains(text, `"name":"rows.csv"`) || !strings.Contains(text, `"manifest":"01`) {
		t.Errorf("list: %d %s", code, text)
	}
	code, h, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/outputs/3/rows.csv", "")
	if code != http.StatusOK || text != "a,b\n" || h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Content-Length") != "4" || h.Get("ETag") != `"`+fakeOutput.Hash.String()+`"` {
		t.Errorf("file: %d %q %v", code, text, h)
	}
	for path, want := range map[string]int{
		"jaaa/outputs/2/rows.csv": http.StatusNotFound, "jaaa/outputs/3/other": http.StatusNotFound, "jaaa/outputs/-1/rows.csv": http.StatusNotFound,
		"jaaa/outputs/3/rows.csv?range=1": http.StatusBadRequest, "jzzz/outputs": http.StatusNotFound, "jzzz/outputs/3/rows.csv": http.StatusNotFound,
		"jaaa/outputs/99999999999/rows.csv": http.StatusNotFound,
	} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/"+path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
}
