package status

import (
	"net/http"
	"strings"
	"testing"
)

// TestJobLogs: what attempts wrote is a line each, of a job that is there, and bad
// questions are refused before anybody is asked.
func TestJobLogs(t *testing.T) {
	r := start(t, newFake(), nil)
	code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/logs?chunk=7&failed=true", "")
	if want := `"chunk":7,"attempt":1,"worker":"n1","seconds":2,"error":"exit code 3","text":"no licence\n"`; code != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("%d %s", code, text)
	}
	for _, bad := range []string{"chunk=-1", "chunk=x", "chunk=1048576", "attempt=0", "failed=perhaps", "follow=2", "lines=3"} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/logs?"+bad, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
	if code, _, _ := r.ask(t, http.MethodGet, "/v1/jobs/jzzz/logs", ""); code != http.StatusNotFound {
		t.Errorf("a job that is not there: %d", code)
	}
}
