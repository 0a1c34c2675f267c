package status

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
)

// TestPatience: a request takes no longer than whoever asks waits, and no longer than
// its route may.
func TestPatience(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Second, "1": time.Millisecond, "4294967295": 10 * time.Second} {
		r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
		if text != "" {
			r.Header.Set(api.HeaderTimeout, text)
		}
		if got, err := patience(r, 10*time.Second); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	r := start(t, newFake(), nil)
	for _, text := range []string{"0", "-1", "soon", "1.5", "99999999999"} {
		if code, _, body := r.ask(t, "GET", "/v1/status", "", api.HeaderTimeout, text); code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", text, code, body)
		}
	}
	// A reader of what this host does not have yet waits that long, not five seconds.
	began := time.Now()
	code, _, body := r.ask(t, "GET", "/v1/jobs?min=n1/1:99", "", api.HeaderTimeout, "50")
	if code != http.StatusGatewayTimeout || time.Since(began) > freshTime/2 {
		t.Errorf("after %s: %d %s", time.Since(began), code, body)
	}
	// The end of a stream is that of its reader's time.
	began = time.Now()
	if code, _, _ := r.ask(t, "GET", "/v1/events?follow=true", "", api.HeaderTimeout, "50"); code != http.StatusOK || time.Since(began) > 5*time.Second {
		t.Errorf("a stream of %s: %d", time.Since(began), code)
	}
}
