package status

import (
	"net/http"
	"strings"
	"testing"
)

// TestSubmitAfter: jobs that another is to wait for are named by their beginning, and must
// be seen by whoever asks.
func TestSubmitAfter(t *testing.T) {
	r := start(t, newFake(), nil)
	submit := func(after string) (int, string) {
		code, _, text := r.ask(t, http.MethodPost, "/v1/jobs", `{"spec":{"key":"k","artefact":"`+strings.Repeat("ab", 32)+`","iterations":10,"chunk":10,"after":[`+after+`]}}`)
		return code, text
	}
	if code, text := submit(`"` + string(jobA[:6]) + `:failed"`); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if code, text := submit(`"jnix"`); code != http.StatusNotFound || !strings.Contains(text, "after: ") {
		t.Errorf("a job that there is not: %d %s", code, text)
	}
	for _, after := range []string{
		`"` + string(jobA) + `:ok"`, `""`, `"` + string(jobA) + `","` + string(jobA[:6]) + `:done"`, strings.TrimSuffix(strings.Repeat(`"jx",`, 65), ","),
	} {
		if code, text := submit(after); code == http.StatusOK || !strings.Contains(text, "after") || !strings.Contains(text, "invalid_job") {
			t.Errorf("after %.80s: %d %s", after, code, text)
		}
	}
}
