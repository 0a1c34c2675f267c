package status

import (
	"net/http"
	"testing"
)

// TestPast asks for the past in every way, and in ways that are none.
func TestPast(t *testing.T) {
	s, _ := usersServer(t, nil)
	for query, want := range map[string]int{
		"/v1/replay": http.StatusOK,
		"/v1/replay?at=2026-01-02T03:04:05Z&hindsight=1": http.StatusOK,
		"/v1/replay?at=10m":                            http.StatusOK,
		"/v1/replay?at=n1/1:5":                         http.StatusBadRequest, // the fake has none
		"/v1/replay?at=yesterday":                      http.StatusBadRequest,
		"/v1/replay?hindsight=maybe":                   http.StatusBadRequest,
		"/v1/log/density":                              http.StatusOK,
		"/v1/log/density?since=2h&until=1h&spans=1000": http.StatusOK,
		"/v1/log/density?spans=0":                      http.StatusBadRequest,
		"/v1/log/density?spans=1001":                   http.StatusBadRequest,
		"/v1/log/density?since=n1/1:5":                 http.StatusBadRequest,
		"/v1/log/density?until=never":                  http.StatusBadRequest,
	} {
		if got, body := asAdmin(t, s, http.MethodGet, query, ""); got != want {
			t.Errorf("%s: %d, want %d: %s", query, got, want, body)
		}
	}
}
